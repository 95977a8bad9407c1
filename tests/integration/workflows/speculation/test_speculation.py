"""Speculation: hidden before the decision, no call twice, no hold passed."""

from collections import Counter
from typing import Any

import django_rq
import pytest

from graphrag.models import Tool
from tests.integration.workflows.conftest import Engine, review, source, value
from workflows.executions.jobs import speculate
from workflows.executions.services import fork_execution
from workflows.models import Execution, Speculation
from workflows.speculation.store import clean_up

AHEAD = {"speculation": {"enabled": True}}


def pick(name: str, of: str, field: str, **more: Any) -> dict[str, Any]:
    return value(name, source(of, field), **more)


def chain(phase: str = "AFTER") -> list[dict[str, Any]]:
    """A held task with two fields; two chains of readers, one behind each field."""
    return [
        value("held", {"left": 1, "right": 2}, **review(phase)),
        pick("left", "held", "left"),
        value("left2", [source("left")]),
        pick("right", "held", "right"),
        value("right2", [source("right")]),
    ]


def paused(engine: Engine, *tasks: dict[str, Any], **more: Any) -> Execution:
    """A run at its hold, with what lies behind worked out."""
    execution = engine.run(*tasks, policy=more.pop("policy", AHEAD), **more)
    work_ahead(execution)
    return execution


def work_ahead(execution: Execution) -> None:
    """As a worker does while no other run waits for it."""
    django_rq.get_queue("default").empty()
    speculate(execution.pk)


def states(execution: Execution) -> dict[str, str]:
    return dict(execution.speculations.values_list("task_id", "state"))


def outcomes(execution: Execution) -> list[tuple[str, str]]:
    rows = execution.events.filter(kind__startswith="speculation").order_by("seq")
    return [(row.kind.removeprefix("speculation_"), row.payload["task_id"]) for row in rows]


@pytest.mark.parametrize("phase", ["BEFORE", "AFTER"])
def test_an_unchanged_approval_uses_the_results_without_a_second_call(
    engine: Engine, phase: str
) -> None:
    execution = paused(engine, *chain(phase))
    ahead = Counter(engine.called(execution))
    assert ahead == Counter(["held", "left", "left2", "right", "right2"])
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert Counter(engine.called(execution)) == ahead
    names = ["left", "right", "left2", "right2"]
    assert outcomes(execution) == [("hit", name) for name in ["held"] * (phase == "BEFORE") + names]
    assert set(states(execution).values()) == {"USED"}
    assert execution.attempts.get(task_id="right2").output == [2]


def test_an_edited_field_drops_exactly_its_dependents(engine: Engine) -> None:
    execution = paused(engine, *chain())
    engine.decide(engine.holds(execution)[0], edits={"left": 1, "right": 20})
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert states(execution) | {"right": "", "right2": ""} == {
        "left": "USED",
        "left2": "USED",
        "right": "",
        "right2": "",
    }
    assert sorted(outcomes(execution)) == [
        ("hit", "left"),
        ("hit", "left2"),
        ("miss", "right"),
        ("miss", "right2"),
    ]
    calls = Counter(engine.called(execution))
    assert calls == Counter({"held": 1, "left": 1, "left2": 1, "right": 2, "right2": 2})
    assert execution.attempts.get(task_id="right2").output == [20]


def test_results_are_hidden_before_the_decision(engine: Engine) -> None:
    execution = paused(engine, *chain())
    assert set(states(execution).values()) == {"READY"}
    assert set(execution.attempts.values_list("task_id", flat=True)) == {"held"}
    assert outcomes(execution) == []
    execution.refresh_from_db()
    assert execution.status == "PAUSED_FOR_REVIEW"
    assert engine.kinds(execution)[-1] == "hold_opened"


@pytest.mark.parametrize("phase", ["BEFORE", "AFTER"])
def test_a_task_behind_another_review_is_computed_and_still_waits(
    engine: Engine, phase: str
) -> None:
    execution = paused(
        engine,
        value("first", 1, **review("AFTER")),
        value("second", source("first"), **review(phase)),
        value("third", source("second")),
    )
    assert set(states(execution)) == {"second", "third"}
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    assert execution.status == "PAUSED_FOR_REVIEW"
    (hold,) = engine.holds(execution)
    assert (hold.task_id, hold.phase) == ("second", f"{phase}_EXECUTION")
    assert "third" not in engine.statuses(execution)
    engine.decide(hold)
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert Counter(engine.called(execution)) == Counter(["first", "second", "third"])


def test_only_read_only_tools_are_run(engine: Engine) -> None:
    unmarked = {"type": "tool", "tool": "testkit.slow", "arguments": {"seconds": 0.0}}
    execution = paused(
        engine,
        value("held", 1, **review("AFTER")),
        {"id": "writes", "type": "tool", "tool": "testkit.effect", "arguments": {"value": 1}}
        | {"depends_on": ["held"]},
        value("reads_it", source("writes")),
        {"id": "unmarked", **unmarked, "depends_on": ["held"]},
        {"id": "code", "type": "code_execution", "language": "python", "code": "1"}
        | {"depends_on": ["held"]},
        value("more", source("held"), permission_set="filesystem"),
        value("reads", source("held")),
    )
    assert states(execution) == {"reads": "READY"}
    assert engine.called(execution) == ["held", "reads"]
    assert engine.called(execution, "begin") == []


def test_a_held_writer_is_not_run(engine: Engine) -> None:
    execution = paused(
        engine,
        {"id": "held", "type": "tool", "tool": "testkit.effect", "arguments": {"value": 1}}
        | review("BEFORE"),
        value("behind", source("held")),
    )
    assert engine.called(execution) == []
    assert states(execution) == {}


def test_a_tool_that_lost_its_mark_is_called_again(engine: Engine) -> None:
    execution = paused(engine, value("held", 1, **review("AFTER")), value("b", source("held")))
    Tool.objects.filter(name="testkit.value").update(read_only=False)
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert outcomes(execution) == [("miss", "b")]
    assert engine.called(execution) == ["held", "b", "b"]


def test_without_the_policy_nothing_is_computed(engine: Engine) -> None:
    execution = paused(engine, *chain(), policy={})
    assert states(execution) == {}


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        ({"hil": {"enabled": True}}, {"approval_response": True}),
        ({"per_layer_validation": True}, {}),
        ({"ail": {"enabled": True, "agent": "external"}}, {}),
    ],
)
def test_a_layer_approval_lets_the_next_layers_be_computed(
    engine: Engine, policy: dict[str, Any], answer: dict[str, Any]
) -> None:
    tasks = [value("a", 1), value("b", source("a")), value("c", source("b"))]
    execution = paused(engine, *tasks, policy={**AHEAD, **policy})
    for _ in range(6):
        if execution.status == "COMPLETED":
            break
        work_ahead(execution)
        for hold in engine.holds(execution):
            if answer:
                engine.decide(hold)
            else:
                engine.command(execution, {"kind": "continue"})
        execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert sorted(engine.called(execution)) == ["a", "b", "c"]
    expected = ["a", "b", "c"] if answer else ["b", "c"]
    assert outcomes(execution) == [("hit", name) for name in expected]


def test_the_policy_bounds_the_number_of_calls(engine: Engine) -> None:
    policy = {"speculation": {"enabled": True, "max_tasks": 3}}
    tasks = [value("held", 1, **review("AFTER"))]
    tasks += [value(f"t{n}", source("held" if n == 0 else f"t{n - 1}")) for n in range(5)]
    execution = paused(engine, *tasks, policy=policy)
    work_ahead(execution)
    assert list(states(execution)) == ["t0", "t1", "t2"]


def test_conditions_are_evaluated_ahead(engine: Engine) -> None:
    execution = paused(
        engine,
        value("held", {"go": False, "n": 1}, **review("AFTER")),
        value("skipped", 1, when="held.go", depends_on=["held"]),
        value("behind_it", source("skipped")),
        value("runs", 1, when="held.n", depends_on=["held"]),
    )
    assert set(states(execution)) == {"runs"}


def test_a_tool_that_failed_speculatively_is_called_again(engine: Engine) -> None:
    Tool.objects.filter(name="testkit.flaky").update(read_only=True)
    execution = paused(
        engine,
        value("held", 1, **review("AFTER")),
        {"id": "fails", "type": "tool", "tool": "builtin.fail", "arguments": {}}
        | {"depends_on": ["held"]},
        value("behind", source("fails")),
    )
    assert states(execution) == {"fails": "FAILED"}
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    assert engine.statuses(execution)["fails"] == "FAILED"
    assert outcomes(execution) == []


def test_a_rejection_drops_everything(engine: Engine) -> None:
    execution = paused(engine, *chain())
    engine.decide(engine.holds(execution)[0], approved=False)
    assert engine.drive(execution).status == "ABORTED"
    clean_up()
    assert set(states(execution).values()) == {"DROPPED"}
    assert not Speculation.objects.exclude(output="").exists()


def test_an_abort_drops_everything(engine: Engine) -> None:
    execution = paused(engine, *chain())
    engine.command(execution, {"kind": "abort"})
    work_ahead(execution)
    clean_up()
    assert set(states(execution).values()) == {"DROPPED"}


def test_used_results_are_deleted_and_counted(engine: Engine) -> None:
    execution = paused(engine, *chain())
    assert clean_up() == 0
    engine.decide(engine.holds(execution)[0])
    engine.drive(execution)
    assert clean_up() == 4
    assert clean_up() == 0
    assert set(states(execution).values()) == {"USED"}
    assert not Speculation.objects.exclude(output="").exists()


def test_a_result_that_is_too_old_is_not_used(engine: Engine, monkeypatch: Any) -> None:
    execution = paused(engine, value("held", 1, **review("AFTER")), value("b", source("held")))
    monkeypatch.setattr("workflows.speculation.store.MAX_AGE_SECONDS", 0)
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    assert engine.called(execution) == ["held", "b", "b"]
    (event,) = execution.events.filter(kind="speculation_miss")
    assert event.payload["reason"] == "it was too old"


def test_a_fork_copies_no_results(engine: Engine) -> None:
    parent = paused(engine, value("a", 1), value("b", source("a"), **review("AFTER")))
    fork = fork_execution(execution=parent, checkpoint=parent.checkpoints.get(), actor=None)
    fork = engine.drive(fork)
    assert fork.status == "PAUSED_FOR_REVIEW"
    assert states(fork) == {}
    assert engine.called(fork) == ["b"]


def test_an_edit_at_one_hold_keeps_results_of_the_other(engine: Engine) -> None:
    execution = paused(
        engine,
        value("x", 1, **review("AFTER")),
        value("y", 2, **review("AFTER")),
        value("of_x", source("x")),
        value("of_y", source("y")),
    )
    first, second = engine.holds(execution)
    engine.decide(first, edits=10)
    work_ahead(execution)
    engine.decide(second)
    execution = engine.drive(execution)
    assert execution.attempts.get(task_id="of_x").output == 10
    # Once for what was shown, once for what was edited while the other hold was open.
    assert Counter(engine.called(execution)) == Counter(x=1, y=1, of_x=2, of_y=1)
    assert sorted(outcomes(execution)) == [("hit", "of_x"), ("hit", "of_y")]
    rows = execution.speculations.values_list("task_id", "state").order_by("id")
    assert sorted(rows) == [("of_x", "DROPPED"), ("of_x", "USED"), ("of_y", "USED")]
