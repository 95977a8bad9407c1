"""Helpers for JSON Schemas: types, properties, and type compatibility."""

from collections.abc import Mapping
from typing import Any

_WIDER = {"integer": {"number"}, "number": set(), "string": set(), "boolean": set()}


def types_of(schema: Any) -> frozenset[str]:
    """Return the JSON types that a schema allows; empty when it does not restrict them."""
    if not isinstance(schema, Mapping):
        return frozenset()
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset((kind,))
    if isinstance(kind, list):
        return frozenset(str(item) for item in kind) - {"null"}
    choices = [*_parts(schema, "anyOf"), *_parts(schema, "oneOf")]
    return frozenset().union(*map(types_of, choices)) - {"null"}


def _parts(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key, [])
    return found if isinstance(found, list) else []


def type_of(value: Any) -> str:
    """Return the JSON type of a Python value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"


def feeds(given: frozenset[str], wanted: frozenset[str]) -> bool:
    """Whether a value of one of the given types is valid for one of the wanted types.

    An empty set is compatible with every type.
    """
    if not given or not wanted:
        return True
    reachable = given.union(*(_WIDER.get(kind, set()) for kind in given))
    return bool(reachable & wanted)


def properties_of(schema: Any) -> dict[str, Any]:
    """Return property name -> schema of an object schema; empty for other schemas."""
    found = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    return dict(found) if isinstance(found, Mapping) else {}


def item_schema(schema: Any) -> Any:
    """Return the schema of an array's items, or None."""
    if isinstance(schema, Mapping) and "array" in types_of(schema):
        return schema.get("items", {})
    return None
