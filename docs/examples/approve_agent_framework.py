"""An agent of the Microsoft Agent Framework whose payments are decided in Holdpoint."""

import asyncio
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)
from holdpoint import Client
from holdpoint_agent_framework import to_answer, to_approvals


class Stub(FunctionInvocationLayer, BaseChatClient):
    """Calls the tool, then repeats its result."""

    async def _answer(self, messages: Any) -> ChatResponse:
        contents = [each for message in messages for each in message.contents]
        results = [each.result for each in contents if each.type == "function_result"]
        if results:
            said: Any = str(results[-1])
        else:
            arguments = '{"account": "DE02", "amount": 250}'
            said = Content.from_function_call("call-1", "transfer", arguments=arguments)
        return ChatResponse(messages=[Message(role="assistant", contents=[said])])

    def _inner_get_response(self, *, messages: Any, **_: Any) -> Any:
        return self._answer(messages)


@tool(approval_mode="always_require")
def transfer(account: str, amount: float) -> str:
    """Transfer money."""
    return f"transferred {amount:g} to {account}"


async def main() -> None:
    agent = Agent(Stub(), tools=[transfer])
    session = agent.create_session()
    response = await agent.run("Pay invoice 4711", session=session)
    while requests := response.user_input_requests:
        decisions = await Client().decide_async(to_approvals(requests), risk="low")
        response = await agent.run(to_answer(requests, decisions), session=session)
    print(response.text)


asyncio.run(main())
