"""Match regular expressions of schemas in linear time.

Schemas come from tool servers, and a pattern of ten characters can keep a backtracking matcher busy
for years. The regex engine of pydantic never backtracks. It does not support lookaround and
back-references, which JSON Schema advises against; the tool itself has to check such a pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

_MAX_PATTERN_LENGTH = 2_000


def matches(pattern: str, text: str) -> bool | None:
    """Return whether `pattern` matches anywhere in `text`; None if it is not supported."""
    search = _compiled(pattern)
    return search(text) if search else None


# Keyed by the pattern; bounded by 512; never stale, because the result depends only on the key.
@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Callable[[str], bool] | None:
    if len(pattern) > _MAX_PATTERN_LENGTH:
        return None
    rule = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    try:
        return SchemaValidator(rule).isinstance_python
    except (SchemaError, UnicodeEncodeError):
        return None
