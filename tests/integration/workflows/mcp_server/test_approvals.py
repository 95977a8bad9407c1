"""Reviews over MCP: agents get a link, deciders decide, with the same rights as elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp_types import ElicitResult

from reviews.decisions import services
from reviews.models import HumanReviewRecord
from tests.integration.workflows.mcp_server.conftest import Agents, Call, at_rest, reviewed, value
from tests.integration.workflows.mcp_server.web import Agent, Web, refused, text_of
from workflows.executions.services import start_execution
from workflows.mcp_server.threads import in_thread
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

DECIDES = ("read", "run", "decide")


def stopped(owner: User, plan: dict[str, Any] | None = None) -> Hold:
    execution = at_rest(start_execution(actor=owner, plan=plan or reviewed()))
    return execution.holds.get(status="OPEN")


def test_an_agent_without_the_scope_is_sent_to_the_page(
    call: Call, people: dict[str, User]
) -> None:
    hold = stopped(people["integrator"])
    workflow = {"workflow_id": str(hold.execution_id)}
    answer = call("integrator", "approval_response", **workflow, approved=True)
    assert not answer.is_error
    told = answer.structured_content
    assert told["status"] == "approval_required"
    assert told["message"].startswith("Nothing was decided: this token does not have the scope")
    (approval,) = told["approvals"]
    assert approval["review_url"] == f"http://testserver/review/{hold.execution_id}/{hold.pk}/"
    assert approval["payload"] == {"text": "hello"}
    assert (approval["node_id"], approval["trigger_phase"]) == ("draft", "AFTER_EXECUTION")
    assert told["options"] == ["get_execution", "abort"]
    hold.refresh_from_db()
    assert hold.status == Hold.Status.OPEN


def test_an_escalation_names_the_resource_and_the_deciders(
    call: Call, people: dict[str, User]
) -> None:
    code = "fetch('http://127.0.0.1:9/x')"
    task = {"id": "ask", "type": "code_execution", "language": "python", "code": code}
    hold = stopped(people["integrator"], {"tasks": [{**task, "permission_set": "minimal"}]})
    answer = call("integrator", "get_execution", workflow_id=str(hold.execution_id))
    told = answer.structured_content
    assert told["status"] == "approval_required"
    (approval,) = told["approvals"]
    assert (approval["decision_type"], approval["reason"]) == ("HIL", "escalation")
    assert approval["payload"]["operation"] == "net"
    assert approval["payload"]["resource"] == "127.0.0.1:9"
    pending = call("reviewer", "list_pending", scopes=DECIDES).structured_content["pending"]
    assert [row["decision_type"] for row in pending] == ["HIL"]


def test_a_reviewers_token_decides_and_the_record_names_mcp(
    call: Call, people: dict[str, User]
) -> None:
    hold = stopped(people["integrator"])
    answer = call(
        "reviewer",
        "approval_response",
        scopes=DECIDES,
        workflow_id=str(hold.execution_id),
        hold_id=hold.pk,
        approved=True,
        edits={"text": "better"},
        feedback="shorter",
        wait_seconds=0,
    )
    assert not answer.is_error, text_of(answer)
    record = HumanReviewRecord.objects.get()
    assert (record.actor, record.decision, record.source) == ("reviewer", "APPROVE", "mcp")
    assert (record.modified_data, record.comment) == ({"text": "better"}, "shorter")
    assert at_rest(hold.execution).status == "COMPLETED"


def test_the_starter_does_not_approve(call: Call, people: dict[str, User]) -> None:
    hold = stopped(people["reviewer"])
    told = refused(
        call(
            "reviewer",
            "approval_response",
            scopes=DECIDES,
            workflow_id=str(hold.execution_id),
            approved=True,
        )
    )
    assert (told["code"], told["reason"]) == ("forbidden", "four_eyes")
    assert "somebody else has to approve it" in told["text"]
    assert not HumanReviewRecord.objects.exists()


def test_an_invalid_edit_names_its_field_and_the_hold_stays_open(
    call: Call, people: dict[str, User]
) -> None:
    review = {"trigger_phase": "BEFORE_EXECUTION", "on_timeout": "keep_waiting"}
    plan = {
        "tasks": [
            {
                "id": "w",
                "type": "tool",
                "tool": "builtin.wait",
                "arguments": {"seconds": 0},
                "human_review": review,
            }
        ]
    }
    hold = stopped(people["integrator"], plan)
    answer = call(
        "reviewer",
        "approval_response",
        scopes=DECIDES,
        workflow_id=str(hold.execution_id),
        approved=True,
        edits={"seconds": "soon"},
    )
    told = refused(answer)
    assert told["code"] == "invalid"
    assert any("seconds" in each["path"] for each in told["errors"])
    hold.refresh_from_db()
    assert hold.status == Hold.Status.OPEN


def test_a_hold_has_to_be_named_when_there_are_two(call: Call, people: dict[str, User]) -> None:
    review = {"trigger_phase": "BEFORE_EXECUTION", "on_timeout": "keep_waiting"}
    plan = {"tasks": [value(name, 1, human_review=review) for name in ("a", "b")]}
    execution = at_rest(start_execution(actor=people["integrator"], plan=plan))
    decision = {"workflow_id": str(execution.pk), "approved": False}
    told = refused(call("reviewer", "approval_response", scopes=DECIDES, **decision))
    assert told["errors"][0]["path"] == "hold_id"
    assert f"{execution.pk}-1, {execution.pk}-2" in told["text"]
    gone = refused(call("reviewer", "approval_response", scopes=DECIDES, hold_id="x", **decision))
    assert gone["code"] == "not_found"
    other = stopped(people["integrator"])
    strange = {**decision, "hold_id": other.pk}
    assert (
        refused(call("reviewer", "approval_response", scopes=DECIDES, **strange))["code"]
        == "not_found"
    )


# --- the ids that answers carry -------------------------------------------------------------------


def held_behind_a_layer(owner: User, **review: Any) -> Execution:
    """A run with one settled layer, then a task that waits for a person before it runs."""
    before = {"trigger_phase": "BEFORE_EXECUTION", "on_timeout": "keep_waiting", **review}
    plan = {"tasks": [value("first", 1), value("b", {"$from": "first"}, human_review=before)]}
    return at_rest(start_execution(actor=owner, plan=plan))


def decided_with(call: Call, execution: Execution, **ids: Any) -> Any:
    return call(
        "reviewer",
        "approval_response",
        scopes=DECIDES,
        workflow_id=str(execution.pk),
        approved=True,
        wait_seconds=0,
        **ids,
    )


def test_every_id_in_a_response_can_be_used_to_decide(call: Call, people: dict[str, User]) -> None:
    for pick in (
        lambda answer: {"checkpoint_id": answer["checkpoint_id"]},
        lambda answer: {"checkpoint_id": int(answer["checkpoint_id"])},
        lambda answer: {"checkpoint_id": answer["approvals"][0]["checkpoint_id"]},
        lambda answer: {"checkpoint_id": answer["approvals"][0]["hold_id"]},
        lambda answer: {"hold_id": answer["approvals"][0]["hold_id"]},
        lambda answer: {
            "hold_id": answer["approvals"][0]["hold_id"],
            "checkpoint_id": answer["checkpoint_id"],
        },
        lambda answer: {"checkpoint_id": None},
    ):
        execution = held_behind_a_layer(people["integrator"])
        told = call("integrator", "get_execution", workflow_id=str(execution.pk))
        assert told.structured_content["checkpoint_id"]
        answer = decided_with(call, execution, **pick(told.structured_content))
        assert not answer.is_error, text_of(answer)
        assert HumanReviewRecord.objects.get(execution=execution).decision == "APPROVE"
        assert at_rest(execution).status == "COMPLETED"


def test_an_outdated_checkpoint_decides_nothing(call: Call, people: dict[str, User]) -> None:
    execution = held_behind_a_layer(people["integrator"])
    other = held_behind_a_layer(people["integrator"])
    foreign = other.checkpoints.latest("version").pk
    for wrong in (str(foreign), other.holds.get().pk, "1", "x"):
        told = refused(decided_with(call, execution, checkpoint_id=wrong))
        assert [each["path"] for each in told["errors"]] == ["checkpoint_id"]
    mine = {"checkpoint_id": execution.holds.get().pk, "hold_id": other.holds.get().pk}
    told = refused(decided_with(call, execution, **mine))
    assert told["errors"][0]["code"] == "another_hold"
    assert not HumanReviewRecord.objects.exists()


def test_a_checkpoint_never_approves_a_hold_that_opened_later(
    call: Call, people: dict[str, User]
) -> None:
    """The hold that was shown is decided by somebody else; another one opened since."""
    before = {"trigger_phase": "BEFORE_EXECUTION", "on_timeout": "keep_waiting"}
    after = {"trigger_phase": "AFTER_EXECUTION", "on_timeout": "keep_waiting"}
    plan = {
        "tasks": [
            value("first", 1),
            value("b", {"$from": "first"}, human_review=before),
            value("c", {"$from": "first"}, human_review=after),
        ]
    }
    execution = at_rest(start_execution(actor=people["integrator"], plan=plan))
    checkpoint = str(execution.checkpoints.get().pk)
    for hold in execution.holds.filter(task_id="b", status="OPEN"):
        approve(f"/{hold.pk}/", people["reviewer"])
    execution = at_rest(execution)
    assert execution.holds.filter(status="OPEN").count() == 1
    told = refused(decided_with(call, execution, checkpoint_id=checkpoint))
    assert told["errors"][0]["code"] == "ambiguous"
    assert execution.holds.filter(status="OPEN").count() == 1


def test_results_and_previews_name_past_and_next_tasks(call: Call, people: dict[str, User]) -> None:
    execution = held_behind_a_layer(people["integrator"])
    answer = call("integrator", "get_execution", workflow_id=str(execution.pk), all_layers=True)
    first = answer.structured_content["layer_results"][0]
    assert (first["task_id"], first["target"]) == ("first", "builtin.echo")
    assert (first["attempts"], first["is_edited"]) == (1, False)
    assert first["duration_ms"] >= 0
    plan = {"tasks": [value("a", 1), value("b", {"$from": "a"})]}
    stops = start_execution(
        actor=people["integrator"], plan=plan, policy={"per_layer_validation": True}
    )
    answer = call("integrator", "get_execution", workflow_id=str(at_rest(stops).pk))
    (following,) = answer.structured_content["next_layer_preview"]
    assert (following["task_id"], following["depends_on"]) == ("b", ["a"])


# --- pages opened by the client -----------------------------------------------------------------


class Person:
    """Opens the page that the client was asked to open, and does `then` there."""

    def __init__(self, then: Any = None, action: str = "accept") -> None:
        self.opened: list[str] = []
        self._then, self._action = then, action

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.opened.append(params.url)
        assert "needs a decision: task draft asks for review" in params.message
        if self._then is not None:
            await in_thread(self._then, params.url)
        return ElicitResult(action=self._action)


def approve(url: str, by: User) -> None:
    hold_id = url.rstrip("/").rsplit("/", 1)[-1]
    version = Hold.objects.select_related("execution").get(pk=hold_id).execution.version
    services.decide(
        services.DecisionRequest(
            hold_id=hold_id, user=by, decision="APPROVE", version=version, source="page"
        )
    )


@pytest.mark.usefixtures("workers")
def test_a_client_that_opens_pages_gets_the_answer_after_the_decision(
    web: Web, agent: Agents, people: dict[str, User]
) -> None:
    def decide_after_the_web_process_died(url: str) -> None:
        web.killed_and_started()
        approve(url, people["reviewer"])

    person = Person(decide_after_the_web_process_died)
    answer = agent(elicitation_callback=person).answer("execute", plan=reviewed())
    assert answer["status"] == "complete"
    assert len(person.opened) == 1
    assert Execution.objects.count() == 1


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("action", ["decline", "cancel", "accept"])
def test_an_undecided_elicitation_is_sent_once(agent: Agents, action: str) -> None:
    person = Person(action=action)
    one = agent(elicitation_callback=person)
    answer = one.answer("execute", plan=reviewed(), config={"wait_seconds": 1})
    assert answer["status"] == "approval_required"
    assert answer["approvals"][0]["review_url"] in person.opened
    assert (len(person.opened), Execution.objects.count()) == (1, 1)
    # Reading never asks anybody.
    assert one.answer("get_execution", workflow_id=answer["workflow_id"])["approvals"]
    assert len(person.opened) == 1


def test_a_client_of_the_older_protocol_gets_the_link(
    agent: Agents, people: dict[str, User]
) -> None:
    hold = stopped(people["integrator"])
    person = Person()
    one = agent(mode="legacy", elicitation_callback=person)
    answer = one.answer("approval_response", workflow_id=str(hold.execution_id), approved=True)
    assert answer["approvals"][0]["hold_id"] == hold.pk
    assert person.opened == []


def test_elicitation_state_is_bound_to_one_user_and_call(
    agent: Agents, people: dict[str, User]
) -> None:
    hold = stopped(people["integrator"])
    arguments = {"workflow_id": str(hold.execution_id), "approved": True}
    mine, other = agent(), agent("operator")
    required = raw(mine, arguments)["result"]
    assert required["resultType"] == "input_required"
    (request,) = required["inputRequests"].values()
    assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "url")
    state = required["requestState"]
    good = raw(mine, arguments, state)
    assert good["result"]["structuredContent"]["status"] == "approval_required"
    for bad in (
        raw(other, arguments, state),
        raw(mine, {**arguments, "approved": False}, state),
        raw(mine, arguments, state[:-4] + "AAAA"),
        raw(mine, arguments, "x"),
    ):
        assert bad["error"]["message"] == "Invalid or expired requestState"


def raw(one: Agent, arguments: dict[str, Any], state: str | None = None) -> dict[str, Any]:
    """One call of protocol 2026-07-28, unhelped by any client."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
    }
    params: dict[str, Any] = {"name": "approval_response", "arguments": arguments, "_meta": meta}
    if state is not None:
        params["requestState"] = state
    headers = {
        "Authorization": f"Bearer {one.token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "approval_response",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return dict(json.loads(httpx2.post(one.url, json=body, headers=headers, timeout=60).text))
