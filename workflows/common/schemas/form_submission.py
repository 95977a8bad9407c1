"""Parse a submitted form of `forms.py` into a JSON value with the types of its schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from workflows.engine.values.bounded_json import (
    DEFAULT,
    JSON,
    BoundedJSONError,
    canonical,
    check_value,
    parse,
    path_text,
)

from .error_messages import FieldError
from .form_shapes import ABSENT, Shape, fitting_shape, item_schema, parts_of
from .forms import FieldSpec, control_text, state_of, usable_schema
from .json_pointer import to_pointer

_MAX_ITEMS: Final = 1_000
_MAX_DEPTH: Final = 64
_ITEM_ID: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class FormValue:
    """The parsed value, and the invalid entries.

    `value` keeps the original of each invalid entry; `errors` has its error, and `rejected` maps
    its JSON pointer to the entered text.
    """

    value: JSON
    errors: tuple[FieldError, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)


class _InvalidEntry(Exception):
    """An entry is not of its field's kind; `inside` is the path within raw JSON."""

    def __init__(self, message: str, inside: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.inside = inside


def value_from_form(schema: Any, original: JSON, data: Mapping[str, str]) -> FormValue:
    """Parse a submitted form that `form_fields` created for `original`.

    Values without a control keep their original value and type; an unchanged text gives exactly the
    original value. The result is not validated against the schema.
    """
    usable = usable_schema(schema)
    reader = _Reader(usable, data)
    value = reader.read(FieldSpec((), usable), (), original)
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

    def read(self, spec: FieldSpec, place: tuple[str | int, ...], original: Any) -> Any:
        """The value at `place` of the form, which will stand at `spec.path` of the result."""
        name = to_pointer(place)
        if name not in self._mentioned or len(place) > _MAX_DEPTH:
            return original
        shape = fitting_shape(spec.schema, self._root, original)
        state = self._data.get(f"s:{name}", "")
        if state == state_of(original) and name in self._typed:
            state = ""  # who types into an empty field means what they typed
        if state == "absent" and not spec.required:
            return ABSENT
        if state == "null" and shape.nullable:
            return None
        is_new_item = original is ABSENT and bool(place) and isinstance(place[-1], int)
        try:
            return self._set(spec, place, shape, original, is_set=state == "set" or is_new_item)
        except _InvalidEntry as problem:
            self._reject(spec, name, problem)
            return original

    def _set(
        self,
        spec: FieldSpec,
        place: tuple[str | int, ...],
        shape: Shape,
        original: Any,
        *,
        is_set: bool,
    ) -> Any:
        name = to_pointer(place)
        if f"j:{name}" in self._data:
            return _from_json(self._data[f"j:{name}"], original, required=spec.required)
        if shape.kind == "object":
            return self._object(spec, place, shape, original, is_set=is_set)
        if shape.kind == "array":
            return self._array(spec, place, shape, original, is_set=is_set)
        if f"v:{name}" not in self._data:
            return original
        text = self._data[f"v:{name}"]
        if shape.kind == "json":
            return _from_json(text, original, required=spec.required)
        if _lines(text) == _lines(control_text(shape.kind, original)) and not (
            is_set and original in (None, ABSENT)
        ):
            return original
        return _from_text(text, shape, original, required=spec.required, is_set=is_set)

    def _object(
        self,
        spec: FieldSpec,
        place: tuple[str | int, ...],
        shape: Shape,
        original: Any,
        *,
        is_set: bool,
    ) -> Any:
        before = original if isinstance(original, dict) else {}
        found = {}
        for key, schema, required in parts_of(shape, original):
            inside = FieldSpec((*spec.path, key), schema, required)
            item = self.read(inside, (*place, key), before.get(key, ABSENT))
            if item is not ABSENT:
                found[key] = item
        ordered = {key: found[key] for key in [*before, *found] if key in found}
        return ordered if ordered or is_set or isinstance(original, dict) else original

    def _array(
        self,
        spec: FieldSpec,
        place: tuple[str | int, ...],
        shape: Shape,
        original: Any,
        *,
        is_set: bool,
    ) -> Any:
        before = original if isinstance(original, list) else []
        ids = self._ids(to_pointer(place), len(before))
        items = []
        for index, number in enumerate(ids):
            old = before[number] if number < len(before) else ABSENT
            inside = FieldSpec((*spec.path, index), item_schema(shape, index))
            item = self.read(inside, (*place, number), old)
            items.append(None if item is ABSENT else item)
        return items if items or is_set or isinstance(original, list) else original

    def _ids(self, name: str, before: int) -> list[int]:
        listed = self._data.get(f"i:{name}")
        if listed is None:
            return list(range(before))
        parts = [part for part in listed.split(",") if part]
        if len(parts) > _MAX_ITEMS:
            raise _InvalidEntry(f"has more than {_MAX_ITEMS} items")
        if not all(_ITEM_ID.fullmatch(part) for part in parts) or len(set(parts)) < len(parts):
            raise _InvalidEntry("has items that cannot be told apart")
        return [int(part) for part in parts]

    def _reject(self, spec: FieldSpec, name: str, problem: _InvalidEntry) -> None:
        here = path_text(spec.path)
        inside = problem.inside
        path = f"{here}{'' if not here or inside[:1] in ('', '[') else '.'}{inside}"
        self.errors.append(FieldError(path, problem.message))
        text = self._data.get(f"j:{name}", self._data.get(f"v:{name}"))
        if text is not None:
            self.rejected[to_pointer(spec.path)] = text


def _places(data: Mapping[str, str], prefixes: tuple[str, ...]) -> set[str]:
    """Return the pointers of all controls with these prefixes, and their ancestors."""
    found = {""}
    for name in data:
        place = name[2:] if name.startswith(prefixes) else ""
        while place and place not in found:
            found.add(place)
            place = place.rpartition("/")[0]
    return found


def _from_json(text: str, original: Any, *, required: bool) -> Any:
    if _lines(text) == _lines(control_text("json", original)):
        return original
    if not text.strip():
        if required:
            raise _InvalidEntry("is required")
        return ABSENT
    try:
        return parse(text)
    except BoundedJSONError as error:
        raise _InvalidEntry(error.message, error.path) from None


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
    """Return the text with LF line ends, because browsers change line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _clean(text: str, original: Any) -> str:
    """Return the text with the line ends of the original; browsers send CRLF for each."""
    plain = _lines(text)
    if isinstance(original, str) and "\r\n" in original:
        plain = plain.replace("\n", "\r\n")
    try:
        check_value(plain)
    except BoundedJSONError as error:
        raise _InvalidEntry(error.message) from None
    return plain


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise _InvalidEntry("must be a whole number")
    if len(text) > DEFAULT.int_digits:
        raise _InvalidEntry(f"must have at most {DEFAULT.int_digits} digits")
    return int(text)


def _number(text: str) -> int | float:
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if not _NUMBER.fullmatch(text) or not isfinite(float(text)):
        raise _InvalidEntry("must be a number")
    return float(text)


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise _InvalidEntry("must be true or false")
    return text == "true"


def _choice(text: str, shape: Shape, original: Any) -> Any:
    for _, value in shape.choices:
        if canonical(value) == text:
            return value
    raise _InvalidEntry("must be one of the choices")
