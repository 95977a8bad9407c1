"""A JSON value as people read it: Markdown rendered, lists of objects as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from reviews.templatetags.desk import visible

from .markdown import is_markdown, render_markdown

_MAX_DEPTH: Final = 5
_MAX_ROWS: Final = 200
_MAX_COLUMNS: Final = 12
_MAX_CELL_CHARACTERS: Final = 200
#: Keys of text that a file of the same object contains.
_FILE_KEYS: Final = ("path", "file", "filename")


@dataclass(frozen=True, slots=True)
class ValueView:
    """One value for `_value.html`.

    `kind` is text, block (text of several lines or JSON), markdown, table, or parts (an object or
    a list).  `more` counts the rows or parts that are left out.
    """

    kind: str
    text: str = ""
    html: SafeString | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    parts: tuple[tuple[str, ValueView], ...] = ()
    more: int = 0


def value_view(
    value: Any, schema: Any = None, *, key: str = "", file: str = "", depth: int = 0
) -> ValueView:
    """Return the view of a value; `schema` is its JSON Schema, if one is known."""
    if isinstance(value, str):
        return _text_view(value, schema, key, file)
    if isinstance(value, Mapping) and value and depth < _MAX_DEPTH:
        return _object_view(value, schema, depth)
    if isinstance(value, Sequence) and value and depth < _MAX_DEPTH:
        return _table_view(value) or _list_view(value, schema, depth)
    if isinstance(value, (Mapping, Sequence)):
        return ValueView("block" if value else "text", text=_json(value))
    return ValueView("text", text=_json(value))


def _text_view(text: str, schema: Any, key: str, file: str) -> ValueView:
    if is_markdown(text, key=key, schema=schema, file=file):
        return ValueView("markdown", html=render_markdown(visible(text)))
    if not text:
        return ValueView("text", text=_("(empty)"))
    return ValueView("block" if "\n" in text.strip() else "text", text=text)


def _object_view(value: Mapping[str, Any], schema: Any, depth: int) -> ValueView:
    file = next((value[name] for name in _FILE_KEYS if isinstance(value.get(name), str)), "")
    schemas = _properties(schema)
    names = list(value)[:_MAX_ROWS]
    parts = tuple(
        (
            name,
            value_view(value[name], schemas.get(name), key=name, file=file, depth=depth + 1),
        )
        for name in names
    )
    return ValueView("parts", parts=parts, more=len(value) - len(names))


def _list_view(value: Sequence[Any], schema: Any, depth: int) -> ValueView:
    items = schema.get("items") if isinstance(schema, dict) else None
    parts = tuple(
        (str(number), value_view(item, items, depth=depth + 1))
        for number, item in enumerate(value[:_MAX_ROWS], 1)
    )
    return ValueView("parts", parts=parts, more=len(value) - len(parts))


def _table_view(value: Sequence[Any]) -> ValueView | None:
    """Return a table of a list of flat objects, or None for another list."""
    if not all(isinstance(item, Mapping) and item for item in value):
        return None
    columns = tuple(dict.fromkeys(str(name) for item in value for name in item))
    if len(columns) > _MAX_COLUMNS or not all(_is_cell(item[n]) for item in value for n in item):
        return None
    rows = tuple(
        tuple(_cell(item[name]) if name in item else "" for name in columns)
        for item in value[:_MAX_ROWS]
    )
    return ValueView("table", columns=columns, rows=rows, more=len(value) - len(rows))


def _is_cell(value: Any) -> bool:
    return not isinstance(value, (Mapping, Sequence)) or (
        isinstance(value, str) and len(value) <= _MAX_CELL_CHARACTERS
    )


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _properties(schema: Any) -> Mapping[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
