"""Data between tasks: `$from` references, `select` and `when` expressions in JMESPath."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workflows.engine.values.expressions import Budget, ExpressionError, evaluate
from workflows.engine.values.expressions import expression_error as expression_error

from .dag import is_reference
from .task_errors import TaskFailed


def resolve(value: Any, sources: Mapping[str, Any]) -> Any:
    """Return `value` with every `{"$from": name, "select": expression}` resolved.

    All expressions in `value` share one budget.
    """
    return _resolve(value, sources, Budget())


def _resolve(value: Any, sources: Mapping[str, Any], budget: Budget) -> Any:
    if is_reference(value):
        return _fetch(value, sources, budget)
    if isinstance(value, dict):
        return {key: _resolve(item, sources, budget) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_resolve(item, sources, budget) for item in value]
    return value


def _fetch(reference: Mapping[str, Any], sources: Mapping[str, Any], budget: Budget) -> Any:
    found = sources.get(reference["$from"])
    select = reference.get("select")
    if select is None:
        return found
    return search(select, found, budget)


def search(expression: str, value: Any, budget: Budget | None = None) -> Any:
    """Evaluate `expression` over `value`; an error fails the task without a retry."""
    try:
        return evaluate(expression, value, budget)
    except ExpressionError as error:
        raise TaskFailed(f"expression {expression!r}: {error}", retryable=False) from error


def condition_holds(
    expression: str, sources: Mapping[str, Any], budget: Budget | None = None
) -> bool:
    """Return whether a `when` is true by JMESPath's rules (empty values are false)."""
    found = search(expression, dict(sources), budget)
    return not (found is None or found is False or found in ("", [], {}))
