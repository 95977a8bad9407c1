"""Reduce the schema of a field to one of the few kinds that a form can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from workflows.engine.values.bounded_json import canonical

from .json_pointer import pointer_keys


class Absent(Enum):
    """Marker for an absent field, as opposed to null."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT

#: The kinds that have children; every other kind is one control.
CONTAINERS: Final = frozenset({"object", "array"})

_KINDS: Final = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "object",
    "array": "array",
}
_MAX_HOPS: Final = 20
#: Keyword with the order of `properties`, because PostgreSQL sorts the keys of an object.
ORDER: Final = "x-order"


@dataclass(frozen=True, slots=True)
class Shape:
    """`kind` is text, integer, number, boolean, enum, object, array, or json for all others."""

    kind: str
    rules: dict[str, Any] = field(default_factory=dict)
    nullable: bool = False
    choices: tuple[tuple[str, Any], ...] = ()

    def takes(self, value: Any) -> bool:
        """Return whether a control of this kind can show `value` without loss."""
        if value is ABSENT:
            return True
        if value is None:
            return self.nullable
        if self.kind == "boolean":
            return isinstance(value, bool)
        if self.kind == "enum":
            return not isinstance(value, (dict, list))
        wanted = {"text": str, "integer": int, "object": dict, "array": list}
        types = (int, float) if self.kind == "number" else wanted.get(self.kind, object)
        return isinstance(value, types) and not isinstance(value, bool)


def shape_of(schema: Any, root: Any, value: Any) -> Shape:
    """Return the shape of `schema`, a part of `root`; without a type, the shape of `value`."""
    rules, nullable = _flattened(schema, root)
    if rules is None:
        return Shape("json")
    choices = _choices(rules)
    if choices:
        nullable = nullable or any(choice is None for _, choice in choices)
        shown = tuple(pair for pair in choices if pair[1] is not None)
        return Shape("enum", rules, nullable, shown) if shown else Shape("json", rules, nullable)
    kind, null_too = _kind(rules)
    if kind is None:
        kind = _kind_of_value(value) if not _says_much(rules) else "json"
    return Shape(kind, rules, nullable or null_too)


def fitting_shape(schema: Any, root: Any, value: Any) -> Shape:
    """Return `shape_of`, or raw JSON if `value` does not fit that shape."""
    shape = shape_of(schema, root, value)
    return shape if shape.takes(value) else Shape("json", shape.rules)


def parts_of(shape: Shape, value: Any) -> list[tuple[str, Any, bool]]:
    """Yield key, schema and required of each field of an object; undeclared keys come last."""
    properties = shape.rules.get("properties", {})
    required = shape.rules.get("required", [])
    rest = shape.rules.get("additionalProperties", True)
    parts = [(key, properties[key], key in required) for key in ordered_keys(shape.rules)]
    extra = [key for key in value if key not in properties] if isinstance(value, dict) else []
    return parts + [(key, rest, False) for key in extra]


def ordered_keys(rules: Mapping[str, Any]) -> list[str]:
    """Return the keys of `properties`: those that `x-order` lists first, in its order."""
    properties, listed = rules.get("properties", {}), rules.get(ORDER)
    first = [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
    return [key for key in dict.fromkeys([*first, *properties]) if key in properties]


def item_schema(shape: Shape, index: int) -> Any:
    """Return the schema of item `index` (0-based) of an array."""
    first = shape.rules.get("prefixItems", [])
    return first[index] if index < len(first) else shape.rules.get("items", True)


def _flattened(schema: Any, root: Any) -> tuple[dict[str, Any] | None, bool]:
    """Follow local references and single alternatives; None if the schema is too complex."""
    nullable = False
    for _ in range(_MAX_HOPS):
        if schema is True or schema is None:
            return {}, nullable
        if not isinstance(schema, dict):
            return None, nullable
        step = _next_step(schema, root)
        if step is None:
            return schema, nullable
        schema, null_too = step
        nullable = nullable or null_too
    return None, nullable


def _next_step(schema: dict[str, Any], root: Any) -> tuple[Any, bool] | None:
    if "$ref" in schema:
        return _merged(schema, "$ref", _resolved(schema["$ref"], root)), False
    if "allOf" in schema:
        parts = schema["allOf"]
        alone = isinstance(parts, list) and len(parts) == 1
        return (_merged(schema, "allOf", parts[0]) if alone else False), False
    for key in ("anyOf", "oneOf"):
        forms = schema.get(key)
        if isinstance(forms, list) and not _choices(schema):
            rest = [form for form in forms if form != {"type": "null"}]
            one = _merged(schema, key, rest[0]) if len(rest) == 1 else False
            return one, len(rest) < len(forms)
    return None


def _merged(schema: dict[str, Any], key: str, inner: Any) -> Any:
    outer = {name: rule for name, rule in schema.items() if name not in (key, "$defs")}
    if inner is True:
        return outer
    return {**inner, **outer} if isinstance(inner, dict) else False


def _resolved(reference: Any, root: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    found = root
    for name in pointer_keys(reference[1:]):
        if not isinstance(found, dict) or name not in found:
            return False
        found = found[name]
    return found


def _choices(rules: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return label and value of each choice of an `enum`, a `const`, or alternative consts."""
    if "const" in rules:
        return ((_label(rules["const"]), rules["const"]),)
    if isinstance(rules.get("enum"), list):
        return tuple((_label(value), value) for value in rules["enum"])
    forms = rules.get("oneOf", rules.get("anyOf"))
    if isinstance(forms, list) and all(isinstance(f, dict) and "const" in f for f in forms):
        return tuple((str(f.get("title", _label(f["const"]))), f["const"]) for f in forms)
    return ()


def _label(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _kind(rules: dict[str, Any]) -> tuple[str | None, bool]:
    """Return the kind of `type`, and whether null is allowed."""
    named = rules.get("type")
    listed = named if isinstance(named, list) else [named]
    real = [name for name in listed if name != "null"]
    if named is None:
        guess = "object" if "properties" in rules else "array" if "items" in rules else None
        return guess, False
    return (_KINDS.get(str(real[0])) if len(real) == 1 else None), "null" in listed


def _says_much(rules: dict[str, Any]) -> bool:
    return bool(set(rules) & {"type", "anyOf", "oneOf", "allOf", "not", "if"})


def _kind_of_value(value: Any) -> str:
    """Return the kind of a value without a schema: its type for scalars, json for containers."""
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "text"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return name
    return "json"
