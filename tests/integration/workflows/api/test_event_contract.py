"""The contract of every event type: its exact fields on REST, SSE and the socket.

Each kind of recorded event has a row here with what it looks like on the wire; a kind or a type
without a row fails the test.  Times are whole milliseconds since the epoch.
"""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import Group, User
from django.test import AsyncClient

from tests.integration.reviews.sockets.test_sockets import session, socket
from tests.integration.workflows.api.conftest import plain_plan, reviewed_plan
from tests.support.actors import actor_named, user_id
from tests.support.catalogue import stock_catalogue
from tests.support.processes import ROOT
from workflows.engine.protocol import events as ev
from workflows.executions import services
from workflows.executions.jobs import run_to_rest
from workflows.executions.recovery import sweep
from workflows.models import Checkpoint, Execution, ExecutionEvent
from workflows.permissions import tokens
from workflows.planning.learning import learn_from
from workflows.realtime.event_serialization import WIRE_TYPES, wire_events

pytestmark = pytest.mark.django_db(transaction=True)

MOMENT = datetime(2026, 3, 2, 9, 0, 0, 123456, tzinfo=UTC)
MILLISECONDS = 1772442000123
AFTER = "AFTER_EXECUTION"
HOLD = {"hold_id": "1-1", "task_id": "a", "phase": AFTER}
WIRE_HOLD = {"holdId": "1-1", "nodeId": "a", "triggerPhase": AFTER}
DECIDED = {**HOLD, "reason": "node_review", "comment": "text"}
WIRE_DECIDED = {
    **WIRE_HOLD,
    "reason": "node_review",
    "edited": False,
    "comment": "text",
    "reviewer": "ann",
}
OPENED = {**HOLD, "reason": "node_review", "on_timeout": "reject", "timeout_seconds": 60}
WIRE_OPENED = {
    **WIRE_HOLD,
    "reason": "node_review",
    "onTimeout": "reject",
    "decider": "human",
    "decisionType": "HIL",
    "summary": "task a asks for review of its output",
}
AGENT = {"decider": "agent", "decisionType": "AIL", "reason": "agent_decision"}

#: A recorded event, and what travels of it beside the fields that all have.
CONTRACT: list[tuple[Any, dict[str, Any]]] = [
    (
        ev.ExecutionStarted(total_layers=2, total_tasks=3),
        {"type": "workflow_start", "totalLayers": 2, "totalTasks": 3},
    ),
    (
        ev.ExecutionForked(parent="7", layer=1),
        {"type": "workflow_forked", "parent": "7", "layer": 1},
    ),
    (
        ev.LayerStarted(layer=0, tasks=("a", "b"), skips={"b": "condition"}),
        {"type": "layer_start", "layer": 0, "tasks": ["a", "b"]},
    ),
    (
        ev.TaskSubmitted(
            task_id="a", attempt=1, runner="dask", handle="h", since=1, until=2, shown={"secret": 1}
        ),
        {"type": "task_submitted", "nodeId": "a", "attempt": 1, "runner": "dask"},
    ),
    (
        ev.TaskSucceeded(task_id="a", attempt=1, duration_ms=12.5, output="secret"),
        {"type": "task_complete", "nodeId": "a", "attempt": 1, "durationMs": 12.5},
    ),
    (
        ev.TaskErrored(task_id="a", attempt=1, error="text of a tool", retry_at=1772442001.5),
        {
            "type": "task_error",
            "nodeId": "a",
            "attempt": 1,
            "durationMs": 0.0,
            "retryAt": 1772442001500,
        },
    ),
    (
        ev.TaskErrored(task_id="a", attempt=2, error="text of a tool"),
        {"type": "task_error", "nodeId": "a", "attempt": 2, "durationMs": 0.0},
    ),
    (
        ev.TaskEscalated(
            task_id="a", operation="net", resource="example.com:443", current={}, requested={}
        ),
        {"type": "task_escalated", "nodeId": "a"},
    ),
    (
        ev.SpeculationHit(task_id="a", seconds=1.5),
        {"type": "speculation_hit", "nodeId": "a", "seconds": 1.5},
    ),
    (
        ev.SpeculationMiss(task_id="a", seconds=1.5, reason="inputs"),
        {"type": "speculation_miss", "nodeId": "a", "seconds": 1.5, "reason": "inputs"},
    ),
    (
        ev.HoldOpened(**OPENED, summary=WIRE_OPENED["summary"]),
        {"type": "workflow_paused", **WIRE_OPENED},
    ),
    (
        ev.HoldOpened(
            hold_id="1-2",
            reason="agent_decision",
            decider="agent",
            on_timeout="continue",
            summary="an agent decides after this layer",
        ),
        {
            "type": "decision_required",
            "holdId": "1-2",
            "onTimeout": "continue",
            "summary": "an agent decides after this layer",
            **AGENT,
        },
    ),
    (
        ev.ReviewSpared(
            task_id="a", phase=AFTER, rule="small", rules_version=2, why="inputs.value = 5"
        ),
        {
            "type": "review_spared",
            "nodeId": "a",
            "triggerPhase": AFTER,
            "rule": "small",
            "rulesVersion": 2,
        },
    ),
    (
        ev.HoldVoted(**HOLD, voter="ann", voter_id=user_id("ann")),
        {"type": "hold_voted", **WIRE_HOLD},
    ),
    (
        ev.HoldAnswered(
            **HOLD, reason="node_review", decision="APPROVE", comment="text", undo_seconds=5
        ),
        {
            "type": "hold_answered",
            **WIRE_HOLD,
            "reason": "node_review",
            "decision": "APPROVE",
            "edited": False,
            "comment": "text",
            "reviewer": "ann",
            "undoSeconds": 5.0,
        },
    ),
    (
        ev.HoldDecided(**DECIDED, decision="APPROVE", resumed=True, edited=True),
        {"type": "workflow_resumed", **WIRE_DECIDED, "decision": "APPROVE", "edited": True},
    ),
    (
        ev.HoldDecided(**DECIDED, decision="REJECT"),
        {"type": "hold_decided", **WIRE_DECIDED, "decision": "REJECT"},
    ),
    (
        ev.HoldDecided(**DECIDED, decision="REJECT", by_timeout=True),
        {"type": "hold_decided", **WIRE_DECIDED, "decision": "REJECT", "reviewer": None},
    ),
    (
        ev.HoldWithdrawn(**HOLD, voter="ann", voter_id=user_id("ann"), what="vote"),
        {"type": "hold_withdrawn", **WIRE_HOLD, "what": "vote"},
    ),
    (
        ev.CapabilityPermissionUpdated(
            capability="count", task_id="a", hold_id="1-1", granted={"hosts": ["x"]}
        ),
        {
            "type": "capability.permission.updated",
            "capability": "count",
            "nodeId": "a",
            "holdId": "1-1",
        },
    ),
    (
        ev.TaskResubmitted(task_id="a", resubmitted={"arguments": {"secret": 1}}),
        {"type": "task_resubmitted", "nodeId": "a"},
    ),
    (
        ev.ResultReported(
            task_id="a",
            phase="BEFORE_EXECUTION",
            ok=False,
            error="declined; password=hunter2hunter2",
            mismatch=True,
            executed_digest="0" * 64,
        ),
        {
            "type": "result_reported",
            "nodeId": "a",
            "triggerPhase": "BEFORE_EXECUTION",
            "ok": False,
            "mismatch": True,
            "attempt": 1,
            "error": "declined; password=[secret]",
        },
    ),
    (
        ev.HoldExpired(**HOLD, on_timeout="reject"),
        {"type": "hil_timeout", **WIRE_HOLD, "onTimeout": "reject", "actionTaken": "reject"},
    ),
    (
        ev.HoldExtended(**HOLD, seconds=60),
        {"type": "hold_extended", **WIRE_HOLD, "seconds": 60.0},
    ),
    (
        ev.HoldEscalated(**HOLD, step=0, groups=("legal",), told=("ann",)),
        {"type": "hold_escalated", **WIRE_HOLD, "step": 0, "groups": ["legal"]},
    ),
    (
        ev.LayerClosed(layer=0),
        {"type": "checkpoint", "layer": 0, "failed": False, "checkpointId": "{checkpoint}"},
    ),
    # The bookmark of this one has made room for newer ones.
    (
        ev.LayerClosed(layer=1),
        {"type": "checkpoint", "layer": 1, "failed": False, "checkpointId": None},
    ),
    (
        ev.LayerSkipRequested(layer=2, tasks=("c",)),
        {"type": "state_updated", "layer": 2, "tasks": ["c"], "contextKeys": []},
    ),
    (
        ev.LayerSkipped(layer=2, tasks=("c",)),
        {"type": "layer_skipped", "layer": 2, "tasks": ["c"]},
    ),
    (
        ev.AgentDecided(agent="rules", decision="continue", reason="fine; password=hunter2hunter2"),
        {
            "type": "agent_decided",
            "agent": "rules",
            "decision": "continue",
            "reason": "fine; password=[secret]",
        },
    ),
    (
        ev.AgentFailed(agent="rules", error="nobody decided in time", hold_id="1-2"),
        {
            "type": "ail_failed",
            "agent": "rules",
            "holdId": "1-2",
            "error": "nobody decided in time",
            "actionTaken": "continue",
        },
    ),
    (ev.AgentRequested(), {"type": "state_updated", "contextKeys": []}),
    (
        ev.PlanRevised(
            revision=2, total_layers=3, cause="replan", requirement="text", added=("d",)
        ),
        {
            "type": "state_updated",
            "revision": 2,
            "totalLayers": 3,
            "cause": "replan",
            "added": ["d"],
            "removed": [],
            "changed": [],
            "contextKeys": [],
        },
    ),
    (
        ev.PlanProposed(requirement="text", added=("d",)),
        {
            "type": "plan_proposed",
            "cause": "replan",
            "added": ["d"],
            "removed": [],
            "changed": [],
        },
    ),
    (
        ev.ReplanFailed(requirement="text", error="no tool parses YAML; password=hunter2hunter2"),
        {
            "type": "replan_failed",
            "error": "no tool parses YAML; password=[secret]",
            "actionTaken": "keep_plan",
        },
    ),
    (
        ev.GraphUpdateFailed(error="OperationalError: " + "x" * 2000),
        {
            "type": "graphrag_update_failed",
            "error": ("OperationalError: " + "x" * 2000)[:500],
            "actionTaken": "skip_learning",
        },
    ),
    (
        ev.ContextUpdated(updates={"tone": "friendly", "count": 1}),
        {"type": "state_updated", "contextKeys": ["count", "tone"]},
    ),
    (
        ev.MessageAdded(role="user", content="text", author="ann"),
        {"type": "message_added", "role": "user"},
    ),
    (
        ev.CommandRefused(command="skip_layer", error="begun"),
        {"type": "command_refused", "command": "skip_layer"},
    ),
    (ev.ExecutionCompleted(), {"type": "workflow_complete", "status": "COMPLETED"}),
    (ev.ExecutionFailed(error="text"), {"type": "workflow_complete", "status": "FAILED"}),
    (
        ev.ExecutionAborted(reason="not needed; password=hunter2hunter2 " + "x" * 5000),
        {
            "type": "workflow_aborted",
            "reason": ("not needed; password=[secret] " + "x" * 5000)[:500],
        },
    ),
]


@pytest.fixture
def operator(transactional_db: None) -> User:
    user = User.objects.create_user("operator", password="secret")
    user.groups.add(Group.objects.get_or_create(name="operator")[0])
    stock_catalogue()
    return user


@pytest.fixture
def recorded(operator: User) -> Execution:
    """An execution whose journal holds one event of each kind."""
    execution = services.start_execution(actor=operator, plan=plain_plan())
    first = ExecutionEvent.objects.filter(execution=execution).count()
    events = [event for event, _ in CONTRACT]
    ExecutionEvent.objects.bulk_create(
        ExecutionEvent(
            execution=execution,
            seq=seq,
            kind=event.kind,
            payload=event.model_dump(mode="json", exclude={"kind"}),
            actor="ann",
            actor_id=user_id("ann"),
            source="test",
            created_at=MOMENT,
        )
        for seq, event in enumerate(events, start=first + 1)
    )
    closed = next(place for place, (event, _) in enumerate(CONTRACT) if is_closed(event))
    Checkpoint.objects.create(
        execution=execution, layer=0, version=first + 1 + closed, revision=1, context={}, state={}
    )
    return execution


def is_closed(event: Any) -> bool:
    return isinstance(event, ev.LayerClosed)


def expected(execution: Execution) -> list[dict[str, Any]]:
    """What travels of the rows of CONTRACT, in order."""
    before = len(ExecutionEvent.objects.filter(execution=execution)) - len(CONTRACT)
    checkpoint = str(Checkpoint.objects.get(execution=execution).pk)
    found = []
    for seq, (_, fields) in enumerate(CONTRACT, start=before + 1):
        common = {"executionId": str(execution.pk), "timestamp": MILLISECONDS, "actor": "ann"}
        event = {**common, "seq": seq, "version": seq, **fields}
        if event.get("checkpointId"):
            event["checkpointId"] = checkpoint
        if event["type"] == "workflow_paused":
            companion = {**event, "type": "decision_required"}
            del companion["seq"]
            found.append(companion)
        found.append(event)
    return found


def contract_events(execution: Execution, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that the rows of CONTRACT gave."""
    return [each for each in events if each["timestamp"] == MILLISECONDS][
        : len(expected(execution))
    ]


def test_every_kind_and_every_type_has_a_row() -> None:
    kinds = {each.model_fields["kind"].default for each in get_args(get_args(ev.Event)[0])}
    assert kinds == {event.kind for event, _ in CONTRACT}
    types = {fields["type"] for _, fields in CONTRACT}
    assert set(WIRE_TYPES) == types


def test_every_type_is_in_the_table_of_the_documentation() -> None:
    text = (ROOT / "docs/protocol.md").read_text().split("## Events on the wire")[1]
    named = {name for line in text.splitlines() for name in re.findall(r"`([a-z_.]+)`", line)}
    assert set(WIRE_TYPES) <= named


def test_a_rest_page_carries_exactly_these_fields(recorded: Execution, client: Any) -> None:
    client.force_login(recorded.created_by)
    url = f"/api/v1/executions/{recorded.pk}/events/"
    page = client.get(url).json()
    assert contract_events(recorded, page["results"]) == expected(recorded)
    assert page["next"] is None
    # A page of `limit` entries ends behind the last of them, whatever travels with it.
    seen: list[dict[str, Any]] = []
    following = f"{url}?limit=5"
    while following:
        page = client.get(following).json()
        seen += page["results"]
        following = page["next"]
    assert contract_events(recorded, seen) == expected(recorded)


async def test_a_stream_carries_exactly_these_fields(recorded: Execution) -> None:
    wanted = await database_sync_to_async(expected)(recorded)
    operator = await database_sync_to_async(lambda: recorded.created_by)()
    _, text = await database_sync_to_async(tokens.create_token)(
        user=operator, name="t", scopes=["read"]
    )
    headers = {"Authorization": f"Bearer {text}", "Accept": "text/event-stream"}
    response: Any = await AsyncClient().get(
        f"/api/v1/executions/{recorded.pk}/events/", headers=headers
    )
    found: list[tuple[dict[str, Any], bool]] = []
    async with asyncio.timeout(20):
        async for part in response:
            for block in part.decode().split("\n\n"):
                if "data: " in block:
                    event = json.loads(block.split("data: ")[1])
                    assert f"event: {event['type']}\n" in block
                    found.append((event, "id: " in block))
            if len(found) >= len(wanted):
                break
    await database_sync_to_async(response.close)()
    assert all(("seq" in event) == has_id for event, has_id in found)
    mine = [event for event, _ in found if event["timestamp"] == MILLISECONDS]
    assert mine[: len(wanted)] == wanted


async def test_a_socket_carries_exactly_these_fields(recorded: Execution) -> None:
    wanted = await database_sync_to_async(expected)(recorded)
    operator = await database_sync_to_async(lambda: recorded.created_by)()
    header = await database_sync_to_async(session)(operator)
    async with socket(f"/ws/executions/{recorded.pk}/", header) as one:
        found = [json.loads(await one.receive_from(timeout=10)) for _ in wanted]
    mine = [event for event in found if event["timestamp"] == MILLISECONDS]
    assert mine[: len(wanted)] == wanted


# --- what real runs put into these fields ---------------------------------------------------------


def of_type(execution: Execution, name: str) -> list[dict[str, Any]]:
    return [each for each in wire_events(execution.pk, after=0) if each["type"] == name]


def expire(execution: Execution) -> None:
    """Let the time of the execution's open holds be over, and sweep."""
    execution.holds.update(expires_at=MOMENT)
    sweep()
    run_to_rest(execution.pk)


def started(operator: User, plan: Any = None, **policy: Any) -> Execution:
    execution = services.start_execution(
        actor=operator, plan=plan or plain_plan(2), policy=policy or None
    )
    return run_to_rest(execution.pk)


def test_an_expired_review_has_its_event(operator: User) -> None:
    plan = reviewed_plan()
    plan["tasks"][0]["human_review"] |= {"on_timeout": "reject", "timeout_seconds": 60}
    execution = started(operator, plan)
    [paused] = of_type(execution, "workflow_paused")
    [required] = of_type(execution, "decision_required")
    assert required["version"] == paused["seq"]
    assert (paused["decisionType"], paused["nodeId"], paused["triggerPhase"]) == (
        "HIL", "draft", AFTER,
    )  # fmt: skip
    assert paused["summary"] == execution.holds.get().why
    expire(execution)
    [late] = of_type(execution, "hil_timeout")
    assert (late["actionTaken"], late["nodeId"], late["triggerPhase"]) == ("reject", "draft", AFTER)


def test_a_late_agent_answer_has_its_event(operator: User) -> None:
    ail = {"enabled": True, "decision_points": "per_layer", "agent": "external"}
    execution = started(operator, ail=ail)
    [required] = of_type(execution, "decision_required")
    assert (required["decisionType"], required["seq"]) == ("AIL", required["version"])
    assert required["summary"] == "an agent decides after this layer"
    expire(execution)
    late = of_type(execution, "ail_failed")[0]
    assert (late["error"], late["actionTaken"]) == ("nobody decided in time", "continue")
    assert late["holdId"] == required["holdId"]


def test_a_checkpoint_can_be_forked_by_the_id_that_its_event_carries(operator: User) -> None:
    execution = started(operator)
    first = of_type(execution, "checkpoint")[0]
    checkpoint = Checkpoint.objects.get(pk=first["checkpointId"])
    assert (checkpoint.execution_id, checkpoint.layer) == (execution.pk, 0)


def test_changes_of_the_context_name_their_keys(operator: User) -> None:
    execution = started(operator, reviewed_plan())
    services.submit_command(
        execution_id=execution.pk,
        command=services.parse_command({"kind": "update_state", "updates": {"b": 1, "a": 2}}),
        actor=actor_named("operator"),
        source="test",
    )
    assert [each["contextKeys"] for each in of_type(execution, "state_updated")] == [["a", "b"]]


def test_a_learning_failure_has_its_event(operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = started(operator)

    def fails(runs: object) -> None:
        raise TimeoutError("the graph is locked")

    monkeypatch.setattr("workflows.planning.learning.learn_runs", fails)
    learn_from(execution.pk)
    [failed] = of_type(execution, "graphrag_update_failed")
    assert failed["error"] == "TimeoutError: the graph is locked"
    assert failed["actionTaken"] == "skip_learning"
    execution.refresh_from_db()
    assert execution.status == "COMPLETED"
