"""A LangGraph graph whose payments are decided in Holdpoint."""

from typing import TypedDict

from holdpoint import Client
from holdpoint_langgraph import to_answer, to_approvals
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class State(TypedDict):
    amount: float
    outcome: str


def pay(state: State) -> State:
    """Ask for approval of the payment, and pay what was approved."""
    arguments = {"account": "DE02", "amount": state["amount"]}
    answer = interrupt({"name": "transfer", "arguments": arguments})
    if not answer["approved"]:
        return {**state, "outcome": answer["comment"]}
    decided = answer["arguments"]
    return {**state, "outcome": f"transferred {decided['amount']:g} to {decided['account']}"}


builder = StateGraph(State)
builder.add_node("pay", pay)
builder.add_edge(START, "pay")
builder.add_edge("pay", END)
graph = builder.compile(checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "1"}}

result = graph.invoke({"amount": 250, "outcome": ""}, config, version="v2")
while result.interrupts:
    decisions = Client().decide(to_approvals(result.interrupts), risk="low")
    result = graph.invoke(to_answer(result.interrupts, decisions), config, version="v2")
print(result.value["outcome"])
