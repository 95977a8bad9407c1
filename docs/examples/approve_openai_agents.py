"""An agent of the OpenAI Agents SDK whose payments are decided in Holdpoint, with a stub model."""

import asyncio
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from holdpoint import Client
from holdpoint_openai_agents import to_answer, to_approvals
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


class Stub(Model):
    """Calls the tool, then repeats its result."""

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        items = kwargs["input"]
        results = [item["output"] for item in items if item.get("type") == "function_call_output"]
        if results:
            text = ResponseOutputText(text=str(results[0]), type="output_text", annotations=[])
            output: Any = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            output = ResponseFunctionToolCall(
                call_id="call-1",
                name="transfer",
                arguments='{"account": "DE02", "amount": 250}',
                type="function_call",
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


@function_tool(needs_approval=True)
def transfer(account: str, amount: float) -> str:
    """Transfer money."""
    return f"transferred {amount:g} to {account}"


async def main() -> None:
    agent = Agent(name="billing", model=Stub(), tools=[transfer])
    quiet = RunConfig(tracing_disabled=True)
    result = await Runner.run(agent, "Pay invoice 4711", run_config=quiet)
    while result.interruptions:
        state = result.to_state()
        decisions = await Client().decide_async(to_approvals(state), risk="low")
        result = await Runner.run(agent, to_answer(state, decisions), run_config=quiet)
    print(result.final_output)


asyncio.run(main())
