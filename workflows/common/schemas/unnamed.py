"""Keys that an edit adds although the JSON Schema does not name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workflows.engine.bounded_json import path_text

from .fields import usable_schema
from .patterns import matches
from .shapes import fitting_shape, item_schema

_Path = tuple[str | int, ...]


def unnamed_keys(schema: Any, before: Any, after: Any) -> tuple[str, ...]:
    """Paths of keys in `after` that neither `before` has nor the schema names.

    An object whose schema names no keys, or has a schema for keys of any name, takes every key on
    purpose and gives none.
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
    """Whether nothing is said about a key that `properties` does not name."""
    if rules.get("additionalProperties", True) not in (True, {}):
        return False
    patterns = rules.get("patternProperties") or {}
    return not any(matches(pattern, key) for pattern in patterns)
