"""The stored events of an execution, decoded and folded, give its stored state."""

from typing import Any

import pytest

from tests.integration.workflows.conftest import Engine, review, source, value
from tests.support.actors import actor_named, user_id
from workflows.engine.protocol.commands import WithdrawAnswer
from workflows.engine.protocol.events import STATE_ONLY
from workflows.engine.protocol.state import ExecutionState, load_state
from workflows.executions.services import fork_execution, submit_command
from workflows.journal import writer as journal_writer
from workflows.models import Execution
from workflows.webhooks.payload import task_data


def replayed(execution: Execution) -> ExecutionState:
    """The state from the events, which is the stored one."""
    execution.refresh_from_db()
    state = journal_writer.replayed(execution.pk)
    assert state == load_state({**execution.state, "version": execution.version})
    assert state.version == execution.version == execution.events.count()
    return state


def test_events_rebuild_the_state_at_each_pause(engine: Engine) -> None:
    execution = engine.start(
        value("a", **review("BEFORE")), value("b", source("a"), **review("AFTER"))
    )
    assert replayed(execution) == ExecutionState()
    engine.drive(execution)
    assert replayed(execution).hold(engine.holds(execution)[0].pk)
    engine.decide(engine.holds(execution)[0], edits={"value": "edited"})
    assert replayed(execution).tasks["a"].edits == {"value": "edited"}
    engine.drive(execution)
    engine.decide(engine.holds(execution)[0], approved=False)
    replayed(execution)
    engine.drive(execution)
    assert replayed(execution).status.is_final


def test_events_rebuild_a_withdrawn_decision(engine: Engine) -> None:
    execution = engine.run(value("a", **review("BEFORE")))
    (hold,) = engine.holds(execution)
    engine.decide(hold, actor="ann", undo_seconds=600, edits={"value": "edited"})
    answer = replayed(execution).holds[0].answer
    assert answer is not None
    assert (answer.actor, answer.command["edits"]) == ("ann", {"value": "edited"})
    submit_command(
        execution_id=execution.pk,
        command=WithdrawAnswer(hold=hold.pk, of=user_id("ann")),
        actor=actor_named("ann"),
        source="test",
    )
    assert replayed(execution).holds[0].answer is None


def test_events_rebuild_the_inputs_shown_from_the_context(engine: Engine) -> None:
    execution = engine.start(value("a", source("context", "word"), **review("BEFORE")))
    engine.command(execution, {"kind": "update_state", "updates": {"word": "then"}})
    engine.drive(execution)
    engine.command(execution, {"kind": "update_state", "updates": {"word": "now"}})
    assert replayed(execution).tasks["a"].edits == {"value": "then"}


def test_events_rebuild_a_proposed_plan_change(engine: Engine) -> None:
    execution = engine.run(
        value("a", **review("AFTER")), value("b", source("a")), policy={"replan_review": True}
    )
    task = value("c", source("b"))
    engine.command(execution, {"kind": "inject_task", "task": task})
    proposal = replayed(execution).proposal
    assert proposal is not None
    assert proposal.cause == "inject_task"


def test_events_rebuild_a_fork_of_a_fork(engine: Engine) -> None:
    execution = engine.run(value("a"), value("b", source("a")), value("c", source("b")))
    checkpoint = execution.checkpoints.get(layer=0)
    fork = fork_execution(execution=execution, checkpoint=checkpoint, actor=None)
    assert replayed(fork).origin == str(execution.pk)
    engine.drive(fork)
    assert replayed(fork).status.is_final
    second = fork_execution(execution=fork, checkpoint=fork.checkpoints.get(layer=1), actor=None)
    state = replayed(second)
    assert (state.origin, state.layer) == (str(execution.pk), 1)


@pytest.mark.parametrize("name", sorted(STATE_ONLY))
def test_no_webhook_carries_replay_only_fields(engine: Engine, name: str) -> None:
    execution = engine.run(value("a", **review("AFTER")), policy={"replan_review": True})
    event = execution.events.get(kind="hold_opened")
    event.payload = {**event.payload, name: {"secret": 1}}
    sent: dict[str, Any] = task_data(event)["event"]
    assert name not in sent
    assert sent["hold_id"] == event.payload["hold_id"]
