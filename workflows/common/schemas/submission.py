"""What a browser sends back for a form, as a JSON value with its types kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from workflows.engine.bounded_json import (
    DEFAULT,
    JSON,
    BoundedJSONError,
    canonical,
    check_value,
    parse,
    path_text,
)

from .fields import Spot, rendered, state_of, usable_schema
from .json_pointer import to_pointer
from .messages import FieldError
from .shapes import ABSENT, Shape, fitting_shape, item_schema, parts_of

_MAX_ITEMS: Final = 1_000
_MAX_DEPTH: Final = 64
_ITEM_ID: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class FormValue:
    """`value` with every readable entry applied; `errors` and `rejected` for the others.

    Where an entry cannot be read, `value` keeps what was there before, and `rejected` maps the
    JSON pointer to the text that was entered.
    """

    value: JSON
    errors: tuple[FieldError, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)


class _Unreadable(Exception):
    """An entry is not of its kind; `inside` is the path within raw JSON."""

    def __init__(self, message: str, inside: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.inside = inside


def value_from_form(schema: Any, original: JSON, data: Mapping[str, str]) -> FormValue:
    """Read a form drawn by `form_fields` for `original`.

    What the form does not mention keeps its original value and type; a text that was not touched
    gives back exactly the value it stood for. The result is not yet checked against the schema.
    """
    usable = usable_schema(schema)
    reader = _Reader(usable, data)
    value = reader.read(Spot((), usable), (), original)
    return FormValue(
        None if value is ABSENT else value, tuple(reader.errors), dict(reader.rejected)
    )


class _Reader:
    def __init__(self, root: Any, data: Mapping[str, str]) -> None:
        self._root = root
        self._data = data
        self._mentioned = _places(data, ("v:", "j:", "s:", "i:"))
        self._typed = _places({k: v for k, v in data.items() if v.strip()}, ("v:", "j:", "i:"))
        self.errors: list[FieldError] = []
        self.rejected: dict[str, str] = {}

    def read(self, spot: Spot, place: tuple[str | int, ...], original: Any) -> Any:
        """The value at `place` of the form, which will stand at `spot.path` of the result."""
        name = to_pointer(place)
        if name not in self._mentioned or len(place) > _MAX_DEPTH:
            return original
        shape = fitting_shape(spot.schema, self._root, original)
        state = self._data.get(f"s:{name}", "")
        if state == state_of(original) and name in self._typed:
            state = ""  # who types into an empty field means what they typed
        if state == "absent" and not spot.required:
            return ABSENT
        if state == "null" and shape.nullable:
            return None
        is_new_item = original is ABSENT and bool(place) and isinstance(place[-1], int)
        try:
            return self._set(spot, place, shape, original, is_set=state == "set" or is_new_item)
        except _Unreadable as problem:
            self._reject(spot, name, problem)
            return original

    def _set(
        self, spot: Spot, place: tuple[str | int, ...], shape: Shape, original: Any, *, is_set: bool
    ) -> Any:
        name = to_pointer(place)
        if f"j:{name}" in self._data:
            return _from_json(self._data[f"j:{name}"], original, required=spot.required)
        if shape.kind == "object":
            return self._object(spot, place, shape, original, is_set=is_set)
        if shape.kind == "array":
            return self._array(spot, place, shape, original, is_set=is_set)
        if f"v:{name}" not in self._data:
            return original
        text = self._data[f"v:{name}"]
        if shape.kind == "json":
            return _from_json(text, original, required=spot.required)
        if _lines(text) == _lines(rendered(shape.kind, original)) and not (
            is_set and original in (None, ABSENT)
        ):
            return original
        return _from_text(text, shape, original, required=spot.required, is_set=is_set)

    def _object(
        self, spot: Spot, place: tuple[str | int, ...], shape: Shape, original: Any, *, is_set: bool
    ) -> Any:
        before = original if isinstance(original, dict) else {}
        found = {}
        for key, schema, required in parts_of(shape, original):
            inside = Spot((*spot.path, key), schema, required)
            item = self.read(inside, (*place, key), before.get(key, ABSENT))
            if item is not ABSENT:
                found[key] = item
        ordered = {key: found[key] for key in [*before, *found] if key in found}
        return ordered if ordered or is_set or isinstance(original, dict) else original

    def _array(
        self, spot: Spot, place: tuple[str | int, ...], shape: Shape, original: Any, *, is_set: bool
    ) -> Any:
        before = original if isinstance(original, list) else []
        ids = self._ids(to_pointer(place), len(before))
        items = []
        for index, number in enumerate(ids):
            old = before[number] if number < len(before) else ABSENT
            inside = Spot((*spot.path, index), item_schema(shape, index))
            item = self.read(inside, (*place, number), old)
            items.append(None if item is ABSENT else item)
        return items if items or is_set or isinstance(original, list) else original

    def _ids(self, name: str, before: int) -> list[int]:
        listed = self._data.get(f"i:{name}")
        if listed is None:
            return list(range(before))
        parts = [part for part in listed.split(",") if part]
        if len(parts) > _MAX_ITEMS:
            raise _Unreadable(f"has more than {_MAX_ITEMS} items")
        if not all(_ITEM_ID.fullmatch(part) for part in parts) or len(set(parts)) < len(parts):
            raise _Unreadable("has items that cannot be told apart")
        return [int(part) for part in parts]

    def _reject(self, spot: Spot, name: str, problem: _Unreadable) -> None:
        here = path_text(spot.path)
        inside = problem.inside
        path = f"{here}{'' if not here or inside[:1] in ('', '[') else '.'}{inside}"
        self.errors.append(FieldError(path, problem.message))
        text = self._data.get(f"j:{name}", self._data.get(f"v:{name}"))
        if text is not None:
            self.rejected[to_pointer(spot.path)] = text


def _places(data: Mapping[str, str], prefixes: tuple[str, ...]) -> set[str]:
    """Every pointer that controls with these prefixes speak of, and all that stand above one."""
    found = {""}
    for name in data:
        place = name[2:] if name.startswith(prefixes) else ""
        while place and place not in found:
            found.add(place)
            place = place.rpartition("/")[0]
    return found


def _from_json(text: str, original: Any, *, required: bool) -> Any:
    if _lines(text) == _lines(rendered("json", original)):
        return original
    if not text.strip():
        if required:
            raise _Unreadable("is required")
        return ABSENT
    try:
        return parse(text)
    except BoundedJSONError as error:
        raise _Unreadable(error.message, error.path) from None


def _from_text(text: str, shape: Shape, original: Any, *, required: bool, is_set: bool) -> Any:
    if shape.kind == "text":
        return _clean(text, original)
    stripped = text.strip()
    if not stripped and not required and not is_set:
        return ABSENT
    if not stripped and shape.nullable:
        return None
    readers = {"integer": _integer, "number": _number, "boolean": _boolean}
    if shape.kind == "enum":
        return _choice(text, shape, original)
    return readers[shape.kind](stripped)


def _lines(text: str) -> str:
    """With line ends as browsers do not keep them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _clean(text: str, original: Any) -> str:
    """The text with the line ends that the original had; browsers send CRLF for each."""
    plain = _lines(text)
    if isinstance(original, str) and "\r\n" in original:
        plain = plain.replace("\n", "\r\n")
    try:
        check_value(plain)
    except BoundedJSONError as error:
        raise _Unreadable(error.message) from None
    return plain


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise _Unreadable("must be a whole number")
    if len(text) > DEFAULT.int_digits:
        raise _Unreadable(f"must have at most {DEFAULT.int_digits} digits")
    return int(text)


def _number(text: str) -> int | float:
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if not _NUMBER.fullmatch(text) or not isfinite(float(text)):
        raise _Unreadable("must be a number")
    return float(text)


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise _Unreadable("must be true or false")
    return text == "true"


def _choice(text: str, shape: Shape, original: Any) -> Any:
    for _, value in shape.choices:
        if canonical(value) == text:
            return value
    raise _Unreadable("must be one of the choices")
