"""JMESPath, compiled once and never raising anything but its own error."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

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
    """The expression over `value`; raises ExpressionError."""
    try:
        return compiled(expression).search(value)
    except JMESPathError as error:
        raise ExpressionError(str(error)) from error
    except RecursionError:
        raise ExpressionError(TOO_DEEP) from None
