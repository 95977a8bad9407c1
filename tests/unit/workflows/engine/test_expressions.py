"""The budget of expressions: known bombs end early, and everything else is plain JMESPath."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

import jmespath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jmespath.exceptions import JMESPathError
from jmespath.visitor import TreeInterpreter

from tests.stateful.scripted import ScriptedRunner
from tests.support.memory_journal import MemoryJournal
from tests.support.repetitions import often
from workflows.agents.rules import RuleAgent
from workflows.engine.plans.dag import ToolTask
from workflows.engine.plans.dataflow import condition_holds, resolve
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.plans.validation import PlanInvalid, parse_plan
from workflows.engine.policy.policies import ReviewPolicy, ReviewRules, TriggerPhase
from workflows.engine.protocol import events as ev
from workflows.engine.protocol.loop import step
from workflows.engine.protocol.ports import AgentQuestion, Ports
from workflows.engine.protocol.review_rules import evaluate_rules
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.values.expressions import (
    MAX_BYTES,
    MAX_LENGTH,
    MAX_STEPS,
    Budget,
    BudgetExceeded,
    ExpressionError,
    evaluate,
    expression_error,
)
from workflows.tools.basic import select

DOUBLING = "|".join(["[@,@]"] * 30)
BEFORE, AFTER = TriggerPhase.BEFORE_EXECUTION, TriggerPhase.AFTER_EXECUTION
NUMBERS = list(range(10_000))
FILES = [{"name": f"f{index}", "size": index} for index in range(2500)]

BOMBS: dict[str, tuple[str, Any]] = {
    "a doubling list as text": (f"{DOUBLING}|to_string(@)|length(@)", {"a": 1}),
    "a doubling object": ("|".join(["{a:@,b:@}"] * 30), 1),
    "a doubling list as the result": (DOUBLING, 1),
    "a doubling list compared": (f"{DOUBLING}|[0]==[[@[0][0]],@]|!@||@", 1),
    "two doubling lists compared": (f"[{DOUBLING},{DOUBLING}]|@[0]==@[1]", 1),
    "two doubling lists compared for difference": (f"[{DOUBLING},{DOUBLING}]|@[0]!=@[1]", 1),
    "a doubling list sought in another": (f"[{DOUBLING},{DOUBLING}]|contains([@[0]],@[1])", 1),
    "a flattened doubling list": ("|".join(["[@,@][]"] * 40) + "|length(@)", NUMBERS),
    "a text that doubles": ("|".join(["join('',[@,@])"] * 40) + "|length(@)", "ab"),
    "a text that is quoted again and again": ("|".join(["to_string([@])"] * 60), '"'),
    "a text that grows by each entry": ("map(&join('',[@,@,@]),@)|length(@)", ["a" * 9999] * 9999),
    "a projection in a projection": ("map(&map(&@,@),@)|length(@)", [NUMBERS] * 100),
    "objects merged again and again": (
        "[*].merge(@,@,@,@,@)|length(@)",
        [{str(number): number for number in range(4000)}] * 100,
    ),
    "long texts sorted": ("|".join(["sort(@)"] * 40) + "|length(@)", ["a" * 99_999, "b"] * 500),
    "a sort by key again and again": ("|".join(["sort_by(@,&name)"] * 40), FILES),
    "the greatest by key again and again": (
        f"[{','.join(['max_by(@,&name)'] * 100)}]|length(@)",
        FILES,
    ),
    "a long text searched for a long one": (
        f"[{','.join(['contains(@, `' + json.dumps('a' * 99 + 'b') + '`)'] * 30)}]",
        "a" * 1_000_000,
    ),
    "texts turned round": ("|".join(["[reverse(@),@][0]"] * 90), "a" * 1_000_000),
    "long numbers read": ("[*].to_number(@)|length(@)", ["1" * 4000] * 5000),
    "a wildcard of wildcards": (
        "*.*.*|length(@)",
        {str(a): {str(b): dict.fromkeys("xyz", 1) for b in range(100)} for a in range(300)},
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in BOMBS])
def test_an_expensive_expression_ends_within_its_budget(name: str) -> None:
    expression, value = BOMBS[name]
    budget = Budget()
    with pytest.raises(BudgetExceeded), _WatchedVisits() as visits:
        evaluate(expression, value, budget)
    assert visits.count <= MAX_STEPS + 1


class _WatchedVisits:
    """Counts the nodes that the library's own interpreter visits, whoever asks it to."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> _WatchedVisits:
        visit = TreeInterpreter.visit.__code__

        def watch(frame: Any, event: str, _: Any) -> None:
            if event == "call" and frame.f_code is visit:
                self.count += 1

        sys.setprofile(watch)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def test_the_message_of_a_type_error_does_not_write_out_the_value() -> None:
    with pytest.raises(
        ExpressionError, match=r"In function abs\(\).*received: \"array\""
    ) as caught:
        evaluate(f"{DOUBLING}|abs(@)", 1)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "expression",
    [
        "@" + "|@" * MAX_LENGTH,
        "(" * 200 + "@" + ")" * 200,
        "[" * 150 + "@" + "]" * 150,
        "!" * 400 + "@",
        "[*]" * 400,
        "|".join(["@"] * 400),
        "||".join(["a"] * 400),
        "`" + "[" * 3000 + "`",
    ],
)
def test_a_long_or_deep_expression_is_refused_before_it_is_used(expression: str) -> None:
    assert expression_error(expression) is not None
    with pytest.raises(ExpressionError):
        evaluate(expression, {})


def test_a_plan_with_an_expression_that_is_too_long_names_the_field() -> None:
    reference = {"$from": "a", "select": "a." * MAX_LENGTH + "a"}
    task = {"id": "a", "type": "tool", "tool": "demo.echo", "arguments": {"value": 1}}
    with pytest.raises(PlanInvalid) as caught:
        parse_plan({"tasks": [task, {**task, "id": "b", "arguments": {"value": reference}}]})
    assert [(each.path, each.code) for each in caught.value.problems] == [
        ("tasks[1].arguments.value.select", "bad_expression")
    ]


def test_an_expression_reference_is_no_result() -> None:
    with pytest.raises(ExpressionError, match="cannot be stored"):
        evaluate("&a", {"a": 1})


def test_a_large_value_is_returned_as_it_is() -> None:
    value = {"text": "x" * MAX_BYTES, "files": FILES}
    assert evaluate("@", value) is value
    assert evaluate("files[?size > `2000`].{name: name, size: size}", value) == FILES[2001:]


def test_expressions_of_one_task_share_a_budget() -> None:
    costly = {"$from": "list", "select": "map(&to_string(@), @) | length(@)"}
    sources = {"list": [0] * 5000}
    assert resolve({"a": costly}, sources) == {"a": 5000}
    with pytest.raises(TaskFailed, match="more steps"):
        resolve({str(number): costly for number in range(20)}, sources)


# --- everywhere that expressions are evaluated ----------------------------------------------------

BOMB = f"{DOUBLING}|to_string(@)|length(@)"


def test_a_select_over_its_budget_fails_the_task_for_good() -> None:
    with pytest.raises(TaskFailed, match="more than 2097152 bytes") as caught:
        resolve({"$from": "list", "select": BOMB}, {"list": [1]})
    assert not caught.value.retryable


def test_a_condition_over_its_budget_fails_the_task_for_good() -> None:
    with pytest.raises(TaskFailed) as caught:
        condition_holds(BOMB, {"inputs": {}})
    assert not caught.value.retryable


def test_the_select_tool_fails_the_task_for_good() -> None:
    with pytest.raises(TaskFailed) as caught:
        select([1], BOMB)
    assert not caught.value.retryable


def test_a_rule_agent_over_its_budget_fails() -> None:
    question = AgentQuestion(
        agent="rules",
        execution_id="1",
        layer=0,
        total_layers=2,
        results={},
        next_layer=("b",),
        context={},
        inputs={},
        conversation=(),
        decisions=(),
        settings={"rules": [{"when": BOMB, "decision": "abort"}]},
        timeout_seconds=5,
    )
    with pytest.raises(TaskFailed, match="more than"):
        RuleAgent().decide(question)


@pytest.mark.parametrize("published", [True, False])
def test_a_review_rule_over_its_budget_opens_the_hold(published: bool) -> None:
    review = {} if published else {"skip_when": BOMB}
    task = ToolTask(
        id="a",
        type="tool",
        tool="git.git_log",
        permission_set="readonly",
        human_review=ReviewPolicy.model_validate(review),
    )
    rules = [{"name": "bomb", "skip_when": BOMB}] if published else []
    verdict = evaluate_rules(
        task,
        AFTER,
        ReviewRules.model_validate({"version": 1, "rules": rules}),
        {"inputs": {}, "output": [1]},
        run="7",
    )
    assert verdict.code == "error"
    assert not verdict.skips_review
    assert "more than" in verdict.reason.text


@pytest.mark.parametrize("phase", [BEFORE, AFTER])
def test_a_task_whose_inputs_cannot_be_resolved_fails_before_its_review(
    phase: TriggerPhase,
) -> None:
    """A hold before the task would show inputs that do not exist, and no worker could open it."""
    journal = MemoryJournal()
    first = {"id": "a", "type": "tool", "tool": "demo.echo", "arguments": {"value": [1]}}
    second = {
        "id": "b",
        "type": "tool",
        "tool": "demo.echo",
        "arguments": {"value": {"$from": "a", "select": BOMB}},
        "human_review": {"trigger_phase": phase},
    }
    beside = {**first, "depends_on": ["a"], "human_review": {"trigger_phase": phase}}
    tasks = [first, {**beside, "id": "aa"}, second, {**beside, "id": "c"}]
    run = journal.create(parse_plan({"tasks": tasks}))
    ports = Ports(journal, ScriptedRunner(), None, None, summarise=lambda _: "")  # type: ignore[arg-type]
    while step(run, ports):
        pass
    stored = journal.executions[run]
    assert stored.state.tasks["b"].status is TaskStatus.FAILED
    [errored] = [each for each in stored.events if isinstance(each, ev.TaskErrored)]
    assert "makes a value of more than" in errored.error
    # The reviews beside it are open as ever.
    assert [hold.task_id for hold in stored.state.holds] == ["aa", "c"]


# --- the same as plain JMESPath -------------------------------------------------------------------

_NAMES = ("a", "b", "c", "d")
_LEAVES = st.sampled_from(
    (
        *_NAMES,
        "@",
        "*",
        "[*]",
        "[]",
        "[0]",
        "[-1]",
        "[1:]",
        "[::-1]",
        "`1`",
        "`0`",
        "`null`",
        "`[1, 2]`",
        '`{"a": true}`',
        "'x'",
        "''",
        '"a"',
        "`1.5`",
        "`false`",
    )
)
_ONE = [
    "abs",
    "avg",
    "ceil",
    "floor",
    "keys",
    "length",
    "max",
    "min",
    "reverse",
    "sort",
    "sum",
    "to_array",
    "to_number",
    "to_string",
    "type",
    "values",
    "merge",
    "not_null",
    "no_such",
]
_TWO = ("contains", "ends_with", "starts_with", "join", "merge", "not_null")
_BY = ("sort_by", "max_by", "min_by")
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "||", "&&", "|")


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    name = st.sampled_from
    return st.one_of(
        st.builds("({}){}({})".format, inner, name(_OPERATORS), inner),
        st.builds("{}|{}".format, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{a: {}, b: {}}}".format, inner, inner),
        st.builds("!{}".format, inner),
        st.builds("({}).{}".format, inner, name(_NAMES)),
        st.builds("({})[]".format, inner),
        st.builds("({})[?{}]".format, inner, inner),
        st.builds("({})[*].{}".format, inner, name(_NAMES)),
        st.builds("({})[*].[{}]".format, inner, inner),
        st.builds("({}).*".format, inner),
        st.builds("({})[1:]".format, inner),
        st.builds("{}({})".format, name(_ONE), inner),
        st.builds("{}({}, {})".format, name(_TWO), inner, inner),
        st.builds("{}({}, &{})".format, name(_BY), inner, inner),
        st.builds("map(&{}, {})".format, inner, inner),
        st.builds("&{}".format, inner),
    )


EXPRESSIONS = st.recursive(_LEAVES, _larger, max_leaves=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | st.text('ab"é', max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_NAMES), inner),
    max_leaves=12,
)


def _plain(expression: str, value: Any) -> tuple[bool, Any]:
    """Whether plain JMESPath has an answer that JSON can hold, and the answer."""
    try:
        answer = jmespath.search(expression, value)
        return True, json.loads(json.dumps(answer, allow_nan=False))
    except (JMESPathError, TypeError, ValueError, ArithmeticError, AttributeError):
        return False, None


@settings(max_examples=often(120, 2000))
@given(expression=EXPRESSIONS, value=VALUES, steps=st.sampled_from([30, 300, MAX_STEPS]))
def test_within_its_budget_an_expression_equals_plain_jmespath(
    expression: str, value: Any, steps: int
) -> None:
    if expression_error(expression) is not None:
        assert not _plain(expression, value)[0]
        return
    budget = Budget(steps=steps)
    with _WatchedVisits() as visits:
        try:
            answer = (True, evaluate(expression, value, budget))
        except BudgetExceeded:
            answer = None
        except ExpressionError:
            answer = (False, None)
    assert visits.count <= steps
    if answer is not None:
        assert repr(answer) == repr(_plain(expression, value))


@pytest.mark.filterwarnings("ignore:deprecated string literal syntax")
@given(text=st.text("[]{}()@*.,|&!<>=?:`'\"\\-01ab \n", max_size=60))
def test_any_text_is_an_expression_or_has_a_reason(text: str) -> None:
    reason = expression_error(text)
    assert reason is None or reason
    if reason is None:
        with suppress(ExpressionError):
            evaluate(text, {"a": [1, {"b": "x"}]}, Budget(steps=2000))


@settings(max_examples=often(60, 2000))
@given(
    parts=st.lists(
        st.sampled_from(
            [
                "[@,@]",
                "{a:@,b:@}",
                "[@,@][]",
                "to_string(@)",
                "join('',[to_string(@),'x'])",
                "[@][*].[@,@]",
                "map(&[@,@],[@,@])",
                "values({a:@,b:@})",
                "@==[@,@]||@",
                "merge({a:@},{b:@})",
                "reverse([@,@])",
                "contains([@,@],@)||@",
                "sort_by([@],&'a')",
            ]
        ),
        min_size=1,
        max_size=60,
    )
)
def test_a_chain_of_growing_parts_never_takes_more_than_its_budget(parts: list[str]) -> None:
    budget = Budget()
    with _WatchedVisits() as visits:
        try:
            answer = evaluate("|".join(parts), [1, "x"], budget)
        except ExpressionError:
            answer = None
    assert visits.count <= MAX_STEPS
    assert len(json.dumps(answer)) <= 2 * MAX_BYTES
