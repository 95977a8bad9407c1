"""A Google ADK agent whose payments are decided in Holdpoint, with a stub model."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai import types
from holdpoint import Client
from holdpoint_google_adk import confirmation_calls, to_answer, to_approvals


class Stub(BaseLlm):
    """Calls the tool, then repeats its result."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        results = [part.function_response for part in parts if part.function_response]
        if results:
            part = types.Part(text=str(results[-1].response))
        else:
            args = {"account": "DE02", "amount": 250}
            part = types.Part(function_call=types.FunctionCall(name="transfer", args=args))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def transfer(account: str, amount: float) -> str:
    """Transfer money."""
    return f"transferred {amount:g} to {account}"


async def main() -> None:
    tool = FunctionTool(transfer, require_confirmation=True)
    agent = LlmAgent(name="billing", model=Stub(model="stub"), tools=[tool])
    runner = InMemoryRunner(agent, app_name="billing")
    session = await runner.session_service.create_session(app_name="billing", user_id="u")
    message: Any = types.Content(role="user", parts=[types.Part(text="Pay invoice 4711")])
    text = ""
    while message:
        calls = []
        async for event in runner.run_async(
            user_id="u", session_id=session.id, new_message=message
        ):
            calls += confirmation_calls(event)
            parts = event.content.parts if event.content else None
            text = next((part.text for part in parts or () if part.text), text)
        message = None
        if calls:
            decisions = await Client().decide_async(to_approvals(calls), risk="low")
            message = to_answer(calls, decisions)
    print(text)


asyncio.run(main())
