"""Holds: edits affect their own task, siblings keep results, rejections follow the policy."""

import itertools

import pytest

from tests.integration.workflows.conftest import Engine, review, source, value
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.models import Execution


def two_holds(engine: Engine) -> Execution:
    return engine.run(
        value("sibling", "s"),
        value("after", "drafted", **review("AFTER")),
        value("before", "planned", **review("BEFORE")),
        value("end", [source("after"), source("before"), source("sibling")]),
    )


@pytest.mark.parametrize("order", list(itertools.permutations(["after", "before"])))
def test_two_holds_at_one_boundary_in_either_order(engine: Engine, order: tuple[str, str]) -> None:
    execution = two_holds(engine)
    edits = {"after": "edited draft", "before": {"value": "edited plan"}}
    for position, name in enumerate(order):
        hold = next(each for each in engine.holds(execution) if each.task_id == name)
        engine.decide(hold, edits=edits[name])
        execution = engine.drive(execution)
        assert execution.status == ("PAUSED_FOR_REVIEW" if position == 0 else "COMPLETED")
    end = execution.attempts.get(task_id="end")
    assert end.output == ["edited draft", "edited plan", "s"]
    assert sorted(engine.called(execution)) == ["after", "before", "end", "sibling"]


def test_an_edited_output_keeps_the_original_beside_it(engine: Engine) -> None:
    execution = engine.run(value("a", 1, **review("AFTER")))
    engine.decide(engine.holds(execution)[0], edits=2)
    attempt = execution.attempts.get(task_id="a")
    assert (attempt.output, attempt.edited_output, attempt.is_edited) == (1, 2, True)


def test_an_output_may_be_edited_to_null(engine: Engine) -> None:
    execution = engine.run(value("a", 1, **review("AFTER")), value("b", source("a")))
    engine.decide(engine.holds(execution)[0], edits={})
    execution = engine.drive(execution)
    assert execution.attempts.get(task_id="b").output == {}


@pytest.mark.parametrize("phase", ["BEFORE", "AFTER"])
@pytest.mark.parametrize(
    ("on_reject", "status", "task", "dependent"),
    [
        ("abort", "ABORTED", "REJECTED", None),
        ("fail", "FAILED", "REJECTED", "SKIPPED"),
        ("skip", "COMPLETED", "SKIPPED", "SKIPPED"),
    ],
)
def test_a_rejection_follows_the_tasks_policy(
    engine: Engine, phase: str, on_reject: str, status: str, task: str, dependent: str | None
) -> None:
    execution = engine.run(
        value("a", 1, **review(phase, on_reject=on_reject)),
        value("b", source("a")),
        value("free"),
        value("end", source("free")),
    )
    engine.decide(engine.holds(execution)[0], approved=False)
    execution = engine.drive(execution)
    assert execution.status == status
    statuses = engine.statuses(execution)
    assert statuses["a"] == task
    assert statuses.get("b") == dependent
    assert statuses.get("end") == (None if on_reject == "abort" else "SUCCEEDED")
    assert ("a" in engine.called(execution)) is (phase == "AFTER")


def test_a_rejection_that_aborts_closes_the_other_holds(engine: Engine) -> None:
    execution = two_holds(engine)
    first, second = engine.holds(execution)
    engine.decide(first, approved=False)
    second.refresh_from_db()
    assert (second.status, engine.drive(execution).status) == ("CLOSED", "ABORTED")


def test_a_decided_hold_takes_no_second_decision(engine: Engine) -> None:
    execution = two_holds(engine)
    hold = engine.holds(execution)[0]
    engine.decide(hold)
    with pytest.raises(Refused, match="not open"):
        engine.decide(hold, approved=False)


def test_a_decision_on_an_old_version_is_stale(engine: Engine) -> None:
    execution = two_holds(engine)
    hold, other = engine.holds(execution)
    engine.decide(other)
    data = {"kind": "approval_response", "hold": hold.pk, "approved": True}
    with pytest.raises(StaleVersion):
        engine.command(execution, data, version=execution.version)


def test_a_quorum_counts_distinct_people(engine: Engine) -> None:
    execution = engine.run(value("a", 1, **review("BEFORE", quorum=2)))
    hold = engine.holds(execution)[0]
    engine.decide(hold, actor="ann")
    with pytest.raises(Refused, match="approved this already"):
        engine.decide(hold, actor="ann")
    assert engine.drive(execution).status == "PAUSED_FOR_REVIEW"
    with pytest.raises(Refused, match="nobody changes it"):
        engine.decide(hold, actor="bob", edits={"value": 5})
    engine.decide(hold, actor="bob")
    execution = engine.drive(execution)
    assert execution.attempts.get(task_id="a").output == 1
    hold.refresh_from_db()
    assert hold.approvals == ["ann", "bob"]


def test_one_rejection_ends_a_quorum(engine: Engine) -> None:
    execution = engine.run(value("a", 1, **review("BEFORE", quorum=3)))
    hold = engine.holds(execution)[0]
    engine.decide(hold, actor="ann")
    engine.decide(hold, actor="bob", approved=False)
    assert engine.drive(execution).status == "ABORTED"


def test_the_verdict_is_stored_with_the_hold(engine: Engine) -> None:
    execution = engine.run(
        value("a", {"x": 1}, **review("BEFORE", instructions="Look twice.", groups=["legal"]))
    )
    hold = engine.holds(execution)[0]
    assert hold.payload == {"value": {"x": 1}}
    assert (hold.instructions, hold.groups, hold.target) == (
        "Look twice.",
        ["legal"],
        "testkit.value",
    )
    assert hold.why == "task a asks for review before it runs"
