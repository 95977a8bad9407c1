"""A LangChain agent with the human-in-the-loop middleware, decided in Holdpoint."""

from typing import Any

from holdpoint import Client
from holdpoint_langchain_hitl import to_answer, to_approvals
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver


class Model(GenericFakeChatModel):
    """A stub: calls the tool, then stops."""

    def bind_tools(self, tools: Any, **_: Any) -> "Model":
        return self


@tool
def transfer(account: str, amount: float) -> str:
    """Transfer money."""
    return f"transferred {amount:g} to {account}"


call = {"name": "transfer", "args": {"account": "DE02", "amount": 250}, "id": "call-1"}
agent = create_agent(
    Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")])),
    tools=[transfer],
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={"transfer": {"allowed_decisions": ["approve", "edit", "reject"]}}
        )
    ],
    checkpointer=InMemorySaver(),
)
config = {"configurable": {"thread_id": "1"}}

question = {"messages": [{"role": "user", "content": "Pay invoice 4711"}]}
result = agent.invoke(question, config, version="v2")
while result.interrupts:
    decisions = Client().decide(to_approvals(result.interrupts), risk="low")
    result = agent.invoke(to_answer(result.interrupts, decisions), config, version="v2")
print(result.value["messages"][-2].content)
