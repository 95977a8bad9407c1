"""Regular expressions out of schemas, matched in linear time whatever they look like.

Schemas come from tool servers, and a backtracking matcher can be kept busy for years by a pattern
of ten characters. The engine inside pydantic never backtracks. It knows no lookaround and no
back-references; JSON Schema advises against both, and such a pattern is left to the tool itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

_LONGEST_PATTERN = 2_000


def matches(pattern: str, text: str) -> bool | None:
    """Whether `pattern` is found anywhere in `text`; None when the pattern cannot be judged."""
    search = _compiled(pattern)
    return search(text) if search else None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Callable[[str], bool] | None:
    if len(pattern) > _LONGEST_PATTERN:
        return None
    rule = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    try:
        return SchemaValidator(rule).isinstance_python
    except (SchemaError, UnicodeEncodeError):
        return None
