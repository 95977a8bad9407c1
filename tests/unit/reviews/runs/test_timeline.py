"""Every event that can be recorded has its sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from reviews.decisions.masking import Rules
from reviews.runs.timeline import _LINES, HiddenRules, entry, timeline
from tests.support.actors import actor_named, user_id
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol import events as ev
from workflows.models import ExecutionEvent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HIDDEN = HiddenRules(Rules(None, ()), {})
SAMPLES: list[ev.Event] = [
    ev.ExecutionForked(parent="4", layer=1),
    ev.ExecutionStarted(total_layers=2, total_tasks=3),
    ev.LayerStarted(layer=0, tasks=("a", "b"), skips={}),
    ev.TaskSucceeded(task_id="a", attempt=1, duration_ms=1200),
    ev.TaskErrored(task_id="b", attempt=1, error="boom"),
    ev.TaskEscalated(
        task_id="a", operation="read", resource="/etc/passwd", current={}, requested={}
    ),
    ev.HoldOpened(hold_id="1-1", reason="node_review", task_id="a", phase="AFTER_EXECUTION"),
    ev.HoldVoted(hold_id="1-1", voter="ann", voter_id=user_id("ann"), task_id="a"),
    ev.HoldAnswered(
        hold_id="1-1",
        reason="node_review",
        decision="REQUEST_CHANGES",
        task_id="a",
        comment="shorter",
        undo_seconds=5,
    ),
    ev.HoldWithdrawn(
        hold_id="1-1", task_id="a", voter="ann", voter_id=user_id("ann"), what="decision"
    ),
    ev.HoldDecided(
        hold_id="1-1", reason="node_review", decision="REJECT", task_id="a", comment="no"
    ),
    ev.CapabilityPermissionUpdated(capability="c", task_id="a", hold_id="1-1", granted={}),
    ev.TaskResubmitted(task_id="a", resubmitted={"arguments": {"amount": 1}}),
    ev.ResultReported(task_id="a", phase="BEFORE_EXECUTION", ok=True),
    ev.ResultReported(task_id="a", phase="BEFORE_EXECUTION", ok=False, error="declined"),
    ev.ResultReported(task_id="a", phase="BEFORE_EXECUTION", ok=True, mismatch=True),
    ev.GraphUpdateFailed(error="late"),
    ev.HoldExpired(hold_id="1-1", task_id="a", on_timeout="reject"),
    ev.HoldExtended(hold_id="1-1", task_id="a", seconds=60),
    ev.HoldEscalated(hold_id="1-1", task_id="a", step=0, groups=("legal",), told=("ann",)),
    ev.LayerClosed(layer=0),
    ev.LayerSkipRequested(layer=1),
    ev.LayerSkipped(layer=1, tasks=("c",)),
    ev.AgentDecided(agent="rules", decision="continue"),
    ev.AgentFailed(agent="rules", error="late"),
    ev.AgentRequested(),
    ev.PlanRevised(revision=2, total_layers=2, cause="inject_task", added=("x",)),
    ev.PlanProposed(requirement="r", added=("x",)),
    ev.ReplanFailed(requirement="r", error="none"),
    ev.ContextUpdated(updates={"k": 1}),
    ev.MessageAdded(role="user", content="hello", author="ann"),
    ev.CommandRefused(command="replan", error="held"),
    ev.ExecutionCompleted(),
    ev.ExecutionFailed(error="x"),
    ev.ExecutionAborted(reason="stop"),
    ev.SpeculationHit(task_id="a", seconds=1.5),
    ev.SpeculationMiss(task_id="a", seconds=0.5, reason="its inputs or permissions changed"),
    ev.ReviewSpared(
        task_id="a",
        phase=TriggerPhase.AFTER_EXECUTION,
        rule="small",
        rules_version=3,
        why="sampled out by rule small v3 (hash 0.83 ≥ 0.2)",
        sample=0.2,
        share=0.83,
    ),
    ev.TaskSubmitted(task_id="a", attempt=1, runner="dask", handle="h", since=1, until=2),
]


def stored(event: ev.Event, seq: int = 1, actor: str = "ann") -> ExecutionEvent:
    payload = event.model_dump(mode="json", exclude={"kind"})
    by = actor_named(actor)
    return ExecutionEvent(
        seq=seq,
        kind=event.kind,
        payload=payload,
        actor=by.name,
        actor_id=by.id,
        source="test",
        created_at=NOW,
    )


def test_the_samples_cover_every_kind() -> None:
    kinds = {each.model_fields["kind"].default for each in get_args(get_args(ev.Event)[0])}
    assert {event.kind for event in SAMPLES} == kinds
    assert set(_LINES) | {"message_added"} == kinds


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.kind)
def test_each_event_is_a_sentence(event: ev.Event) -> None:
    line: dict[str, Any] = entry(stored(event), HIDDEN)
    assert line["sentence"]
    assert line["subject"] in line["sentence"]
    assert line["meaning"] in ("quiet", "good", "bad", "waiting", "running")


def test_the_timeline_is_grouped_by_layer() -> None:
    events = [stored(event, seq) for seq, event in enumerate(SAMPLES, 1)]
    groups = timeline(events, {0: (1, 2), 1: (1, 1)}, HIDDEN)
    assert [group.title for group in groups] == ["Start", "Layer 1", "Layer 2"]
    assert (groups[1].done, groups[1].total) == (1, 2)
    assert [line["seq"] for group in groups for line in group.entries] == list(
        range(1, len(SAMPLES) + 1)
    )


def test_an_actor_is_named_once() -> None:
    decided = entry(stored(SAMPLES[10]), HIDDEN)
    assert decided["sentence"].startswith("ann rejected a")
    assert decided["actor"] == ""
    assert entry(stored(SAMPLES[1]), HIDDEN)["actor"] == "ann"
    assert entry(stored(SAMPLES[1], actor="system"), HIDDEN)["actor"] == ""


@pytest.mark.parametrize(
    ("role", "author", "words"),
    [
        ("user", "ann", ("ann", "person")),
        ("assistant", "agent:rules", ("rules", "agent")),
        ("system", "", ("system", "system")),
        ("tool", "git", ("git", "tool")),
    ],
)
def test_a_message_names_its_author_and_role(
    role: Any, author: str, words: tuple[str, str]
) -> None:
    said = ev.MessageAdded(role=role, content="hello", author=author)
    line = entry(stored(said, actor="system"), HIDDEN)
    assert (line["actor"], line["role"]) == words
    assert (line["kind"], line["sentence"], line["json"]) == ("message", "hello", "")


def test_a_long_message_is_collapsed() -> None:
    said = ev.MessageAdded(role="assistant", content="x" * 5000, author="agent:llm")
    line = entry(stored(said), HIDDEN)
    assert len(line["sentence"]) < 2000
    assert line["json"] == "x" * 5000


def test_a_stored_checkpoint_offers_a_fork() -> None:
    events = [stored(event, seq) for seq, event in enumerate(SAMPLES, 1)]
    lines = [
        line for group in timeline(events, {}, HIDDEN, {0: "/here/"}) for line in group.entries
    ]
    assert [line["seq"] for line in lines if line.get("fork_url")] == [
        seq for seq, event in enumerate(SAMPLES, 1) if event.kind == "layer_closed"
    ]
    gone = [line for group in timeline(events, {}, HIDDEN, {7: "/x/"}) for line in group.entries]
    assert not any(line.get("fork_url") for line in gone)


def test_an_instant_task_shows_no_duration() -> None:
    quick = entry(stored(ev.TaskSucceeded(task_id="a", attempt=1, duration_ms=3)), HIDDEN)
    slow = entry(stored(ev.TaskSucceeded(task_id="a", attempt=1, duration_ms=1200)), HIDDEN)
    assert (quick["sentence"], slow["sentence"]) == ("a done", "a done in 1.2 s")
