"""What a replan, a suggestion or a command adds to a plan: it matches, and a person sees it."""

from typing import Any

import pytest

from tests.integration.workflows.conftest import Engine, review, value
from tests.support.learning import learn
from workflows.engine.protocol.decide import Refused
from workflows.executions.definitions import plan_for_intent
from workflows.executions.validation import InvalidRequest, check_plan
from workflows.journal.writer import load_revision
from workflows.models import Execution, Hold
from workflows.planning.planner import suggest

WAITING: dict[str, Any] = {"per_layer_validation": True}
#: Requirements that no tool of the catalogue matches, by words or meaning.
NONSENSE = (
    "xyzzy",
    "launch the rocket to the moon",
    "make everybody happy",
    "asdf qwer zxcv",
    "do it",
    "please",
    "now",
    "more",
    "again",
    "continue",
    "make it so",
    "finish the job",
    "think harder",
    "please do the needful",
    "be nice to people",
    "blow up the world",
    "fold the laundry of the neighbour",
    "bake a chocolate cake",
    "sing a song about the sea",
    "walk the dog in the park",
    "win the lottery",
    "feed the cat",
    "buy milk",
)
LEGITIMATE = {
    "parse XML": "builtin.parse_xml",
    "after that, parse the document as JSON": "builtin.parse_json",
    "list the files of the folder": "builtin.list_directory",
    "write the text to a file": "builtin.write_file",
}


@pytest.fixture
def learned(engine: Engine) -> Engine:
    """Three runs in which `write_file` followed `echo`."""
    for at in range(3):
        learn(execution_key=f"run {at}", layers=[["builtin.echo"], ["builtin.write_file"]])
    return engine


def echo(name: str, given: Any, **more: Any) -> dict[str, Any]:
    return value(name, given, **more) | {"tool": "builtin.echo"}


def waiting(engine: Engine) -> Execution:
    second = echo("second", 1, depends_on=["first"])
    return engine.run(echo("first", "<a>{}</a>"), second, policy=WAITING)


def replan(engine: Engine, execution: Execution, words: str, **context: Any) -> Any:
    """Return the event that answers the replan."""
    command = {"kind": "replan", "new_requirement": words, "available_context": context}
    engine.command(execution, command)
    execution.refresh_from_db()
    return execution.events.filter(kind__in=["plan_revised", "replan_failed"]).latest("seq")


def plan_of(execution: Execution) -> Any:
    return load_revision(execution.pk, execution.revision).plan


def test_a_requirement_that_matches_nothing_adds_nothing(learned: Engine, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "max_failed_replans": 100}
    execution = waiting(learned)
    for words in NONSENSE:
        answer = replan(learned, execution, words)
        assert answer.kind == "replan_failed", (words, answer.payload)
        assert answer.payload["error_code"] == "nearest_tools", (words, answer.payload)
        assert "Nearest tools: " in answer.payload["error"], words
        assert suggest(words, {}).plan is None, words
    assert execution.revision == 1
    learned.command(execution, {"kind": "continue"})
    execution = learned.drive(execution)
    assert execution.status == "COMPLETED"
    assert execution.attempts.count() == 2


def test_a_requirement_that_matches_adds_its_tool(learned: Engine) -> None:
    for words, tool in LEGITIMATE.items():
        execution = waiting(learned)
        answer = replan(learned, execution, words)
        assert answer.kind == "plan_revised", (words, answer.payload)
        added = [plan_of(execution).by_id[name].tool for name in answer.payload["added"]]
        assert tool in added, (words, added)


def held(engine: Engine, execution: Execution, task: str) -> Hold:
    """Return the open review before the task, which no timeout decides."""
    execution = engine.drive(execution)
    hold = Hold.objects.get(execution=execution, status="OPEN", task_id=task)
    assert (hold.reason, hold.phase, hold.expires_at) == ("node_review", "BEFORE_EXECUTION", None)
    assert task not in engine.called(execution)
    return hold


def test_a_replanned_task_that_modifies_data_waits_for_a_person(learned: Engine) -> None:
    execution = waiting(learned)
    answer = replan(learned, execution, "write the text to a file", path="a.txt")
    (name,) = answer.payload["added"]
    learned.decide(held(learned, execution, name), approved=False)
    execution = learned.drive(execution)
    assert execution.status == "COMPLETED"
    assert execution.attempts.get(task_id=name).skip_reason == "reviewer"


def two_layers(engine: Engine, given: Any = 1) -> Execution:
    last = value("last", 2, depends_on=["first"])
    return engine.run(value("first", given), last, policy=WAITING)


def effect(**more: Any) -> dict[str, Any]:
    arguments = {"value": 1}
    return {"id": "more", "type": "tool", "tool": "testkit.effect", "arguments": arguments, **more}


@pytest.mark.parametrize(
    "task",
    [
        effect(),
        effect(human_review={"enabled": False}),
        effect(permission_set="readonly"),
    ],
    ids=["no review", "review off", "smaller permissions"],
)
@pytest.mark.parametrize("reviewed", [False, True], ids=["plan", "plan with approve by timeout"])
def test_an_injected_task_that_modifies_data_waits_for_a_person(
    engine: Engine, task: dict[str, Any], reviewed: bool
) -> None:
    loose = {"trigger_phase": "AFTER_EXECUTION", "on_timeout": "approve", "timeout_seconds": 60}
    similar = effect(id="last", depends_on=["second"], human_review=loose)
    second = value("second", 1, depends_on=["first"])
    tasks = [value("first", 1), second, *([similar] if reviewed else [])]
    execution = engine.run(*tasks, policy=WAITING)
    engine.command(execution, {"kind": "inject_task", "task": {**task, "depends_on": ["first"]}})
    engine.command(execution, {"kind": "continue"})
    execution = engine.drive(execution)
    hold = Hold.objects.get(execution=execution, status="OPEN", task_id="more")
    assert hold.phase == "BEFORE_EXECUTION"
    assert hold.on_timeout != "approve"
    assert plan_of(execution).by_id["more"].human_review.always
    assert "more" not in engine.called(execution)


@pytest.mark.parametrize(
    "looser",
    [
        review("AFTER"),
        review("BEFORE", on_timeout="approve", timeout_seconds=1),
        review("BEFORE", skip_when="`true`"),
        review("BEFORE", sample=0.0),
    ],
)
def test_a_looser_review_of_an_injected_task_is_refused(
    engine: Engine, looser: dict[str, Any]
) -> None:
    execution = two_layers(engine)
    with pytest.raises(InvalidRequest) as refused:
        engine.command(execution, {"kind": "inject_task", "task": effect(**looser)})
    (problem,) = refused.value.problems
    assert (problem.path, problem.code) == ("task.human_review", "always_reviewed")
    assert "can modify data and is added to the plan" in problem.message


def test_the_review_of_an_added_task_stays(engine: Engine) -> None:
    """Neither a later command nor a fork takes it away."""
    execution = two_layers(engine)
    engine.command(execution, {"kind": "inject_task", "task": effect(depends_on=["last"])})
    with pytest.raises(Refused) as refused:
        engine.command(execution, {"kind": "skip_layer", "layer": 2})
    assert refused.value.code == "gated"
    change = {"kind": "modify_args", "task_id": "more", "arguments": {"value": 2}}
    engine.command(execution, change)
    engine.command(execution, {"kind": "continue"})
    execution = engine.drive(execution)
    engine.command(execution, {"kind": "continue"})
    assert held(engine, execution, "more").payload == {"value": 2}


def test_an_injected_task_that_only_reads_runs(engine: Engine) -> None:
    execution = two_layers(engine)
    engine.command(execution, {"kind": "inject_task", "task": value("more", 3)})
    engine.command(execution, {"kind": "continue"})
    execution = engine.drive(execution)
    assert "more" in engine.called(execution)


def test_a_suggested_task_that_modifies_data_waits_for_a_person(engine: Engine) -> None:
    inputs = {"path": "a.txt", "content": "hello"}
    plan = check_plan(plan_for_intent(intent="write the content to the file", inputs=inputs))
    (task,) = plan.tasks
    assert task.target == "builtin.write_file"
    assert task.human_review is not None
    assert task.human_review.always
    reads = check_plan(plan_for_intent(intent="list the entries of a directory", inputs={}))
    assert [each.human_review for each in reads.tasks] == [None]


@pytest.mark.parametrize("given", [{}, {"text": None}], ids=["missing", "null"])
def test_a_required_argument_is_asked_for_and_never_null(
    engine: Engine, given: dict[str, Any]
) -> None:
    execution = two_layers(engine, None)
    answer = replan(engine, execution, "parse XML", **given)
    assert answer.kind == "replan_failed", plan_of(execution).tasks[-1].values
    assert answer.payload["error_code"] == "plan_needs_inputs"
    assert "text (for builtin.parse_xml)" in answer.payload["error"]
    with pytest.raises(InvalidRequest) as refused:
        plan_for_intent(intent="parse XML", inputs=given)
    assert [each.path for each in refused.value.problems] == ["inputs.text"]
