"""The client of an AG-UI agent: interrupts of a run decided in Holdpoint, then the next run."""

from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    Interrupt,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    ToolCall,
)
from holdpoint import Client
from holdpoint_ag_ui import to_answer, to_approvals

SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}},
    "required": ["approved"],
}

# What an agent sends when it stops for approval of a tool call.
arguments = FunctionCall(name="transfer", arguments='{"account": "DE02", "amount": 250}')
messages = [AssistantMessage(id="m", tool_calls=[ToolCall(id="call-1", function=arguments)])]
interrupt = Interrupt(id="i", reason="tool_call", tool_call_id="call-1", response_schema=SCHEMA)
outcome = RunFinishedInterruptOutcome(interrupts=[interrupt])
finished = RunFinishedEvent(thread_id="t", run_id="r1", outcome=outcome)

interrupts = finished.outcome.interrupts
decisions = Client().decide(to_approvals(interrupts, messages), risk="low")
following = RunAgentInput(
    thread_id="t",
    run_id="r2",
    state={},
    messages=messages,
    tools=[],
    context=[],
    forwarded_props={},
    resume=to_answer(interrupts, messages, decisions),
)

(entry,) = following.resume
if entry.payload["approved"]:
    decided = entry.payload.get("editedArgs", {"account": "DE02", "amount": 250})
    print(f"transferred {decided['amount']:g} to {decided['account']}")
else:
    print(entry.metadata["holdpoint"]["comment"])
