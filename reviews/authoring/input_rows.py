"""The inputs of a workflow as rows of a form, and the JSON Schema behind them.

An edit changes only the keywords that belong to it, so a keyword without a row is never lost.  A
property that no row can show is edited as JSON.  PostgreSQL sorts the keys of an object, so the
order of the rows is the list `x-order` of the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from django.utils.translation import gettext as _

from workflows.common.schemas import schema_errors, schema_problem
from workflows.common.schemas.form_shapes import ORDER, ordered_keys
from workflows.engine.values.bounded_json import BoundedJSONError, parse

#: Each row has about a dozen form fields, and Django accepts 1,000 of them.
MAX_ROWS: Final = 40
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

#: The type of a row → the schema of a new input of that type.
NEW_PARTS: Final[dict[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "long_text": {"type": "string", "contentMediaType": "text/plain"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "choice": {"type": "string", "enum": []},
    "list": {"type": "array", "items": {"type": "string"}},
    "date": {"type": "string", "format": "date"},
    "email": {"type": "string", "format": "email"},
    "url": {"type": "string", "format": "uri"},
    "object": {"type": "object"},
    "any": {},
}
_TEXTS: Final = frozenset({"text", "long_text", "date", "email", "url", "choice"})
_FORMATS: Final = {"date": "date", "email": "email", "uri": "url", "url": "url"}
_OF_LENGTH: Final = ("minLength", "maxLength")
_LIMITS: Final = {
    "text": _OF_LENGTH,
    "long_text": _OF_LENGTH,
    "email": _OF_LENGTH,
    "url": _OF_LENGTH,
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "list": ("minItems", "maxItems"),
}
#: Keywords that describe an input of any type; a new type removes all others.
_ANY_TYPE: Final = frozenset({"title", "description", "writeOnly", "readOnly", "deprecated"})
#: Keywords that change what a value may be in a way that a row does not show.
_NO_ROW: Final = frozenset(
    {
        "$ref", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor", "$defs", "$schema",
        "definitions",
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "const",
        "properties", "patternProperties", "additionalProperties", "propertyNames", "required",
        "dependentSchemas", "dependentRequired", "dependencies", "unevaluatedProperties",
        "minProperties", "maxProperties", ORDER,
        "prefixItems", "additionalItems", "contains", "minContains", "maxContains",
        "unevaluatedItems", "contentSchema",
    }
)  # fmt: skip
#: Keywords of the whole schema that may hide properties or rename what rows show.
_NO_ROWS: Final = frozenset({"$ref", "$dynamicRef"})


@dataclass(frozen=True, slots=True)
class Row:
    """One input.  All values but the switches are texts, as a form has them.

    `type` is a key of NEW_PARTS, or "" for a property that is edited as JSON, the text `part`.
    `choices` and the default of a list have one entry per line.  `kept` names the keywords that
    the row does not show.
    """

    name: str
    type: str
    required: bool = False
    title: str = ""
    description: str = ""
    default: str = ""
    least: str = ""
    most: str = ""
    choices: str = ""
    secret: bool = False
    part: str = ""
    kept: tuple[str, ...] = ()


class RowError(ValueError):
    """A value of a row that cannot be part of the schema; `field` is the row's field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def has_rows(schema: Any) -> bool:
    """Return whether rows can show the properties of the schema; else it is edited as JSON."""
    if not isinstance(schema, dict) or _NO_ROWS & schema.keys():
        return False
    parts, required = schema.get("properties", {}), schema.get("required", [])
    return (
        isinstance(parts, dict)
        and len(parts) <= MAX_ROWS
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
        and schema.get("type", "object") == "object"
        and isinstance(schema.get(ORDER, []), list)
    )


def rows_of(schema: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a schema for which `has_rows` is true, in their order."""
    parts, required = schema.get("properties", {}), schema.get("required", [])
    return [_row(name, parts[name], required=name in required) for name in ordered_keys(schema)]


def _row(name: str, part: Any, *, required: bool) -> Row:
    kind = type_of(part) if _fits_a_line(name) else ""
    if not kind:
        text = json.dumps(part, indent=2, ensure_ascii=False)
        return Row(name, "", required=required, part=text)
    least, most = _LIMITS.get(kind, ("", ""))
    return Row(
        name=name,
        type=kind,
        required=required,
        title=part.get("title", ""),
        description=part.get("description", ""),
        default=_default_text(kind, part["default"]) if "default" in part else "",
        least=_number_text(part.get(least)),
        most=_number_text(part.get(most)),
        choices="\n".join(part["enum"]) if kind == "choice" else "",
        secret=part.get("writeOnly") is True or part.get("format") == "password",
        kept=tuple(sorted(part.keys() - _shown(kind, part))),
    )


# --- reading one property -------------------------------------------------------------------------


def type_of(part: Any) -> str:
    """Return the type of the row that shows a property without loss; "" without such a row."""
    if not isinstance(part, dict) or _NO_ROW & part.keys():
        return ""
    kind = _kind(part)
    if not kind or not _fits_a_line(part.get("title", "")):
        return ""
    if not isinstance(part.get("description", ""), str):
        return ""
    if not isinstance(part.get("writeOnly", False), bool):
        return ""
    if not all(_is_limit(kind, part[name]) for name in _LIMITS.get(kind, ()) if name in part):
        return ""
    if "default" in part and not _is_default(kind, part["default"]):
        return ""
    return kind


def _kind(part: dict[str, Any]) -> str:
    named = part.get("type")
    if "enum" in part:
        return "choice" if named in ("string", None) and _are_lines(part["enum"]) else ""
    if named == "string":
        if "contentMediaType" in part:
            return "long_text" if "format" not in part else ""
        return _FORMATS.get(str(part.get("format")), "text")
    if named == "array":
        return "list" if part.get("items") == {"type": "string"} else ""
    if named is None:
        return "" if {"items", "format", "contentMediaType"} & part.keys() else "any"
    return named if named in ("number", "integer", "boolean", "object") else ""


def _shown(kind: str, part: dict[str, Any]) -> set[str]:
    """Return the keywords of the property that its row shows."""
    shown = {"type", "title", "description", "default", "writeOnly", *_LIMITS.get(kind, ())}
    shown |= {"choice": {"enum"}, "list": {"items"}, "long_text": {"contentMediaType"}}.get(
        kind, set()
    )
    return shown | ({"format"} if part.get("format") in (*_FORMATS, "password") else set())


def _fits_a_line(value: Any) -> bool:
    """Return whether a text field of one line keeps the text as it is."""
    return isinstance(value, str) and not re.search(r"[\r\n]", value)


def _are_lines(values: Any) -> bool:
    """Return whether the values are different texts that fit lines of a text area."""
    return (
        isinstance(values, list)
        and all(_fits_a_line(each) and each.strip() == each and each for each in values)
        and len(set(values)) == len(values)
    )


def _is_limit(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int if kind != "number" else int | float)


def _is_default(kind: str, value: Any) -> bool:
    if kind in _TEXTS:
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "list":
        return _are_lines(value)
    if kind in ("number", "integer"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return True


def _default_text(kind: str, value: Any) -> str:
    if kind in _TEXTS:
        return str(value)
    if kind == "list":
        return "\n".join(value)
    return json.dumps(value, ensure_ascii=False)


def _number_text(value: Any) -> str:
    return "" if value is None else json.dumps(value)


# --- changing one property ------------------------------------------------------------------------


def changed_row(schema: Mapping[str, Any], name: str, new: Row) -> dict[str, Any]:
    """Return the schema with the values of `new` for the input `name`, which may get a new name.

    Only values that differ change the schema.  Raises RowError.
    """
    old = next(each for each in rows_of(schema) if each.name == name)
    part = schema["properties"][name]
    if old.type:
        part = _changed_part(part, old, new)
    elif not _same(new.part, old.part):
        part = _read_part(new.part)
    changed = _with_part(schema, name, part)
    if new.required != old.required:
        changed = _with_required(changed, name, required=new.required)
    return changed if new.name == name else _renamed(changed, name, new.name)


def _changed_part(part: dict[str, Any], old: Row, new: Row) -> dict[str, Any]:
    if new.type not in NEW_PARTS:
        raise RowError("type", _("choose a type"))
    changed = dict(part)
    if new.type != old.type:
        changed, old = _of_type(part, old, new.type)
    for field in ("title", "description"):
        if not _same(getattr(new, field), getattr(old, field)):
            _set(changed, field, _lines(getattr(new, field)).strip())
    if new.secret != old.secret:
        _set(changed, "writeOnly", new.secret)
        if changed.get("format") == "password":
            del changed["format"]
    if new.type == "choice" and not _same(new.choices, old.choices):
        changed["enum"] = _entries("choices", new.choices)
    _set_limits(changed, old, new)
    if not _same(new.default, old.default):
        changed.pop("default", None)
        if new.default.strip():
            changed["default"] = _read_default(new.type, new.default)
    return changed


def _of_type(part: dict[str, Any], old: Row, kind: str) -> tuple[dict[str, Any], Row]:
    """Return the property with another type, and the row without what the type removed."""
    kept = {key: value for key, value in part.items() if key in _ANY_TYPE or key[:2] == "x-"}
    shared = {*_LIMITS.get(old.type, ())} & {*_LIMITS.get(kind, ())}
    kept |= {key: part[key] for key in shared if key in part}
    old = replace(old, default="", choices="")
    return {**NEW_PARTS[kind], **kept}, old if shared else replace(old, least="", most="")


def _set_limits(part: dict[str, Any], old: Row, new: Row) -> None:
    for field, keyword in zip(("least", "most"), _LIMITS.get(new.type, ()), strict=False):
        text = getattr(new, field).strip()
        if text == getattr(old, field):
            continue
        part.pop(keyword, None)
        if text:
            part[keyword] = _read_limit(new.type, field, text)


def _read_limit(kind: str, field: str, text: str) -> int | float:
    value = _read_number(field, text, whole=kind != "number")
    if value < 0 and kind not in ("number", "integer"):
        raise RowError(field, _("enter 0 or more"))
    return value


def _read_number(field: str, text: str, *, whole: bool) -> int | float:
    try:
        value = parse(text.strip())
    except BoundedJSONError:
        value = None
    if whole and (isinstance(value, bool) or not isinstance(value, int)):
        raise RowError(field, _("enter a whole number"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError(field, _("enter a number"))
    return value


def _read_default(kind: str, text: str) -> Any:
    if kind in _TEXTS:
        return _lines(text) if kind in ("text", "long_text") else text.strip()
    if kind == "list":
        return _entries("default", text)
    if kind in ("number", "integer"):
        return _read_number("default", text, whole=kind == "integer")
    try:
        return parse(text)
    except BoundedJSONError as error:
        raise RowError("default", _("invalid JSON: %(error)s") % {"error": error}) from None


def _entries(field: str, text: str) -> list[str]:
    """Return the lines of a text area; raises RowError for a line that appears twice."""
    lines = [line.strip() for line in _lines(text).split("\n") if line.strip()]
    twice = next((line for at, line in enumerate(lines) if line in lines[:at]), None)
    if twice is not None:
        raise RowError(field, _("%(line)s appears twice") % {"line": twice[:60]})
    return lines


def _read_part(text: str) -> Any:
    try:
        part = parse(text)
    except BoundedJSONError as error:
        raise RowError("part", _("invalid JSON: %(error)s") % {"error": error}) from None
    if not isinstance(part, dict | bool):
        raise RowError("part", _("must be a JSON object, as in {}"))
    if problem := schema_problem(part):
        raise RowError("part", problem)
    return part


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _same(posted: str, shown: str) -> bool:
    """Return whether a browser posts `posted` for a field that shows `shown`."""
    return _lines(posted) == _lines(shown)


def _set(part: dict[str, Any], keyword: str, value: Any) -> None:
    if value:
        part[keyword] = value
    else:
        part.pop(keyword, None)


# --- changing the list ----------------------------------------------------------------------------


def added(schema: Mapping[str, Any], name: str = "", part: Mapping[str, Any] | None = None) -> Any:
    """Return the schema with another input at the end, named `name` or by a free name."""
    parts = dict(schema.get("properties", {}))
    free = (f"input_{number}" for number in range(1, MAX_ROWS + 2))
    name = name or next(each for each in free if each not in parts)
    if name in parts:
        raise RowError("name", _("there is an input of this name already"))
    if len(parts) >= MAX_ROWS:
        raise RowError("name", _("a workflow has at most %(n)s inputs here") % {"n": MAX_ROWS})
    order = [*ordered_keys(schema), name]
    parts[name] = dict(NEW_PARTS["text"] if part is None else part)
    return {**_typed(schema), "properties": parts, ORDER: order}


def removed(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the schema without an input."""
    parts = {key: part for key, part in schema.get("properties", {}).items() if key != name}
    changed = _with_required({**schema, "properties": parts}, name, required=False)
    if ORDER in changed:
        changed[ORDER] = [each for each in changed[ORDER] if each != name]
    return {} if set(changed) <= {"type", "properties", ORDER} and not parts else changed


def moved(schema: Mapping[str, Any], name: str, by: int) -> dict[str, Any]:
    """Return the schema with an input `by` places later; negative numbers move it earlier."""
    order = ordered_keys(schema)
    at = order.index(name)
    to = min(max(at + by, 0), len(order) - 1)
    order.insert(to, order.pop(at))
    return {**schema, ORDER: order}


def _typed(schema: Mapping[str, Any]) -> dict[str, Any]:
    return dict(schema) if schema else {"type": "object"}


def _with_part(schema: Mapping[str, Any], name: str, part: Any) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], name: part}}


def _with_required(schema: dict[str, Any], name: str, *, required: bool) -> dict[str, Any]:
    before = schema.get("required", [])
    if required == (name in before):
        return schema
    names = [*before, name] if required else [each for each in before if each != name]
    if names:
        return {**schema, "required": names}
    return {key: value for key, value in schema.items() if key != "required"}


def name_problem(name: str, taken: Container[str]) -> str:
    """Return why an input cannot get this name, or "" if it can."""
    if not _NAME.fullmatch(name):
        return _("a name has up to 64 letters, digits and underscores, and starts with a letter")
    return _("there is an input of this name already") if name in taken else ""


def _renamed(schema: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    if problem := name_problem(new, schema["properties"]):
        raise RowError("name", problem)
    parts = {(new if key == old else key): part for key, part in schema["properties"].items()}
    changed = {**schema, "properties": parts}
    for keyword in ("required", ORDER):
        if old in changed.get(keyword, ()):
            changed[keyword] = [new if each == old else each for each in changed[keyword]]
    return changed


# --- checks ---------------------------------------------------------------------------------------


def row_faults(schema: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return name of the input, field and message of each row that contradicts itself."""
    faults = []
    for row in rows_of(schema):
        part = schema["properties"][row.name]
        if row.type == "choice" and not part["enum"]:
            faults.append((row.name, "choices", _("enter at least one choice, one per line")))
            continue
        least, most = (part.get(name) for name in _LIMITS.get(row.type, ("", "")))
        if least is not None and most is not None and least > most:
            faults.append((row.name, "most", _("is less than the lower limit")))
        elif row.type and "default" in part:
            for error in schema_errors(part, part["default"])[:1]:
                faults.append((row.name, "default", error.message))
    return faults
