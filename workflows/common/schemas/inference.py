"""A JSON Schema read off one value: its shape, not its content."""

from __future__ import annotations

from typing import Any

from workflows.engine.bounded_json import JSON, canonical

_MAX_DEPTH = 4
_MAX_PROPERTIES = 100
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
)


def infer_schema(value: JSON, depth: int = 0) -> dict[str, Any]:
    """A schema that `value` fits, and values of the same shape do.

    Objects ask for the keys they had and take no others; numbers stay numbers, whole or not; what
    was null, lies deep or is wide may be anything.
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
    """A schema that says an object, a list, a text or a number, and no more of what is inside."""
    return infer_schema(value, _MAX_DEPTH)
