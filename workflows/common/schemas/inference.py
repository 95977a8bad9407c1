"""Infer a JSON Schema from one value."""

from __future__ import annotations

from typing import Any

from workflows.engine.values.bounded_json import JSON, canonical

_MAX_DEPTH = 4
_MAX_PROPERTIES = 100
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
)


def infer_schema(value: JSON, depth: int = 0) -> dict[str, Any]:
    """Return a schema that accepts `value` and values with an equal structure.

    Objects require exactly the keys of `value`. Whole numbers may become fractions. Null, deeply
    nested values and large objects may become any value.
    """
    if isinstance(value, dict) and depth < _MAX_DEPTH and len(value) <= _MAX_PROPERTIES:
        return {
            "type": "object",
            "properties": {key: infer_schema(item, depth + 1) for key, item in value.items()},
            "required": list(value),
            "additionalProperties": False,
        }
    if isinstance(value, dict):
        return {"type": "object"}
    if isinstance(value, list):
        return _of_list(value, depth)
    name = next((name for kind, name in _TYPES if isinstance(value, kind)), None)
    if name is None:
        return {}
    return {"type": "number" if name == "integer" else name}


def _of_list(value: list[Any], depth: int) -> dict[str, Any]:
    kinds = {canonical(infer_schema(item, depth + 1)) for item in value} if value else set()
    if len(kinds) != 1 or depth >= _MAX_DEPTH:
        return {"type": "array"}
    return {"type": "array", "items": infer_schema(value[0], depth + 1)}


def infer_type(value: JSON) -> dict[str, Any]:
    """Return a schema of the type only: an object, a list, a text or a number."""
    return infer_schema(value, _MAX_DEPTH)
