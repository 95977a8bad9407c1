"""Validate values against JSON Schemas, with error messages for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from workflows.engine.values.bounded_json import BoundedJSONError, canonical, check_value

from .error_messages import FieldError, describe
from .validators import RUN, Run, TooMuchWork, draft_of

__all__ = ["FieldError", "schema_errors", "schema_problem"]

_MAX_ERRORS = 50
_TOO_COMPLEX = "the schema is too complex to check this value against it"


def schema_errors(
    schema: Any, value: Any, *, wildcard: Callable[[Any], bool] | None = None
) -> list[FieldError]:
    """Return up to 50 errors with paths; [] if `value` is valid.

    `value` has passed the bounded parser. Without a schema (None) every value is valid. A value for
    which `wildcard` is true counts as valid anywhere. `$schema` selects the draft, 2020-12 by
    default; references are never fetched. An invalid schema is an error at the root.
    """
    if schema is None or schema is True:
        return []
    try:
        checker, problem, has_patterns = _prepared(canonical(schema))
    except BoundedJSONError as error:
        checker, problem, has_patterns = None, f"the schema {error.message}", False
    if checker is None:
        return [FieldError("", problem)]
    return _errors(checker, value, Run(wildcard, has_patterns=has_patterns))


def schema_problem(schema: Any) -> str:
    """Return why `schema` is no usable JSON Schema; "" if it is usable."""
    if schema is None:
        return ""
    try:
        return _prepared(canonical(schema))[1]
    except BoundedJSONError as error:
        return f"the schema {error.message}"


def _errors(checker: Validator, value: Any, run: Run) -> list[FieldError]:
    token = RUN.set(run)
    try:
        found = islice(checker.iter_errors(value), _MAX_ERRORS)
        unique = {error: None for each in found for error in describe(each)}
        return list(unique)[:_MAX_ERRORS]
    except (TooMuchWork, RecursionError):
        return [FieldError("", _TOO_COMPLEX)]
    except Unresolvable as error:
        message = f"the schema refers to {error.ref!r:.120}, which is not part of it"
        return [FieldError("", message)]
    finally:
        RUN.reset(token)


# Keyed by the schema's text; bounded by 512 schemas; never stale, because the key is the schema.
@lru_cache(maxsize=512)
def _prepared(text: str) -> tuple[Validator | None, str, bool]:
    """Return a validator or the problem of the schema, and whether it has patternProperties."""
    schema = json.loads(text)
    try:
        check_value(schema)
    except BoundedJSONError as error:
        return None, f"the schema is refused ({error})", False
    if not isinstance(schema, (dict, bool)):
        return None, "the schema is neither an object nor true or false", False
    draft = draft_of(schema)
    meta = draft(draft.META_SCHEMA)
    wrong = _errors(meta, schema, Run(None, has_patterns=True))
    if wrong:
        return None, f"the schema is not valid ({wrong[0]})", False
    registry: Registry[Any] = Registry()
    checker = draft(schema, registry=registry)
    return checker, "", "patternProperties" in text
