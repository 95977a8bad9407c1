"""Keys that an edit adds and the JSON Schema does not declare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workflows.engine.values.bounded_json import path_text

from .form_shapes import fitting_shape, item_schema
from .forms import usable_schema
from .patterns import matches

_Path = tuple[str | int, ...]


def undeclared_keys(schema: Any, before: Any, after: Any) -> tuple[str, ...]:
    """Return paths of keys in `after` that are neither in `before` nor declared by the schema.

    An object whose schema declares no keys, or has a schema for arbitrary keys, accepts every key;
    its keys are not returned.
    """
    root = usable_schema(schema)
    return tuple(path_text(path) for path in _walk((), root, root, before, after))


def _walk(path: _Path, schema: Any, root: Any, before: Any, after: Any) -> Iterator[_Path]:
    if isinstance(after, list):
        shape = fitting_shape(schema, root, after)
        for at, item in enumerate(after):
            old = before[at] if isinstance(before, list) and at < len(before) else None
            yield from _walk((*path, at), item_schema(shape, at), root, old, item)
    elif isinstance(after, dict):
        rules = fitting_shape(schema, root, after).rules
        named = rules.get("properties") or {}
        known = before if isinstance(before, dict) else {}
        for key, item in after.items():
            if key in named:
                yield from _walk((*path, key), named[key], root, known.get(key), item)
            elif key not in known and named and _is_open(rules, key):
                yield (*path, key)


def _is_open(rules: dict[str, Any], key: str) -> bool:
    """Return whether the schema has no rule for a key that is not in `properties`."""
    if rules.get("additionalProperties", True) not in (True, {}):
        return False
    patterns = rules.get("patternProperties") or {}
    return not any(matches(pattern, key) for pattern in patterns)
