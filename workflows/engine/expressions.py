"""JMESPath, compiled once and never raising anything but its own error."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from .json_values import BoundedJSONError, Limits, check_value

#: Without these an expression only picks from what is there.
_MAKERS = ("`", "(")
#: How much a value may hold is asked where it comes in.
_ANY_SIZE = Limits(nodes=10**9, key_length=10**9, string_length=10**9)

TOO_DEEP = "is nested too deeply"


class ExpressionError(ValueError):
    """An expression that is not JMESPath, or cannot be worked out over a value."""


@lru_cache(maxsize=4096)
def compiled(expression: str) -> Any:
    """A compiled expression; raises ExpressionError."""
    try:
        return jmespath.compile(expression)
    except JMESPathError as error:
        raise ExpressionError(str(error)) from error
    except RecursionError:
        # Two thousand brackets are enough for the parser to run out of stack.
        raise ExpressionError(TOO_DEEP) from None


def expression_error(expression: str) -> str | None:
    """Why `expression` is not JMESPath, or None."""
    try:
        compiled(expression)
    except ExpressionError as error:
        return str(error)
    return None


def evaluate(expression: str, value: Any) -> Any:
    """The expression over `value`, as something that JSON can hold; raises ExpressionError."""
    try:
        found = compiled(expression).search(value)
    except (JMESPathError, ExpressionError) as error:
        raise ExpressionError(str(error)) from error
    except RecursionError:
        raise ExpressionError(TOO_DEEP) from None
    except Exception as error:
        # The library lets Python's own errors through: a slice with step 0, a list of mixed types.
        raise ExpressionError(f"{type(error).__name__}: {error}") from error
    if any(sign in expression for sign in _MAKERS):
        _check(found)
    return found


def _check(found: Any) -> None:
    """Literals and functions make what no JSON has: NaN, infinity, NUL, half a surrogate pair."""
    try:
        check_value(found, _ANY_SIZE)
    except BoundedJSONError as error:
        raise ExpressionError(f"what it gives cannot be stored: {error}") from None
