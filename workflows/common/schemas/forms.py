"""HTML form of a value with a JSON Schema: the fields that a template renders.

Control names contain the JSON pointer of their value (`/items/0/name`, "" is the root):

    v:POINTER   the text of one value, parsed by the kind of its field
    j:POINTER   the value as raw JSON
    s:POINTER   set | null | absent, if the value may be missing or null
    i:POINTER   the ids of an array's items in order, `0,1,7`; an unknown id is a new item
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from workflows.engine.values.bounded_json import JSON, canonical, path_text

from .error_messages import FieldError
from .form_shapes import ABSENT, CONTAINERS, Shape, fitting_shape, item_schema, parts_of
from .json_pointer import to_pointer
from .validation import schema_problem

#: Placeholder for the id of a new item in the pointers of an array's `blank` field.
NEW_ITEM: Final = "NEW"

_MAX_DEPTH: Final = 8
#: With two controls per field, below the 1,000 entries that Django accepts in one form.
_MAX_FIELDS: Final = 400
_LONG: Final = 80
_INPUT_TYPES: Final = {"email": "email", "uri": "url", "url": "url", "date": "date"}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}|")


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of an enum: the submitted `value` and its `label`."""

    value: str
    label: str
    selected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form.

    `kind`: text | textarea | integer | number | boolean | enum | json | object | array. `path` is
    the JSON pointer, `dotted` the path for people. `text` is the text of the control,
    `original_text` its text before any edit. `state` is set, null or absent; `has_state` says
    whether the user can choose it. `rules` is the schema of the field with resolved references.
    `blank` is the form of a new array item, with NEW as the id in its pointers.
    """

    path: str
    dotted: str
    name: str
    kind: str
    label: str
    required: bool
    nullable: bool
    state: str
    text: str = ""
    original_text: str = ""
    original: Any = ABSENT
    changed: bool = False
    description: str = ""
    placeholder: str = ""
    input_type: str = "text"
    input_mode: str = ""
    rules: dict[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    children: tuple[FormField, ...] = ()
    blank: FormField | None = None
    errors: tuple[str, ...] = ()
    #: Shown, but not to be edited.
    locked: bool = False

    @property
    def has_state(self) -> bool:
        return self.nullable or not self.required

    @property
    def state_name(self) -> str:
        return f"s:{self.path}"

    @property
    def items_name(self) -> str:
        return f"i:{self.path}"

    @property
    def item_ids(self) -> str:
        """The initial value of the control `items_name`."""
        return ",".join(str(index) for index in range(len(self.children)))


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """Position of a field: `path` of keys and indexes, its schema, and whether it is required."""

    path: tuple[str | int, ...]
    schema: Any
    required: bool = True
    title: str = ""


def form_fields(
    schema: Any,
    value: JSON,
    *,
    original: JSON = ABSENT,
    rejected: Mapping[str, str] | None = None,
    errors: Iterable[FieldError] = (),
) -> tuple[FormField, ...]:
    """Return the fields of the root object, or one field if `value` is no object.

    `original` is the value before any edit (default: `value` itself). `rejected` and `errors` of a
    FormValue show an invalid form again with the entered texts and the errors.
    """
    usable = usable_schema(schema)
    build = _Builder(usable, rejected or {}, errors)
    whole = build.field(FieldSpec((), usable), value, value if original is ABSENT else original)
    return whole.children if whole.kind == "object" else (whole,)


def usable_schema(schema: Any) -> Any:
    """Return `schema`, or False (shown as raw JSON) if it is no valid JSON Schema."""
    return False if schema_problem(schema) else schema


def control_text(kind: str, value: Any) -> str:
    """Return the text of a control of this kind for `value`; "" for an absent value and null."""
    if value is ABSENT or (value is None and kind != "json"):
        return ""
    if kind == "json":
        return json.dumps(value, ensure_ascii=False, indent=2)
    if kind == "enum":
        return canonical(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def state_of(value: Any) -> str:
    """Return "set", "null" or "absent"."""
    return "absent" if value is ABSENT else "null" if value is None else "set"


class _Builder:
    """Builds the tree of fields, up to the maximum number of fields."""

    def __init__(
        self, root: Any, rejected: Mapping[str, str], errors: Iterable[FieldError]
    ) -> None:
        self._root = root
        self._rejected = rejected
        self._errors: dict[str, list[str]] = {}
        for error in errors:
            self._errors.setdefault(error.path, []).append(error.message)
        self._count = 0

    def field(self, spec: FieldSpec, value: Any, original: Any) -> FormField:
        self._count += 1
        shape = fitting_shape(spec.schema, self._root, original)
        exceeds = shape.kind in CONTAINERS and self._exceeds_limits(spec, shape, value)
        if exceeds or not shape.takes(value) or _has_no_parts(spec, shape, value):
            shape = Shape("json", shape.rules, shape.nullable)
        if shape.kind == "object":
            return self._make(
                spec,
                shape,
                value,
                original,
                children=self._properties(spec, shape, value, original),
            )
        if shape.kind == "array":
            return self._make(
                spec,
                shape,
                value,
                original,
                children=self._items(spec, shape, value, original),
                blank=self._blank(spec, shape),
            )
        return self._make(spec, shape, value, original, **_control(shape, value, original))

    def _exceeds_limits(self, spec: FieldSpec, shape: Shape, value: Any) -> bool:
        size = len(value) if isinstance(value, (dict, list)) else 0
        size += len(shape.rules.get("properties", ()))
        nothing_there = value is ABSENT and len(spec.path) > 3
        return nothing_there or len(spec.path) >= _MAX_DEPTH or self._count + size > _MAX_FIELDS

    def _properties(
        self, spec: FieldSpec, shape: Shape, value: Any, original: Any
    ) -> tuple[FormField, ...]:
        here = value if isinstance(value, dict) else {}
        before = original if isinstance(original, dict) else {}
        return tuple(
            self.field(
                FieldSpec((*spec.path, key), schema, required, _title(key)),
                here.get(key, ABSENT),
                before.get(key, ABSENT),
            )
            for key, schema, required in parts_of(shape, value)
        )

    def _items(
        self, spec: FieldSpec, shape: Shape, value: Any, original: Any
    ) -> tuple[FormField, ...]:
        before = original if isinstance(original, list) else []
        return tuple(
            self.field(
                FieldSpec((*spec.path, index), item_schema(shape, index), title=f"{index + 1}"),
                item,
                before[index] if index < len(before) else ABSENT,
            )
            for index, item in enumerate(value if isinstance(value, list) else [])
        )

    def _blank(self, spec: FieldSpec, shape: Shape) -> FormField | None:
        if NEW_ITEM in spec.path:
            return None
        inside = FieldSpec((*spec.path, NEW_ITEM), item_schema(shape, 1_000_000), title="new")
        return self.field(inside, ABSENT, ABSENT)

    def _make(
        self, spec: FieldSpec, shape: Shape, value: Any, original: Any, **more: Any
    ) -> FormField:
        place, dotted = to_pointer(spec.path), path_text(spec.path)
        more["text"] = self._rejected.get(place, more.get("text", ""))
        return FormField(
            **{"kind": shape.kind, **more},
            path=place,
            dotted=dotted,
            name=f"{'j' if shape.kind == 'json' else 'v'}:{place}",
            label=str(shape.rules.get("title", "")) or spec.title,
            description=str(shape.rules.get("description", "")),
            placeholder=_placeholder(shape.rules),
            required=spec.required,
            nullable=shape.nullable,
            state=state_of(value),
            original=original,
            changed=not json_equal(value, original),
            rules=shape.rules,
            errors=tuple(self._errors.get(dotted, ())),
        )


def json_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON; ABSENT equals only itself."""
    if left is ABSENT or right is ABSENT:
        return left is right
    return canonical(left) == canonical(right)


def _has_no_parts(spec: FieldSpec, shape: Shape, value: Any) -> bool:
    """Return whether an object is empty and its schema names no field, but allows any."""
    return (
        shape.kind == "object"
        and bool(spec.path)
        and value in (ABSENT, {})
        and not shape.rules.get("properties")
        and shape.rules.get("additionalProperties") is not False
    )


def _control(shape: Shape, value: Any, original: Any) -> dict[str, Any]:
    """Return the attributes of the control of a scalar field."""
    before = control_text(shape.kind, original)
    look: dict[str, Any] = {"text": control_text(shape.kind, value), "original_text": before}
    if shape.kind == "text":
        look |= _text_control(shape.rules, look["text"], before)
    elif shape.kind in ("integer", "number"):
        # A browser's number input rounds and localises; a text input keeps every digit.
        look["input_mode"] = "numeric" if shape.kind == "integer" else "decimal"
    elif shape.kind == "enum":
        look["options"] = _options(shape, value)
    return look


def _text_control(rules: dict[str, Any], text: str, before: str) -> dict[str, Any]:
    is_long = max(len(text), len(before)) > _LONG or int(rules.get("maxLength", 0)) > 4 * _LONG
    if is_long or "contentMediaType" in rules or {"\n", "\r"} & {*text, *before}:
        return {"kind": "textarea"}
    if _is_secret(rules):
        return {"input_type": "password"}
    kind = _INPUT_TYPES.get(str(rules.get("format")), "text")
    if kind == "date" and not _DATE.fullmatch(text):
        kind = "text"
    return {"input_type": kind}


def _is_secret(rules: dict[str, Any]) -> bool:
    return rules.get("writeOnly") is True or rules.get("format") == "password"


def _options(shape: Shape, value: Any) -> tuple[Option, ...]:
    chosen = control_text("enum", value)
    options = tuple(
        Option(canonical(choice), label, canonical(choice) == chosen)
        for label, choice in shape.choices
    )
    if chosen and not any(option.selected for option in options):
        options += (
            Option(value=chosen, label=f"{chosen} (not one of the choices)", selected=True),
        )
    return options


def _placeholder(rules: dict[str, Any]) -> str:
    default = rules.get("default")
    if _is_secret(rules):
        return ""
    return "" if isinstance(default, (dict, list)) else control_text("text", default)


def _title(key: str) -> str:
    words = key.replace("_", " ").strip()
    return words[:1].upper() + words[1:] if words else key
