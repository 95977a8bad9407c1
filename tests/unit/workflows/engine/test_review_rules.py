"""Rules that skip reviews: matching, required reviews, and errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.stateful.scripted import ScriptedRunner
from tests.support.actors import actor_named
from tests.support.memory_journal import MemoryJournal
from workflows.engine.plans.dag import ToolTask
from workflows.engine.plans.validation import PlanInvalid, parse_plan
from workflows.engine.policy.policies import Policy, ReviewPolicy, ReviewRules, TriggerPhase
from workflows.engine.protocol import events as ev
from workflows.engine.protocol.commands import ApprovalResponse
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import Ports
from workflows.engine.protocol.review_rules import evaluate_rules, sample_position

BEFORE, AFTER = TriggerPhase.BEFORE_EXECUTION, TriggerPhase.AFTER_EXECUTION

#: Where ("1", "draft"), ("2", "draft") and ("4182", "draft") fall.
KEPT = [0.936246, 0.187912, 0.751293]


def tool(name: str = "a", *, writes: bool = False, **review: Any) -> ToolTask:
    return ToolTask(
        id=name,
        type="tool",
        tool="git.git_log",
        arguments={"n": 1},
        permission_set="filesystem" if writes else "readonly",
        human_review=ReviewPolicy.model_validate(review),
    )


def rules(*each: dict[str, Any]) -> ReviewRules:
    named = [{"name": f"r{index}", **rule} for index, rule in enumerate(each, 1)]
    return ReviewRules.model_validate({"version": 3, "rules": named})


def code(task: ToolTask, found: ReviewRules, document: Any = None, **more: Any) -> str:
    held = {"inputs": {"n": 1}, "output": [1]} if document is None else document
    return evaluate_rules(task, more.pop("phase", AFTER), found, held, run="7", **more).code


# --- samples --------------------------------------------------------------------------------------


@given(run=st.text(max_size=30), task=st.text(max_size=64))
def test_a_share_is_deterministic_and_below_one(run: str, task: str) -> None:
    share = sample_position(run, task)
    assert 0 <= share < 1
    assert share == sample_position(run, task)


def test_shares_do_not_change_between_releases() -> None:
    """A run that was spared yesterday is spared by its fork tomorrow: these numbers are kept."""
    assert [round(sample_position(run, "draft"), 6) for run in ("1", "2", "4182")] == KEPT


@pytest.mark.parametrize("sample", [0.0, 0.01, 0.2, 0.5, 0.9, 1.0])
def test_the_share_that_is_reviewed_is_the_sample(sample: float) -> None:
    """Over the same twenty thousand runs each time: within five standard deviations."""
    many = 20_000
    found = rules({"sample": sample})
    task, document = tool(), {"inputs": {}, "output": 1}
    codes = Counter(
        evaluate_rules(task, AFTER, found, document, run=str(n)).code for n in range(many)
    )
    assert set(codes) <= {"sampled_in", "sampled_out"}
    bound = 5 * (sample * (1 - sample) / many) ** 0.5
    assert abs(codes["sampled_in"] / many - sample) <= bound


@given(
    run=st.integers(min_value=1, max_value=10**9).map(str),
    low=st.floats(min_value=0, max_value=1),
    high=st.floats(min_value=0, max_value=1),
)
def test_a_larger_sample_takes_no_review_away(run: str, low: float, high: float) -> None:
    low, high = sorted((low, high))
    document: dict[str, Any] = {"inputs": {}, "output": 1}
    spared = [
        evaluate_rules(tool(), AFTER, rules({"sample": each}), document, run=run).skips_review
        for each in (low, high)
    ]
    assert spared != [False, True]


def test_the_reason_names_rule_and_share() -> None:
    verdict = evaluate_rules(tool(), AFTER, rules({"sample": 0.2}), {}, run="1")
    assert (
        verdict.reason.text
        == f"sampled out by rule r1 v3 (hash {sample_position('1', 'a'):.4g} ≥ 0.2)"
    )
    assert (verdict.rule, verdict.version, verdict.sample) == ("r1", 3, 0.2)


# --- conditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("inputs.n == `1`", "condition"),
        ("inputs.n == `2`", "no_rule"),
        ("inputs.missing > `2`", "no_rule"),
        ("length(output) < `5`", "condition"),
        ("length(inputs.missing) < `5`", "error"),
        ("inputs.n", "error"),
        ("output", "error"),
        ("inputs.missing", "no_rule"),
        ("nothing(inputs)", "error"),
        ("sum(output) == `1`", "condition"),
        ("sum(inputs) == `1`", "error"),
    ],
)
def test_a_condition_skips_only_when_it_is_true(condition: str, expected: str) -> None:
    assert code(tool(), rules({"skip_when": condition})) == expected


@given(
    condition=st.sampled_from(
        ["inputs.a", "length(@)", "inputs.a > `1`", "sum(inputs.a)", "inputs.a && output", "max(@)"]
    ),
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("a"), inner),
        max_leaves=8,
    ),
)
def test_no_document_makes_a_rule_raise_or_skip_by_mistake(condition: str, document: Any) -> None:
    """Fail closed: a review is spared when the condition is `true`, and in no other case."""
    held = {"inputs": document, "output": document}
    verdict = evaluate_rules(tool(), AFTER, rules({"skip_when": condition}), held, run="1")
    try:
        is_true = jmespath.search(condition, held) is True
    except Exception:
        is_true = False
    assert verdict.skips_review is is_true


def test_deep_data_is_an_error_of_the_rule() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    found = rules({"skip_when": "to_string(output) == 'x'"})
    assert code(tool(), found, {"inputs": {}, "output": deep}) == "error"


def test_a_condition_with_a_sample_still_reviews_that_share() -> None:
    found = rules({"skip_when": "inputs.n == `1`", "sample": 1.0}, {"skip_when": "`true`"})
    assert code(tool(), found) == "sampled_in"


def test_the_first_matching_rule_decides() -> None:
    found = rules({"skip_when": "`false`"}, {"sample": 1.0}, {"sample": 0.0})
    assert code(tool(), found) == "sampled_in"
    assert code(tool(sample=0.0), found) == "sampled_out"
    assert code(tool(skip_when="inputs.n"), rules({"sample": 0})) == "error"


@pytest.mark.parametrize(
    ("narrow", "expected"),
    [
        ({"tools": ["git.git_log"]}, "condition"),
        ({"tools": ["git.*"]}, "condition"),
        ({"tools": ["git"]}, "no_rule"),
        ({"tools": ["builtin.*", "git.git_log"]}, "condition"),
        ({"tasks": ["a"]}, "condition"),
        ({"tasks": ["b"]}, "no_rule"),
        ({"tasks": ["a"], "tools": ["x"]}, "no_rule"),
        ({"phase": "AFTER_EXECUTION"}, "condition"),
        ({"phase": "BEFORE_EXECUTION"}, "no_rule"),
    ],
)
def test_a_rule_matches_its_tools_tasks_and_phase(narrow: dict[str, Any], expected: str) -> None:
    assert code(tool(), rules({"skip_when": "`true`", **narrow})) == expected


# --- what nothing spares --------------------------------------------------------------------------

ALL = rules({"skip_when": "`true`"})


def test_tools_that_modify_data_are_always_reviewed() -> None:
    assert code(tool(writes=True), ALL, phase=BEFORE) == "high_risk"
    assert code(tool(writes=True), ALL, phase=AFTER) == "condition"
    assert code(tool(), ALL, phase=BEFORE) == "condition"
    own = tool(writes=True, skip_when="`true`")
    assert code(own, ReviewRules(), phase=BEFORE) == "high_risk"


def test_a_sent_back_output_is_reviewed_again() -> None:
    assert code(tool(), ALL, sent_back=True) == "sent_back"


def test_a_required_review_is_never_skipped() -> None:
    assert code(tool(always=True), ALL) == "always"


# --- bad rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("review", "path", "kind"),
    [
        ({"skip_when": "x["}, "tasks[0].human_review.skip_when", "bad_expression"),
        ({"skip_when": "(" * 2000}, "tasks[0].human_review.skip_when", "bad_expression"),
        ({"skip_when": ""}, "tasks[0].human_review.skip_when", "string_too_short"),
        ({"skip_when": "a" * 2001}, "tasks[0].human_review.skip_when", "string_too_long"),
        ({"sample": 1.5}, "tasks[0].human_review.sample", "less_than_equal"),
        ({"sample": -0.1}, "tasks[0].human_review.sample", "greater_than_equal"),
        ({"sample": float("nan")}, "tasks[0].human_review.sample", "less_than_equal"),
        ({"sample": "x"}, "tasks[0].human_review.sample", "float_parsing"),
        ({"always": True, "sample": 0.5}, "tasks[0].human_review", "always_reviewed"),
    ],
)
def test_a_bad_review_is_named_with_its_path(review: Any, path: str, kind: str) -> None:
    task = {"id": "a", "type": "tool", "tool": "x.y", "human_review": review}
    with pytest.raises(PlanInvalid) as caught:
        parse_plan({"tasks": [task]})
    assert (path, kind) == (caught.value.problems[0].path, caught.value.problems[0].code)


@pytest.mark.parametrize(
    "rule",
    [{}, {"sample": 2}, {"skip_when": "=="}, {"sample": 0.5, "name": ""}, {"sample": 1, "x": 1}],
)
def test_an_invalid_rule_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        rules(rule)


def test_rule_names_are_unique() -> None:
    with pytest.raises(ValidationError, match="the name x is used more than once"):
        rules({"sample": 1, "name": "x"}, {"sample": 0, "name": "x"})


# --- in a run -------------------------------------------------------------------------------------


class World:
    """One run in memory with rules."""

    def __init__(self, *tasks: ToolTask, found: ReviewRules, **more: Any) -> None:
        self.journal = MemoryJournal()
        plan = {"tasks": [each.model_dump(mode="json", by_alias=True) for each in tasks]}
        policy = Policy(review_rules=found)
        self.id = self.journal.create(parse_plan(plan), policy=policy, **more)
        self.runner = ScriptedRunner(batch_size=9)
        self.ports = Ports(self.journal, self.runner, None, None, summarise=lambda run: "")  # type: ignore[arg-type]

    def go(self) -> World:
        while step(self.id, self.ports):
            pass
        return self

    def ran(self) -> list[str]:
        return [call.task.id for call in self.runner.calls]

    def events(self, kind: str) -> list[Any]:
        return [each for each in self.journal.executions[self.id].events if each.kind == kind]

    @property
    def stored(self) -> Any:
        return self.journal.executions[self.id]


def reads(name: str, phase: TriggerPhase, *needs: str) -> ToolTask:
    return ToolTask(
        id=name,
        type="tool",
        tool="unit.value",
        arguments={"value": name},
        depends_on=needs,
        permission_set="readonly",
        human_review=ReviewPolicy(trigger_phase=phase),
    )


def test_a_skipped_review_is_recorded_once() -> None:
    found = rules(
        {"skip_when": "inputs.value == 'a' && output == 'a'", "tasks": ["a"]}, {"sample": 0}
    )
    world = World(reads("a", AFTER), reads("b", BEFORE, "a"), found=found).go()
    assert world.stored.state.status == "COMPLETED"
    spared = world.events("review_spared")
    assert [(each.task_id, each.rule, each.rules_version, each.phase) for each in spared] == [
        ("a", "r1", 3, AFTER),
        ("b", "r2", 3, BEFORE),
    ]
    assert world.ran() == ["a", "b"]
    assert not world.events("hold_opened")
    assert all(len(each.digest) == 64 for each in spared)


def test_tasks_without_review_do_not_wait_for_reviewed_ones() -> None:
    found = rules({"skip_when": "`true`", "tasks": ["a"]})
    world = World(reads("a", BEFORE), reads("b", BEFORE), found=found).go()
    assert world.ran() == ["a"]
    assert [each.task_id for each in world.events("hold_opened")] == ["b"]
    assert world.stored.state.status == "PAUSED_FOR_REVIEW"


def test_a_failing_rule_opens_the_hold_with_a_reason() -> None:
    world = World(reads("a", AFTER), found=rules({"skip_when": "length(inputs.x) > `1`"})).go()
    [hold] = world.events("hold_opened")
    assert "rule r1 v3 could not be evaluated" in hold.opening["why"]
    assert not world.events("review_spared")


def test_a_sampled_review_has_its_reason() -> None:
    world = World(reads("a", AFTER), found=rules({"sample": 1.0})).go()
    [hold] = world.events("hold_opened")
    assert "picked by rule r1 v3 (hash " in hold.opening["why"]


def test_rules_are_not_evaluated_for_a_decided_review() -> None:
    """The rule would spare the second look; there is none."""
    world = World(reads("a", BEFORE), found=rules({"skip_when": "inputs.value == 'edited'"})).go()
    [hold] = world.events("hold_opened")
    command = ApprovalResponse(hold=hold.hold_id, approved=True, edits={"value": "edited"})
    submit(world.id, command, world.ports, actor=actor_named("ann"), source="test")
    world.go()
    assert world.stored.state.status == "COMPLETED"
    assert not world.events("review_spared")


def test_a_retry_evaluates_no_rule() -> None:
    flaky = ToolTask.model_validate(
        {
            **reads("flaky", BEFORE).model_dump(mode="json"),
            "tool": "unit.flaky",
            "arguments": {"failures": 1},
            "retry": {"max_attempts": 3, "backoff_seconds": 0},
        }
    )
    world = World(flaky, found=rules({"sample": 0})).go()
    assert [each.kind for each in world.stored.events if isinstance(each, ev.TaskErrored)]
    assert len(world.events("review_spared")) == 1
    assert not world.events("hold_opened")
