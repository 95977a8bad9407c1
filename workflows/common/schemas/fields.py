"""A JSON Schema and a value as a form: all that a template needs to draw it.

Control names carry the JSON pointer of their value (`/items/0/name`, "" is the root):

    v:POINTER   the text of one value, read by the kind of its field
    j:POINTER   the same as raw JSON
    s:POINTER   set | null | absent, where a value may be missing or null
    i:POINTER   the ids of an array's items in order, `0,1,7`; an unknown id is a new item
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from workflows.engine.bounded_json import JSON, canonical, path_text

from .json_pointer import to_pointer
from .messages import FieldError
from .shapes import ABSENT, CONTAINERS, Shape, fitting_shape, item_schema, parts_of
from .validation import schema_problem

#: Stands for the id of a new item in the pointers of an array's `blank` field.
NEW_ITEM: Final = "NEW"

_MAX_DEPTH: Final = 8
#: Two controls each stay below the 1,000 entries that Django takes from one form.
_MAX_FIELDS: Final = 400
_LONG: Final = 80
_INPUT_TYPES: Final = {"email": "email", "uri": "url", "url": "url", "date": "date"}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}|")


@dataclass(frozen=True, slots=True)
class Option:
    """One choice: `value` goes over the wire, `label` is read."""

    value: str
    label: str
    selected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form.

    `kind`: text | textarea | integer | number | boolean | enum | json | object | array. `path` is
    the JSON pointer, `dotted` the same for people. `text` is what the control shows,
    `original_text` what it showed before any edit. `state` is set, null or absent; `has_state`
    says that the person may choose it. `rules` is the schema at this place, references resolved.
    `blank` is the form of a new item of an array, its pointers holding NEW for the id.
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
        """The value of the control `items_name`, as the form is first shown."""
        return ",".join(str(index) for index in range(len(self.children)))


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a field stands: `path` of keys and indexes, its schema, and what is asked of it."""

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
    """The fields of `value`: those of the root object, else one field for the whole.

    `original` is the value before any edit (default: `value` itself). `rejected` and `errors` of a
    FormValue show a refused form again with the texts and complaints in their places.
    """
    usable = usable_schema(schema)
    build = _Builder(usable, rejected or {}, errors)
    whole = build.field(Spot((), usable), value, value if original is ABSENT else original)
    return whole.children if whole.kind == "object" else (whole,)


def usable_schema(schema: Any) -> Any:
    """`schema`, or False (which is shown as raw JSON) where it is no valid JSON Schema."""
    return False if schema_problem(schema) else schema


def rendered(kind: str, value: Any) -> str:
    """The text that a control of this kind shows for `value`; "" for nothing and for null."""
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
    """set, null or absent."""
    return "absent" if value is ABSENT else "null" if value is None else "set"


class _Builder:
    """Builds the tree of fields, and counts them: ten thousand fields help nobody."""

    def __init__(
        self, root: Any, rejected: Mapping[str, str], errors: Iterable[FieldError]
    ) -> None:
        self._root = root
        self._rejected = rejected
        self._errors: dict[str, list[str]] = {}
        for error in errors:
            self._errors.setdefault(error.path, []).append(error.message)
        self._count = 0

    def field(self, spot: Spot, value: Any, original: Any) -> FormField:
        self._count += 1
        shape = fitting_shape(spot.schema, self._root, original)
        too_much = shape.kind in CONTAINERS and self._is_too_much(spot, shape, value)
        if too_much or not shape.takes(value):
            shape = Shape("json", shape.rules, shape.nullable)
        if shape.kind == "object":
            return self._make(
                spot, shape, value, original, children=self._parts(spot, shape, value, original)
            )
        if shape.kind == "array":
            return self._make(
                spot,
                shape,
                value,
                original,
                children=self._items(spot, shape, value, original),
                blank=self._blank(spot, shape),
            )
        return self._make(spot, shape, value, original, **_control(shape, value, original))

    def _is_too_much(self, spot: Spot, shape: Shape, value: Any) -> bool:
        size = len(value) if isinstance(value, (dict, list)) else 0
        size += len(shape.rules.get("properties", ()))
        nothing_there = value is ABSENT and len(spot.path) > 3
        return nothing_there or len(spot.path) >= _MAX_DEPTH or self._count + size > _MAX_FIELDS

    def _parts(self, spot: Spot, shape: Shape, value: Any, original: Any) -> tuple[FormField, ...]:
        here = value if isinstance(value, dict) else {}
        before = original if isinstance(original, dict) else {}
        return tuple(
            self.field(
                Spot((*spot.path, key), schema, required, _title(key)),
                here.get(key, ABSENT),
                before.get(key, ABSENT),
            )
            for key, schema, required in parts_of(shape, value)
        )

    def _items(self, spot: Spot, shape: Shape, value: Any, original: Any) -> tuple[FormField, ...]:
        before = original if isinstance(original, list) else []
        return tuple(
            self.field(
                Spot((*spot.path, index), item_schema(shape, index), title=f"{index + 1}"),
                item,
                before[index] if index < len(before) else ABSENT,
            )
            for index, item in enumerate(value if isinstance(value, list) else [])
        )

    def _blank(self, spot: Spot, shape: Shape) -> FormField | None:
        if NEW_ITEM in spot.path:
            return None
        inside = Spot((*spot.path, NEW_ITEM), item_schema(shape, 1_000_000), title="new")
        return self.field(inside, ABSENT, ABSENT)

    def _make(self, spot: Spot, shape: Shape, value: Any, original: Any, **more: Any) -> FormField:
        place, dotted = to_pointer(spot.path), path_text(spot.path)
        more["text"] = self._rejected.get(place, more.get("text", ""))
        return FormField(
            **{"kind": shape.kind, **more},
            path=place,
            dotted=dotted,
            name=f"{'j' if shape.kind == 'json' else 'v'}:{place}",
            label=str(shape.rules.get("title", "")) or spot.title,
            description=str(shape.rules.get("description", "")),
            placeholder=_placeholder(shape.rules.get("default")),
            required=spot.required,
            nullable=shape.nullable,
            state=state_of(value),
            original=original,
            changed=not same(value, original),
            rules=shape.rules,
            errors=tuple(self._errors.get(dotted, ())),
        )


def same(left: Any, right: Any) -> bool:
    """Equal as JSON; ABSENT equals only itself."""
    if left is ABSENT or right is ABSENT:
        return left is right
    return canonical(left) == canonical(right)


def _control(shape: Shape, value: Any, original: Any) -> dict[str, Any]:
    """How the one control of a plain field looks."""
    before = rendered(shape.kind, original)
    look: dict[str, Any] = {"text": rendered(shape.kind, value), "original_text": before}
    if shape.kind == "text":
        look |= _text_control(shape.rules, look["text"], before)
    elif shape.kind in ("integer", "number"):
        # A number input of the browser rounds and localises; plain text keeps every digit.
        look["input_mode"] = "numeric" if shape.kind == "integer" else "decimal"
    elif shape.kind == "enum":
        look["options"] = _options(shape, value)
    return look


def _text_control(rules: dict[str, Any], text: str, before: str) -> dict[str, Any]:
    is_long = max(len(text), len(before)) > _LONG or int(rules.get("maxLength", 0)) > 4 * _LONG
    if is_long or "contentMediaType" in rules or {"\n", "\r"} & {*text, *before}:
        return {"kind": "textarea"}
    kind = _INPUT_TYPES.get(str(rules.get("format")), "text")
    if kind == "date" and not _DATE.fullmatch(text):
        kind = "text"
    return {"input_type": kind}


def _options(shape: Shape, value: Any) -> tuple[Option, ...]:
    chosen = rendered("enum", value)
    options = tuple(
        Option(canonical(choice), label, canonical(choice) == chosen)
        for label, choice in shape.choices
    )
    if chosen and not any(option.selected for option in options):
        options += (
            Option(value=chosen, label=f"{chosen} (not one of the choices)", selected=True),
        )
    return options


def _placeholder(default: Any) -> str:
    return "" if isinstance(default, (dict, list)) else rendered("text", default)


def _title(key: str) -> str:
    words = key.replace("_", " ").strip()
    return words[:1].upper() + words[1:] if words else key
