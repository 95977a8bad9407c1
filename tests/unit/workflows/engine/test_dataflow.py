"""References, selections and conditions."""

import pytest

from workflows.engine.plans.dataflow import condition_holds, resolve
from workflows.engine.plans.task_errors import TaskFailed

SOURCES = {"list": {"files": ["a.xml", "b.json"]}, "inputs": {"n": 2, "zero": 0}}


def test_references_are_replaced_at_any_depth() -> None:
    value = {
        "plain": 1,
        "deep": [{"x": {"$from": "list", "select": "files[?ends_with(@, '.xml')]"}}],
        "whole": {"$from": "inputs"},
        "absent": {"$from": "inputs", "select": "nothing"},
    }
    assert resolve(value, SOURCES) == {
        "plain": 1,
        "deep": [{"x": ["a.xml"]}],
        "whole": {"n": 2, "zero": 0},
        "absent": None,
    }


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("inputs.n == `2`", True),
        ("inputs.n > `5`", False),
        ("list.files", True),
        ("list.nothing", False),
        ("inputs.zero", True),
        ("''", False),
    ],
)
def test_conditions_follow_jmespath(expression: str, expected: bool) -> None:
    assert condition_holds(expression, SOURCES) is expected


def test_an_expression_that_cannot_be_evaluated_fails_the_task_for_good() -> None:
    with pytest.raises(TaskFailed) as caught:
        resolve({"$from": "inputs", "select": "length(n)"}, SOURCES)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "select",
    [
        "list[::`0`]",
        "files[::0]",
        "contains('abc', `1`)",
        "max_by(mixed, &x)",
        "ceil(to_number('inf'))",
        "to_number('nan')",
        "{deep: [to_number('1e999')]}",
        "`NaN`",
        r'`"\u0000"`',
        r'`"\ud800"`',
    ],
)
def test_an_unexpected_error_fails_only_the_task(select: str) -> None:
    known = {"list": {"files": ["a"], "mixed": [{"x": 1}, {"x": "a"}]}}
    with pytest.raises(TaskFailed) as caught:
        resolve({"$from": "list", "select": select}, known)
    assert not caught.value.retryable
