"""Forks from checkpoints: reused results and repeated reviews."""

from tests.integration.workflows.conftest import Engine, review, source, value
from tests.support.actors import actor_named
from workflows.engine.protocol.commands import AddMessage
from workflows.executions.selectors import messages_of
from workflows.executions.services import fork_execution, submit_command
from workflows.models import Checkpoint, Execution


def at(execution: Execution, layer: int) -> Checkpoint:
    return execution.checkpoints.get(layer=layer)


def test_a_fork_reuses_finished_tasks_and_runs_the_rest(engine: Engine) -> None:
    execution = engine.run(
        value("a", source("inputs", "n")),
        value("b", [source("a"), source("context", "word")]),
        inputs={"n": 1},
    )
    fork = fork_execution(
        execution=execution, checkpoint=at(execution, 0), actor=None, context={"word": "new"}
    )
    fork.refresh_from_db()
    assert fork.created_at <= fork.updated_at
    fork = engine.drive(fork)
    assert fork.status == "COMPLETED"
    assert fork.attempts.get(task_id="b").output == [1, "new"]
    assert engine.called(fork) == ["b"]
    assert (fork.parent_id, fork.forked_at_layer) == (execution.pk, 0)
    assert engine.kinds(fork)[0] == "execution_forked"


def test_a_fork_meets_every_hold_behind_its_checkpoint_again(engine: Engine) -> None:
    execution = engine.run(
        value("a"), value("b", source("a"), **review("BEFORE")), value("c", source("b"))
    )
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    fork = engine.drive(
        fork_execution(execution=execution, checkpoint=at(execution, 0), actor=None)
    )
    assert fork.status == "PAUSED_FOR_REVIEW"
    (hold,) = engine.holds(fork)
    assert (hold.pk, hold.task_id) == (f"{fork.pk}-1", "b")
    assert "b" not in engine.called(fork)


def test_an_aborted_run_continues_in_a_fork(engine: Engine) -> None:
    execution = engine.run(value("a"), value("b", source("a"), **review("BEFORE")))
    engine.decide(engine.holds(execution)[0], approved=False)
    fork = engine.drive(
        fork_execution(execution=execution, checkpoint=at(execution, 0), actor=None)
    )
    engine.decide(engine.holds(fork)[0])
    assert engine.drive(fork).status == "COMPLETED"


def test_an_edited_output_is_what_the_fork_reads(engine: Engine) -> None:
    execution = engine.run(value("a", 1, **review("AFTER")), value("b", source("a")))
    engine.decide(engine.holds(execution)[0], edits=2)
    execution = engine.drive(execution)
    fork = engine.drive(
        fork_execution(execution=execution, checkpoint=at(execution, 0), actor=None)
    )
    assert fork.attempts.get(task_id="b").output == 2


def test_the_conversation_is_copied(engine: Engine) -> None:
    execution = engine.run(value("a"), policy={"hil": {"enabled": True}})
    submit_command(
        execution_id=execution.pk,
        command=AddMessage(role="user", content="be gentle"),
        actor=actor_named("ann"),
        source="test",
    )
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    fork = fork_execution(execution=execution, checkpoint=at(execution, 0), actor=None)
    assert [(each["content"], each["author"]) for each in messages_of(fork)] == [
        ("be gentle", "ann")
    ]
