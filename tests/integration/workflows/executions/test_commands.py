"""The nine commands while a run is paused: effects and refusals."""

from typing import Any

import pytest

from tests.integration.workflows.conftest import Engine, review, source, value
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.protocol.decide import Refused
from workflows.executions.services import fork_execution
from workflows.executions.validation import InvalidRequest
from workflows.models import CommandLog, Execution


@pytest.fixture
def paused(engine: Engine) -> Execution:
    """A run that waits before `gate`, with two layers to come."""
    return engine.run(
        value("first", 1),
        value("gate", 2, depends_on=["first"], **review("BEFORE", on_reject="fail")),
        value("next", source("context", "word"), depends_on=["gate"]),
        value("last", source("next")),
    )


def open_gate(engine: Engine, execution: Execution) -> Execution:
    engine.decide(engine.holds(execution)[0])
    return engine.drive(execution)


def outputs(execution: Execution) -> dict[str, Any]:
    return dict(execution.attempts.values_list("task_id", "output"))


def test_update_state_merges_context(engine: Engine, paused: Execution) -> None:
    engine.command(paused, {"kind": "update_state", "updates": {"word": "a", "other": 1}})
    engine.command(paused, {"kind": "update_state", "updates": {"word": "b"}})
    done = open_gate(engine, paused)
    assert done.context == {"word": "b", "other": 1}
    assert outputs(done)["last"] == "b"


@pytest.mark.parametrize("decided", [False, True], ids=["open", "decided"])
def test_approved_inputs_are_the_inputs_that_run(engine: Engine, decided: bool) -> None:
    """A task's inputs cannot be changed through the context once a person is shown them."""
    word = {"value": source("context", "word")}
    execution = engine.start(
        value("gate", **review("BEFORE")) | {"arguments": word},
        value("other", **review("BEFORE")),
        value("next", source("context", "word"), depends_on=["gate"]),
    )
    engine.command(execution, {"kind": "update_state", "updates": {"word": "shown"}})
    engine.drive(execution)
    gate, _ = engine.holds(execution)
    assert gate.payload == {"value": "shown"}
    if decided:
        engine.decide(gate)
    engine.command(execution, {"kind": "update_state", "updates": {"word": "another"}})
    for hold in engine.holds(execution):
        engine.decide(hold)
    done = engine.drive(execution)
    assert (outputs(done)["gate"], outputs(done)["next"]) == ("shown", "another")


def test_an_edit_is_merged_into_the_shown_inputs(engine: Engine) -> None:
    arguments = {"value": source("context"), "expression": "word"}
    task = {"id": "gate", "type": "tool", "tool": "builtin.select", "arguments": arguments}
    execution = engine.start(task | review("BEFORE"))
    engine.command(execution, {"kind": "update_state", "updates": {"word": "shown"}})
    (hold,) = engine.holds(engine.drive(execution))
    engine.command(execution, {"kind": "update_state", "updates": {"word": "another"}})
    engine.decide(hold, edits={"expression": "@"})
    done = engine.drive(execution)
    assert outputs(done) == {"gate": {"word": "shown"}}


def test_modify_args_changes_pending_tasks(engine: Engine, paused: Execution) -> None:
    change = {"kind": "modify_args", "task_id": "last", "arguments": {"value": "changed"}}
    engine.command(paused, change)
    done = open_gate(engine, paused)
    assert outputs(done)["last"] == "changed"
    assert done.revision == 2


@pytest.mark.parametrize("name", ["first", "gate"])
def test_modify_args_refuses_started_tasks(engine: Engine, paused: Execution, name: str) -> None:
    change = {"kind": "modify_args", "task_id": name, "arguments": {"value": "x"}}
    with pytest.raises(Refused, match="has run, or its layer has begun"):
        engine.command(paused, change)


def test_inject_task_joins_a_later_layer(engine: Engine, paused: Execution) -> None:
    task = value("added", source("first"))
    engine.command(paused, {"kind": "inject_task", "task": task})
    done = open_gate(engine, paused)
    assert outputs(done)["added"] == 1
    assert done.attempts.get(task_id="added").layer == 2
    assert done.attempts.get(task_id="next").layer == 2


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (value("first"), "duplicate_task"),
        (value("x", source("nobody")), "invalid_plan"),
        (value("x", depends_on=["x"]), "invalid_plan"),
    ],
)
def test_inject_task_refuses_invalid_tasks(
    engine: Engine, paused: Execution, task: dict[str, Any], code: str
) -> None:
    with pytest.raises(Refused) as caught:
        engine.command(paused, {"kind": "inject_task", "task": task})
    assert caught.value.code == code
    assert open_gate(engine, paused).status == "COMPLETED"


def test_inject_task_checks_the_catalogue(engine: Engine, paused: Execution) -> None:
    task = value("x") | {"tool": "nobody.knows"}
    with pytest.raises((Refused, InvalidRequest), match="no tool"):
        engine.command(paused, {"kind": "inject_task", "task": task})


def test_skip_layer_records_skipped_tasks(engine: Engine, paused: Execution) -> None:
    engine.command(paused, {"kind": "skip_layer"})
    done = open_gate(engine, paused)
    assert done.status == "COMPLETED"
    skipped = done.attempts.get(task_id="next")
    assert (skipped.status, skipped.skip_reason) == ("SKIPPED", "command")
    assert outputs(done)["last"] is None
    assert "next" not in engine.called(done)


def test_a_skipped_layer_stays_skipped_when_another_layer_changes(engine: Engine) -> None:
    execution = engine.run(
        value("zero", 0, **review("BEFORE")),
        value("one", 1, depends_on=["zero"]),
        value("two", 2, depends_on=["one"]),
        value("three", 3, depends_on=["two"]),
    )
    engine.command(execution, {"kind": "skip_layer", "layer": 2})
    change = {"kind": "modify_args", "task_id": "three", "arguments": {"value": "changed"}}
    engine.command(execution, change)
    # The skipped task shares its layer now.
    engine.command(execution, {"kind": "inject_task", "task": value("more", depends_on=["one"])})
    done = open_gate(engine, execution)
    assert done.status == "COMPLETED"
    assert engine.called(done) == ["zero", "one", "more", "three"]
    skipped = done.attempts.get(task_id="two")
    assert (skipped.status, skipped.skip_reason) == ("SKIPPED", "command")
    assert outputs(done)["three"] == "changed"


def test_a_fork_skips_what_its_parent_had_skipped(engine: Engine) -> None:
    execution = engine.run(
        value("first", 1),
        value("next", 2, depends_on=["first"]),
        value("last", 3, depends_on=["next"]),
        policy={"per_layer_validation": True},
    )
    engine.command(execution, {"kind": "skip_layer", "layer": 2})
    engine.command(execution, {"kind": "continue"})
    engine.drive(execution)
    checkpoint = execution.checkpoints.get(layer=1)
    fork = fork_execution(execution=execution, checkpoint=checkpoint, actor=None)
    engine.drive(fork)
    engine.command(fork, {"kind": "continue"})
    fork = engine.drive(fork)
    assert fork.status == "COMPLETED"
    assert fork.attempts.get(task_id="last").skip_reason == "command"


def test_skip_layer_refuses_a_layer_that_has_begun(engine: Engine, paused: Execution) -> None:
    with pytest.raises(Refused, match="has begun or does not exist"):
        engine.command(paused, {"kind": "skip_layer", "layer": 1})


def test_abort_at_rest_closes_the_holds(engine: Engine, paused: Execution) -> None:
    hold = engine.holds(paused)[0]
    result = engine.command(paused, {"kind": "abort", "reason": "not today"})
    assert (result.outcome, result.status) == ("applied", "ABORTED")
    hold.refresh_from_db()
    paused.refresh_from_db()
    assert (hold.status, paused.error) == ("CLOSED", "not today")
    with pytest.raises(Refused, match="has ended"):
        engine.command(paused, {"kind": "abort"})


def test_continue_is_refused_outside_a_validation(engine: Engine, paused: Execution) -> None:
    with pytest.raises(Refused, match="not waiting"):
        engine.command(paused, {"kind": "continue"})


def test_replan_without_a_planner_leaves_the_run_as_it_was(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*args: object, **kwargs: object) -> None:
        raise TaskFailed("no planner is configured")

    monkeypatch.setattr("workflows.planning.planner.CataloguePlanner.replan", nothing)
    execution = engine.run(
        value("a"), value("b", depends_on=["a"]), policy={"per_layer_validation": True}
    )
    assert execution.status == "AWAITING_AGENT"
    result = engine.command(execution, {"kind": "replan", "new_requirement": "parse XML files"})
    assert (result.outcome, result.status) == ("applied", "AWAITING_AGENT")
    assert engine.kinds(execution)[-1] == "replan_failed"
    engine.command(execution, {"kind": "continue"})
    assert engine.drive(execution).status == "COMPLETED"


def test_every_command_is_logged_with_its_outcome(engine: Engine, paused: Execution) -> None:
    engine.command(paused, {"kind": "update_state", "updates": {}}, actor="ann")
    with pytest.raises(Refused):
        engine.command(paused, {"kind": "continue"}, actor="bob")
    rows = CommandLog.objects.filter(execution=paused).order_by("id")
    assert [(row.kind, row.actor, row.source, row.outcome) for row in rows] == [
        ("update_state", "ann", "test", "applied"),
        ("continue", "bob", "test", "refused"),
    ]
    assert "not waiting" in rows[1].detail


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"kind": "fly"}, "kind"),
        ({}, "kind"),
        ({"kind": "replan"}, "new_requirement"),
        ({"kind": "abort", "reason": 7}, "reason"),
        ({"kind": "abort", "why": "x"}, "why"),
        ({"kind": "skip_layer", "layer": -1}, "layer"),
        ({"kind": "inject_task", "task": {"id": "a", "type": "tool"}}, "task.tool"),
        ({"kind": "approval_response", "approved": True}, "hold"),
    ],
)
def test_a_malformed_command_names_its_field(
    engine: Engine, paused: Execution, data: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.command(paused, data)
    assert path in [each.path for each in caught.value.problems]
