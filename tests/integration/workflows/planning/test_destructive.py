"""A tool that can destroy data runs only after a person reviewed its task, in every plan."""

from typing import Any

import pytest

from graphrag.models import Tool
from tests.integration.workflows.conftest import Engine, review, source, value
from workflows.engine.protocol.ports import FinishedTask
from workflows.executions.definitions import plan_for_intent
from workflows.executions.services import fork_execution
from workflows.executions.validation import InvalidRequest, check_plan
from workflows.journal.writer import load_revision
from workflows.models import Execution, Hold
from workflows.planning.planner import CataloguePlanner, sync_python_tools

NEVER: dict[str, Any] = {"hil": {"enabled": False}, "replan_review": False}


@pytest.fixture
def destructive(engine: Engine) -> None:
    Tool.objects.filter(name="testkit.value").update(destructive=True)


def waits_for_review(execution: Execution, task: str) -> bool:
    hold = Hold.objects.get(execution=execution, status="OPEN")
    return (hold.reason, hold.task_id, hold.phase) == ("node_review", task, "BEFORE_EXECUTION")


@pytest.mark.parametrize(
    "written", [{}, {"human_review": {"enabled": False}}, review("BEFORE", on_timeout="reject")]
)
def test_a_plan_without_a_review_gets_one(
    engine: Engine, destructive: None, written: dict[str, Any]
) -> None:
    execution = engine.run(value("wipe", 1, **written), policy=NEVER)
    assert waits_for_review(execution, "wipe")
    assert engine.called(execution) == []


@pytest.mark.parametrize(
    "looser",
    [
        review("AFTER"),
        review("BEFORE", on_timeout="approve", timeout_seconds=1),
        review("BEFORE", skip_when="`true`"),
        review("BEFORE", sample=0.0),
    ],
)
def test_a_looser_review_is_refused(
    engine: Engine, destructive: None, looser: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        engine.start(value("wipe", 1, **looser), policy=NEVER)
    (problem,) = refused.value.problems
    assert (problem.path, problem.code) == ("plan.tasks[0].human_review", "always_reviewed")


def test_a_plan_from_words_has_the_review(engine: Engine) -> None:
    sync_python_tools()
    Tool.objects.filter(name="builtin.list_directory").update(destructive=True)
    plan = plan_for_intent(intent="list the entries of a directory", inputs={"path": "."})
    (task,) = check_plan(plan).tasks
    assert task.human_review is not None
    assert task.human_review.always


def test_a_replan_adds_the_task_with_its_review(engine: Engine) -> None:
    sync_python_tools()
    Tool.objects.filter(name="builtin.parse_xml").update(destructive=True)
    plan = check_plan({"tasks": [value("first", 1)]})
    changed = CataloguePlanner().replan(
        plan=plan,
        finished=dict[str, FinishedTask](),
        begun=frozenset(),
        requirement="parse XML",
        context={"text": "<a/>"},
        inputs={},
    )
    (added,) = (task for task in changed.plan.tasks if task.id != "first")
    assert added.human_review is not None
    assert added.human_review.always


# --- a tool that is marked while a run goes on ----------------------------------------------------


def mark() -> None:
    Tool.objects.filter(name="testkit.value").update(destructive=True)


def fork_after_marking(execution: Execution) -> Execution:
    mark()
    checkpoint = execution.checkpoints.get(layer=0)
    return fork_execution(execution=execution, checkpoint=checkpoint, actor=None)


def test_a_fork_reviews_a_tool_that_was_marked_since(engine: Engine) -> None:
    execution = engine.run(value("first", 1), value("wipe", source("first")), policy=NEVER)
    assert execution.status == "COMPLETED"
    fork = engine.drive(fork_after_marking(execution))
    assert waits_for_review(fork, "wipe")
    assert engine.called(fork) == []
    plan = load_revision(fork.pk, 1).plan
    assert plan.by_id["first"].human_review is None


def test_a_fork_with_a_looser_review_of_a_marked_tool_is_refused(engine: Engine) -> None:
    wipe = value("wipe", source("first"), **review("BEFORE", skip_when="`true`"))
    execution = engine.run(value("first", 1), wipe, policy=NEVER)
    assert execution.status == "COMPLETED"
    with pytest.raises(InvalidRequest) as refused:
        fork_after_marking(execution)
    (problem,) = refused.value.problems
    assert (problem.path, problem.code) == ("plan.tasks[1].human_review", "always_reviewed")
    assert Execution.objects.count() == 1


def test_a_fork_after_the_marked_task_starts_as_it_is(engine: Engine) -> None:
    after = {"id": "after", "type": "tool", "tool": "testkit.effect", "depends_on": ["first"]}
    execution = engine.run(value("first", 1), {**after, "arguments": {"value": 1}}, policy=NEVER)
    fork = engine.drive(fork_after_marking(execution))
    assert fork.status == "COMPLETED"


@pytest.mark.parametrize("written", [{}, review("BEFORE")], ids=["no review", "a review"])
def test_a_replan_reviews_a_tool_that_was_marked_since(
    engine: Engine, written: dict[str, Any]
) -> None:
    """The tasks that have begun call the tool too, and stay as they are."""
    execution = engine.run(
        value("first", 1),
        value("wipe", source("first"), **written),
        policy={**NEVER, "per_layer_validation": True},
    )
    assert execution.status == "AWAITING_AGENT"
    mark()
    wanted = {"kind": "replan", "new_requirement": "parse XML"}
    engine.command(execution, {**wanted, "available_context": {"text": "<a/>"}})
    execution = engine.drive(execution)
    assert "plan_revised" in engine.kinds(execution)
    plan = load_revision(execution.pk, execution.revision).plan
    assert plan.by_id["first"].human_review is None
    kept = plan.by_id["wipe"].human_review
    assert kept is not None
    assert kept.always
    assert waits_for_review(execution, "wipe")
    assert "wipe" not in engine.called(execution)


def test_a_replan_keeps_no_looser_review_of_a_marked_tool(engine: Engine) -> None:
    wipe = value("wipe", source("first"), **review("BEFORE", sample=0.0))
    policy = {**NEVER, "per_layer_validation": True}
    execution = engine.run(value("first", 1), wipe, policy=policy)
    mark()
    wanted = {"kind": "replan", "new_requirement": "parse XML"}
    engine.command(execution, {**wanted, "available_context": {"text": "<a/>"}})
    failed = execution.events.get(kind="replan_failed")
    assert failed.payload["error_code"] == "plan_invalid"
    assert "can destroy data" in failed.payload["error"]


WAITING: dict[str, Any] = {**NEVER, "per_layer_validation": True}


def has_review(execution: Execution, task: str) -> bool:
    found = load_revision(execution.pk, execution.revision).plan.by_id[task].human_review
    return found is not None and found.always


def test_an_accepted_plan_change_reviews_a_tool_that_was_marked_while_it_waited(
    engine: Engine,
) -> None:
    policy = {**WAITING, "replan_review": True}
    execution = engine.run(value("first", 1), value("wipe", source("first")), policy=policy)
    wanted = {"kind": "replan", "new_requirement": "parse XML"}
    engine.command(execution, {**wanted, "available_context": {"text": "<a/>"}})
    engine.drive(execution)
    hold = Hold.objects.get(execution=execution, status="OPEN")
    mark()
    engine.command(execution, {"kind": "approval_response", "hold": hold.pk, "approved": True})
    execution = engine.drive(execution)
    assert "plan_revised" in engine.kinds(execution)
    assert has_review(execution, "wipe")
    assert "wipe" not in engine.called(execution)


def test_an_added_task_brings_reviews_for_tools_that_were_marked_since(engine: Engine) -> None:
    execution = engine.run(value("first", 1), value("wipe", source("first")), policy=WAITING)
    mark()
    task = {"id": "more", "type": "tool", "tool": "testkit.effect", "arguments": {"value": 1}}
    engine.command(execution, {"kind": "inject_task", "task": {**task, "depends_on": ["wipe"]}})
    execution.refresh_from_db()
    assert has_review(execution, "wipe")
    engine.command(execution, {"kind": "continue"})
    assert waits_for_review(engine.drive(execution), "wipe")


# --- tools without a mark -------------------------------------------------------------------------


def test_a_tool_of_a_server_without_marks_is_reviewed(engine: Engine) -> None:
    """MCP's `destructiveHint` is true where a server does not declare it."""
    Tool.objects.filter(name="testkit.value").update(kind="mcp", read_only=False)
    execution = engine.run(value("wipe", 1), policy=NEVER)
    assert waits_for_review(execution, "wipe")
