"""Every adapter, with objects of the real package: what is asked, and what an answer permits.

An answer permits a call exactly if it is approved, with the decided arguments, and only if the
framework can run these arguments. Everything else denies it, or raises.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import holdpoint_acp
import holdpoint_ag_ui
import holdpoint_agent_framework
import holdpoint_claude_agent
import holdpoint_google_adk
import holdpoint_langchain_hitl
import holdpoint_langgraph
import holdpoint_openai_agents
import holdpoint_pydantic_ai
import pytest
from acp.schema import RequestPermissionRequest, RequestPermissionResponse
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    RunAgentInput,
    ToolCall,
)
from ag_ui.core import (
    Interrupt as AgUiInterrupt,
)
from agent_framework import Content
from agents import Agent, RunContextWrapper, RunState, ToolApprovalItem
from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, ToolPermissionContext
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.types import Interrupt
from openai.types.responses import ResponseFunctionToolCall
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved
from pydantic_ai.messages import ToolCallPart

Arguments = dict[str, Any]
CALL = "call-1"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(TEXT, JSON, max_size=4)
DENIED = ["rejected", "changes_requested", "expired", "cancelled", "completed", "failed"]


@dataclass
class Case:
    """`permitted` returns the arguments that an answer lets the framework run, or None."""

    request: Callable[[Arguments], Any]
    to_approvals: Callable[[Any], dict[str, dict[str, Any]]]
    to_answer: Callable[[Any, dict[str, Any]], Any]
    permitted: Callable[[Any, Any], Arguments | None]
    editable: bool
    pending_raises: bool = True


def round_trip(model: Any) -> Any:
    """Through the JSON of the wire and back."""
    return type(model).model_validate_json(model.model_dump_json(by_alias=True))


# --- langgraph, langchain -----------------------------------------------------------------------


def langgraph_permitted(_: Any, command: Any) -> Arguments | None:
    answer = command.resume["i"]
    return answer["arguments"] if answer["approved"] else None


def batched(arguments: Arguments) -> list[Interrupt[Any]]:
    kinds = ["approve", "edit", "reject"]
    value = {
        "action_requests": [{"name": "pay", "args": arguments, "description": "d"}],
        "review_configs": [{"action_name": "pay", "allowed_decisions": kinds}],
    }
    return [Interrupt(value=value, id="i")]


def langchain_permitted(interrupts: Any, command: Any) -> Arguments | None:
    (decision,) = command.resume["i"]["decisions"]
    (action,) = interrupts[0].value["action_requests"]
    if decision["type"] == "edit":
        assert decision["edited_action"]["name"] == "pay"
        return dict(decision["edited_action"]["args"])
    return action["args"] if decision["type"] == "approve" else None


# --- pydantic-ai, OpenAI, Claude, Microsoft, Google ---------------------------------------------


def pydantic_ai_permitted(_: Any, results: DeferredToolResults) -> Arguments | None:
    answer = results.to_tool_call_results()[CALL]
    return answer.override_args if isinstance(answer, ToolApproved) else None


def openai_state(arguments: Arguments) -> RunState[Any, Any]:
    agent: Agent[Any] = Agent(name="a")
    context: RunContextWrapper[Any] = RunContextWrapper(context=None)
    state = RunState(context=context, original_input="x", starting_agent=agent)
    call = ResponseFunctionToolCall(
        call_id=CALL, name="pay", arguments=json.dumps(arguments), type="function_call"
    )
    item = ToolApprovalItem(agent=agent, raw_item=call)
    state.get_interruptions = lambda: [item]  # type: ignore[method-assign]
    state.asked = context, item  # type: ignore[attr-defined]
    return state


def openai_permitted(state: Any, answered: Any) -> Arguments | None:
    context, item = answered.asked
    approved = context.get_approval_status("pay", CALL, existing_pending=item)
    assert approved is not None
    return json.loads(item.arguments) if approved else None


CONTEXT = ToolPermissionContext(tool_use_id=CALL)


def claude_permitted(
    _: Any, answer: PermissionResultAllow | PermissionResultDeny
) -> Arguments | None:
    if isinstance(answer, PermissionResultDeny):
        assert answer.message
        return None
    return answer.updated_input


def microsoft(arguments: Arguments) -> list[Content]:
    call = Content.from_function_call(CALL, "pay", arguments=json.dumps(arguments))
    return [Content.from_function_approval_request("r", call)]


def microsoft_permitted(requests: Any, message: Any) -> Arguments | None:
    (content,) = message.contents
    assert content.type == "function_approval_response"
    assert content.id == requests[0].id
    return content.function_call.parse_arguments() if content.approved else None


def google(arguments: Arguments) -> list[types.FunctionCall]:
    original = types.FunctionCall(id=CALL, name="pay", args=arguments)
    args = {"originalFunctionCall": original.model_dump(exclude_none=True, by_alias=True)}
    args["toolConfirmation"] = {"hint": "sure?", "confirmed": False}
    return [types.FunctionCall(id="c", name="adk_request_confirmation", args=args)]


def google_permitted(calls: Any, content: Any) -> Arguments | None:
    from google.adk.tools.tool_confirmation import ToolConfirmation

    response = round_trip(content).parts[0].function_response
    assert (response.id, response.name) == ("c", "adk_request_confirmation")
    confirmation = ToolConfirmation.from_response_dict(response.response)
    original = calls[0].args["originalFunctionCall"]
    return original.get("args") or {} if confirmation.confirmed else None


# --- AG-UI, ACP ---------------------------------------------------------------------------------


def ag_ui(arguments: Arguments) -> tuple[list[AgUiInterrupt], list[AssistantMessage]]:
    call = FunctionCall(name="pay", arguments=json.dumps(arguments))
    schema = {"type": "object", "properties": {"approved": {}, "editedArgs": {}}}
    asked = AgUiInterrupt(id="i", reason="tool_call", tool_call_id=CALL, response_schema=schema)
    message = AssistantMessage(id="m", tool_calls=[ToolCall(id=CALL, function=call)])
    return [round_trip(asked)], [round_trip(message)]


def ag_ui_permitted(request: Any, entries: Any) -> Arguments | None:
    given = {"state": {}, "messages": [], "tools": [], "context": [], "forwarded_props": {}}
    following = RunAgentInput(thread_id="t", run_id="r", resume=entries, **given)
    (entry,) = round_trip(following).resume
    assert (entry.interrupt_id, entry.status) == ("i", "resolved")
    original = json.loads(request[1][0].tool_calls[0].function.arguments)
    return entry.payload.get("editedArgs", original) if entry.payload["approved"] else None


OPTIONS = [
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def acp(arguments: Arguments, options: Any = OPTIONS) -> RequestPermissionRequest:
    call = {"toolCallId": CALL, "title": "Pay", "rawInput": arguments}
    body = {"sessionId": "s", "toolCall": call, "options": options}
    return RequestPermissionRequest.model_validate(body)


def acp_permitted(request: Any, response: RequestPermissionResponse) -> Arguments | None:
    outcome = round_trip(response).outcome
    assert outcome.outcome == "selected"
    assert outcome.option_id in {"yes", "no"}
    return request.tool_call.raw_input if outcome.option_id == "yes" else None


CASES = {
    "langgraph": Case(
        lambda args: [Interrupt(value={"name": "pay", "arguments": args}, id="i")],
        holdpoint_langgraph.to_approvals,
        holdpoint_langgraph.to_answer,
        langgraph_permitted,
        editable=True,
    ),
    "langchain": Case(
        batched,
        holdpoint_langchain_hitl.to_approvals,
        holdpoint_langchain_hitl.to_answer,
        langchain_permitted,
        editable=True,
    ),
    "pydantic-ai": Case(
        lambda args: DeferredToolRequests(approvals=[ToolCallPart("pay", args, CALL)]),
        holdpoint_pydantic_ai.to_approvals,
        holdpoint_pydantic_ai.to_answer,
        pydantic_ai_permitted,
        editable=True,
    ),
    "openai-agents": Case(
        openai_state,
        holdpoint_openai_agents.to_approvals,
        holdpoint_openai_agents.to_answer,
        openai_permitted,
        editable=False,
    ),
    "claude-agent": Case(
        lambda args: ("pay", args, CONTEXT),
        lambda request: holdpoint_claude_agent.to_approvals(*request),
        lambda request, decisions: holdpoint_claude_agent.to_answer(decisions, request[2]),
        claude_permitted,
        editable=True,
        pending_raises=False,
    ),
    "agent-framework": Case(
        microsoft,
        holdpoint_agent_framework.to_approvals,
        holdpoint_agent_framework.to_answer,
        microsoft_permitted,
        editable=False,
    ),
    "google-adk": Case(
        google,
        holdpoint_google_adk.to_approvals,
        holdpoint_google_adk.to_answer,
        google_permitted,
        editable=False,
    ),
    "ag-ui": Case(
        ag_ui,
        lambda request: holdpoint_ag_ui.to_approvals(*request),
        lambda request, decisions: holdpoint_ag_ui.to_answer(*request, decisions),
        ag_ui_permitted,
        editable=True,
    ),
    "acp": Case(
        acp,
        holdpoint_acp.to_approvals,
        holdpoint_acp.to_answer,
        acp_permitted,
        editable=False,
    ),
}
case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def decision(status: str, arguments: Arguments, *, edited: bool = False) -> dict[str, Any]:
    return {
        "id": "apr_1",
        "status": status,
        "arguments": arguments,
        "edited": edited,
        "comment": "a reason",
        "decided_by": "ana",
    }


def asked(case: Case, request: Any) -> tuple[str, dict[str, Any]]:
    ((call, body),) = case.to_approvals(request).items()
    return call, body


@case
@settings(max_examples=60, deadline=None)
@given(arguments=ARGUMENTS)
def test_the_exact_arguments_are_asked_for(case: Case, arguments: Arguments) -> None:
    _, body = asked(case, case.request(arguments))
    assert body["action"]["arguments"] == arguments
    assert body["action"]["name"] in {"pay", "acp.other"}
    assert body.get("editable", True) is case.editable
    json.dumps(body, allow_nan=False)


@case
@settings(max_examples=60, deadline=None)
@given(arguments=ARGUMENTS)
def test_an_approval_permits_the_same_arguments(case: Case, arguments: Arguments) -> None:
    request = case.request(arguments)
    call, _ = asked(case, request)
    answer = case.to_answer(request, {call: decision("approved", arguments)})
    assert case.permitted(request, answer) == arguments


@case
@settings(max_examples=60, deadline=None)
@given(arguments=ARGUMENTS, others=ARGUMENTS)
def test_an_edited_approval_permits_the_edited_arguments_or_none(
    case: Case, arguments: Arguments, others: Arguments
) -> None:
    request = case.request(arguments)
    call, _ = asked(case, request)
    answer = case.to_answer(request, {call: decision("approved", others, edited=True)})
    assert case.permitted(request, answer) == (others if case.editable else None)


@case
@settings(max_examples=30, deadline=None)
@given(arguments=ARGUMENTS, status=st.sampled_from(DENIED))
def test_every_other_status_denies(case: Case, arguments: Arguments, status: str) -> None:
    request = case.request(arguments)
    call, _ = asked(case, request)
    answer = case.to_answer(request, {call: decision(status, arguments)})
    assert case.permitted(request, answer) is None


@case
def test_a_pending_approval_permits_nothing(case: Case) -> None:
    request = case.request({"a": 1})
    call, _ = asked(case, request)
    pending = {call: decision("pending", {"a": 1})}
    if case.pending_raises:
        with pytest.raises(ValueError, match=r"pending|decided"):
            case.to_answer(request, pending)
    else:
        assert case.permitted(request, case.to_answer(request, pending)) is None


@case
def test_a_missing_decision_raises(case: Case) -> None:
    with pytest.raises(KeyError):
        case.to_answer(case.request({}), {})


# --- details ------------------------------------------------------------------------------------


def test_any_value_of_an_interrupt_can_be_asked() -> None:
    bodies = holdpoint_langgraph.to_approvals([Interrupt(value="Sure?", id="i")])
    action = {"name": "langgraph.interrupt", "arguments": {"value": "Sure?"}}
    assert bodies == {"i": {"action": action}}


@pytest.mark.parametrize("kinds", [["approve"], ["approve", "edit"]])
def test_langchain_without_reject_raises_for_a_rejection(kinds: list[str]) -> None:
    (interrupt,) = batched({"a": 1})
    interrupt.value["review_configs"][0]["allowed_decisions"] = kinds
    with pytest.raises(ValueError, match="no answer"):
        holdpoint_langchain_hitl.to_answer([interrupt], {"i:0": decision("rejected", {"a": 1})})


def test_acp_never_selects_an_option_that_lasts() -> None:
    lasting = [each for each in OPTIONS if each["kind"] == "allow_always"]
    request = acp({"a": 1}, lasting)
    answer = holdpoint_acp.to_answer(request, {CALL: decision("approved", {"a": 1})})
    assert answer.outcome.outcome == "cancelled"


@pytest.mark.parametrize("reason", ["input_required", "confirmation", "other:reason"])
def test_ag_ui_interrupts_that_ask_for_something_else_raise(reason: str) -> None:
    (interrupt,), messages = ag_ui({})
    with pytest.raises(ValueError, match="does not ask"):
        holdpoint_ag_ui.to_approvals([interrupt.model_copy(update={"reason": reason})], messages)
