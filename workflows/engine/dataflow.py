"""Data between tasks: `$from` references, `select` and `when` expressions in JMESPath."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dag import is_reference
from .expressions import ExpressionError, evaluate
from .expressions import expression_error as expression_error
from .faults import TaskFailed


def resolve(value: Any, sources: Mapping[str, Any]) -> Any:
    """`value` with every `{"$from": name, "select": expression}` replaced by what it names."""
    if is_reference(value):
        return _fetch(value, sources)
    if isinstance(value, dict):
        return {key: resolve(item, sources) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(item, sources) for item in value]
    return value


def _fetch(reference: Mapping[str, Any], sources: Mapping[str, Any]) -> Any:
    found = sources.get(reference["$from"])
    select = reference.get("select")
    if select is None:
        return found
    return search(select, found)


def search(expression: str, value: Any) -> Any:
    """Evaluate `expression` over `value`; an evaluation error fails the task for good."""
    try:
        return evaluate(expression, value)
    except ExpressionError as error:
        raise TaskFailed(f"expression {expression!r}: {error}", retryable=False) from error


def condition_holds(expression: str, sources: Mapping[str, Any]) -> bool:
    """Whether a `when` holds, by JMESPath's own idea of truth (empty values are false)."""
    found = search(expression, dict(sources))
    return not (found is None or found is False or found in ("", [], {}))
