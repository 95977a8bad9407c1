"""Replace secrets in a JSON value by marks, and restore them in an edited value.

A mark is the text `[•••••••• 3]`: a fixed number of dots, and a number that identifies the value.
People edit the masked value; `restored` replaces the remaining marks by the real values.  Text that
looks like a mark is masked too, so that no agent can write one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workflows.common.redaction import DOTS, is_secret_field, merge_spans, secret_spans
from workflows.common.schemas.form_shapes import (
    Shape,
    fitting_shape,
    item_schema,
    parts_of,
    shape_of,
)
from workflows.common.schemas.forms import usable_schema
from workflows.engine.values.bounded_json import JSON, canonical, path_text

_MARK: Final = re.compile(rf"\[{DOTS} ([1-9][0-9]{{0,5}})\]")

_Path = tuple[str | int, ...]


class NotRestorable(Exception):
    """An edit has an invalid mark; `path` is its position in the edited value."""

    def __init__(self, path: _Path, message: str) -> None:
        super().__init__(message)
        self.path = path_text(path)
        self.message = message


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for secrets, besides keys and texts that look secret.

    `schema`: a JSON Schema with `writeOnly` or `format: password`.  `paths`: keys joined by dots
    (`customer.iban`, `*` for any one key); a value is secret whose path ends so, indexes left out.
    """

    schema: Any
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Secret:
    """A masked value: the number of its mark, the value, and its dotted paths."""

    number: int
    value: JSON
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Masked:
    """`value` with marks; `secrets` in it by number; `known` also has secrets of earlier values."""

    value: JSON
    secrets: tuple[Secret, ...]
    known: Mapping[int, JSON]
    rules: Rules

    def secret(self, number: int) -> Secret | None:
        """Return the secret of a mark."""
        return next((each for each in self.secrets if each.number == number), None)


def mark(number: int) -> str:
    """Return the mark with a number."""
    return f"[{DOTS} {number}]"


def is_marked(text: str) -> bool:
    """Return whether the text contains a mark."""
    return _MARK.search(text) is not None


def masked(value: JSON, rules: Rules, *, after: Masked | None = None) -> Masked:
    """Return `value` with a mark for each secret; equal secrets have equal numbers.

    `after` is an earlier masked value: secrets that are in both keep their numbers.
    """
    work = _Masker(rules, after.known if after else {})
    shown = work.walk((), value, usable_schema(rules.schema), hidden=False)
    secrets = tuple(
        Secret(number, work.known[number], tuple(paths))
        for number, paths in sorted(work.places.items())
    )
    return Masked(shown, secrets, work.known, rules)


def restored(edited: JSON, view: Masked) -> JSON:
    """Return `edited`, an edit of `view.value`, with the real values instead of their marks.

    Raises:
        NotRestorable: a mark is unknown, or was moved to a place where its value would be visible.
    """
    true = restored_part(edited, view)
    _check_hidden((), edited, masked(true, view.rules, after=view).value)
    return true


def restored_part(edited: JSON, view: Masked) -> JSON:
    """Like `restored`, for a part of an edited value that was checked as a whole."""
    return _Restorer(view.known).walk((), edited)


def edited_as_shown(view: Masked, edited: JSON) -> JSON:
    """Return `edited`, an edit of `view.value`, with marks also for newly typed secrets."""
    try:
        return masked(restored(edited, view), view.rules, after=view).value
    except NotRestorable:
        return edited


class _Masker:
    def __init__(self, rules: Rules, known: Mapping[int, JSON]) -> None:
        self.known = dict(known)
        self.places: dict[int, list[str]] = {}
        self._numbers = {canonical(value): number for number, value in known.items()}
        self._root = usable_schema(rules.schema)
        self._listed = [tuple(path.split(".")) for path in rules.paths]

    def walk(self, path: _Path, value: Any, schema: Any, *, hidden: bool) -> Any:
        hidden = hidden or _says_secret(schema, self._root) or self._is_listed(path)
        if isinstance(value, dict):
            return self._object(path, value, schema, hidden=hidden)
        if isinstance(value, (list, tuple)):
            shape = self._shape(schema, value)
            return [
                self.walk((*path, at), item, item_schema(shape, at), hidden=hidden)
                for at, item in enumerate(value)
            ]
        if hidden and value is not None and not isinstance(value, bool) and value != "":
            return self._mark(path, value)
        return self._text(path, value) if isinstance(value, str) else value

    def _object(self, path: _Path, value: dict[str, Any], schema: Any, *, hidden: bool) -> Any:
        shape = self._shape(schema, value)
        schemas = {key: part for key, part, _ in parts_of(shape, value)}
        shown: dict[str, Any] = {}
        for key, item in value.items():
            name = self._text((*path, key), key)
            inside = hidden or is_secret_field(key, item)
            shown[name] = self.walk((*path, name), item, schemas.get(key, True), hidden=inside)
        return shown

    def _shape(self, schema: Any, value: Any) -> Shape:
        return fitting_shape(schema, self._root, value)

    def _is_listed(self, path: _Path) -> bool:
        keys = tuple(part for part in path if isinstance(part, str))
        return any(_ends_so(keys, wanted) for wanted in self._listed)

    def _text(self, path: _Path, text: str) -> str:
        marks = (match.span() for match in _MARK.finditer(text))
        shown, done = [], 0
        for start, end in merge_spans([*secret_spans(text), *marks]):
            shown += [text[done:start], self._mark(path, text[start:end])]
            done = end
        return "".join([*shown, text[done:]])

    def _mark(self, path: _Path, value: JSON) -> str:
        key = canonical(value)
        number = self._numbers.setdefault(key, len(self.known) + 1)
        self.known[number] = value
        places = self.places.setdefault(number, [])
        place = path_text(path)
        if place not in places:
            places.append(place)
        return mark(number)


def _ends_so(keys: Sequence[str], wanted: Sequence[str]) -> bool:
    if not keys or len(wanted) > len(keys):
        return False
    tail = keys[len(keys) - len(wanted) :]
    return all(want in ("*", key) for want, key in zip(wanted, tail, strict=True))


def _says_secret(schema: Any, root: Any) -> bool:
    """Return whether the schema, or one of its alternatives, marks the value as secret."""
    if not isinstance(schema, dict) or not schema:
        return False
    forms = [schema, shape_of(schema, root, None).rules]
    for key in ("anyOf", "oneOf", "allOf"):
        listed = schema.get(key)
        parts = listed if isinstance(listed, list) else []
        forms += [shape_of(each, root, None).rules for each in parts]
    return any(form.get("writeOnly") is True or form.get("format") == "password" for form in forms)


class _Restorer:
    def __init__(self, known: Mapping[int, JSON]) -> None:
        self._known = known

    def walk(self, path: _Path, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                self._text((*path, key), key): self.walk((*path, key), item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.walk((*path, at), item) for at, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        whole = _MARK.fullmatch(value)
        return self._value(path, whole[1]) if whole else self._text(path, value)

    def _text(self, path: _Path, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            found = self._value(path, match[1])
            return found if isinstance(found, str) else canonical(found)

        return _MARK.sub(value, text)

    def _value(self, path: _Path, digits: str) -> JSON:
        if int(digits) not in self._known:
            raise NotRestorable(path, f"{mark(int(digits))} stands for no value of this review")
        return self._known[int(digits)]


def _check_hidden(path: _Path, edited: Any, again: Any) -> None:
    """Check that each mark of `edited` is also in `again`, the restored value masked once more."""
    if isinstance(edited, dict):
        for key, item in edited.items():
            if not isinstance(again, dict) or key not in again:
                raise _carried((*path, key))
            _check_hidden((*path, key), item, again[key])
    elif isinstance(edited, list):
        for at, item in enumerate(edited):
            _check_hidden((*path, at), item, again[at])
    elif isinstance(edited, str) and _MARK.search(edited):
        shown = _MARK.findall(again) if isinstance(again, str) else []
        if any(number not in shown for number in _MARK.findall(edited)):
            raise _carried(path)


def _carried(path: _Path) -> NotRestorable:
    message = "would show a masked value here; reveal it and write it out if it is meant"
    return NotRestorable(path, message)
