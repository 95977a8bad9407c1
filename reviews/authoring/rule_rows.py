"""Conditions as rows of field, operator and value, written as the JMESPath that the engine takes.

An expression that rows cannot show stays a text.  Literals contain no backtick and no raw
non-ASCII character, so no text of a person can end a literal.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from workflows.engine.values.bounded_json import BoundedJSONError, parse
from workflows.engine.values.expressions import ExpressionError, compiled

if TYPE_CHECKING:
    from django.http import QueryDict

#: Operator → its name on pages.
OPERATORS: Final = {
    "is": N_("is"),
    "is_not": N_("is not"),
    "greater": N_("is greater than"),
    "less": N_("is less than"),
    "contains": N_("contains"),
    "starts_with": N_("starts with"),
    "one_of": N_("is one of"),
    "exists": N_("exists"),
}
MAX_ROWS: Final = 20
_COMPARED: Final = {"is": "==", "is_not": "!=", "greater": ">", "less": "<"}
_NUMBERS: Final = ("greater", "less")
_TEXTS: Final = ("contains", "starts_with")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Row:
    """One condition: a path of keys, an operator, and its value (a list for `one_of`)."""

    path: tuple[str, ...]
    operator: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Conditions of which all or any must hold."""

    rows: tuple[Row, ...]
    match: Literal["all", "any"] = "all"


class BadRow(ValueError):
    """A row that cannot be written as an expression; the message says why."""


# --- rows to an expression ------------------------------------------------------------------------


def expression_of(rows: Rows) -> str:
    """Return the JMESPath expression of the rows; "" without rows."""
    joined = " && " if rows.match == "all" else " || "
    parts = [_condition(row) for row in rows.rows]
    return parts[0].text if len(parts) == 1 else joined.join(each.grouped for each in parts)


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    is_compound: bool = False

    @property
    def grouped(self) -> str:
        return f"({self.text})" if self.is_compound else self.text


def _condition(row: Row) -> _Part:
    field = path_text(row.path)
    if row.operator == "exists":
        return _Part(f"{field} != `null`")
    if row.operator in _NUMBERS:
        guard, compared = f"type({field}) == 'number'", _COMPARED[row.operator]
        return _Part(f"{guard} && {field} {compared} {_literal(row.value)}", is_compound=True)
    if row.operator == "starts_with":
        guard, call = f"type({field}) == 'string'", f"starts_with({field}, {_literal(row.value)})"
        return _Part(f"{guard} && {call}", is_compound=True)
    if row.operator == "contains":
        # The function fails for other types, and one failure would undo the other rows.
        guard = f"(type({field}) == 'string' || type({field}) == 'array')"
        return _Part(f"{guard} && contains({field}, {_literal(row.value)})", is_compound=True)
    if row.operator == "one_of":
        each = [f"{field} == {_literal(value)}" for value in row.value]
        return _Part(" || ".join(each), is_compound=len(each) > 1)
    return _Part(f"{field} {_COMPARED[row.operator]} {_literal(row.value)}")


def path_text(path: Sequence[str]) -> str:
    """Return a path as JMESPath and as pages show it: inputs.amount, inputs."total sum"."""
    return ".".join(each if _IDENTIFIER.fullmatch(each) else json.dumps(each) for each in path)


def _literal(value: Any) -> str:
    text = json.dumps(value).replace("`", "\\u0060")
    return f"`{text}`"


# --- an expression to rows ------------------------------------------------------------------------


def rows_of(expression: str) -> Rows | None:
    """Return the rows of an expression; None if rows cannot show exactly it."""
    try:
        parsed = compiled(expression).parsed
    except ExpressionError:
        return None
    for match, kind in (("all", "and_expression"), ("any", "or_expression")):
        found = _split(parsed, kind)
        if found is not None and len(found) <= MAX_ROWS:
            rows = Rows(tuple(found), match)  # type: ignore[arg-type]
            if compiled(expression_of(rows)).parsed == parsed:
                return rows
    return None


def _split(node: Mapping[str, Any], kind: str) -> list[Row] | None:
    """Return the rows that `kind` joins; None if a part of the tree is no row."""
    row = _row(node)
    if row is not None:
        return [row]
    if node["type"] != kind:
        return None
    first, last = node["children"]
    rows, row = _split(first, kind), _row(last)
    return None if rows is None or row is None else [*rows, row]


def _row(node: Mapping[str, Any]) -> Row | None:
    """Return the row that an expression tree looks like; `rows_of` checks that it is equal."""
    kind, children = node["type"], node["children"]
    if kind == "comparator":
        return _compared(node)
    if kind == "or_expression":
        return _one_of(node)
    if kind != "and_expression":
        return None
    body = children[1]
    if body["type"] == "comparator" and body["value"] in ("gt", "lt"):
        return _with_literal(body, "greater" if body["value"] == "gt" else "less")
    if body["type"] == "function_expression" and body["value"] in _TEXTS:
        return _with_literal(body, body["value"])
    return None


def _compared(node: Mapping[str, Any]) -> Row | None:
    operator = {"eq": "is", "ne": "is_not"}.get(node["value"])
    row = _with_literal(node, operator) if operator else None
    if row is not None and row.operator == "is_not" and row.value is None:
        return Row(row.path, "exists")
    return row


def _one_of(node: Mapping[str, Any]) -> Row | None:
    found = _split_values(node)
    if not found or any(each.path != found[0].path for each in found):
        return None
    return Row(found[0].path, "one_of", [each.value for each in found])


def _split_values(node: Mapping[str, Any]) -> list[Row] | None:
    if node["type"] == "comparator" and node["value"] == "eq":
        row = _with_literal(node, "is")
        return None if row is None else [row]
    if node["type"] != "or_expression":
        return None
    first, last = (_split_values(child) for child in node["children"])
    return None if first is None or last is None else [*first, *last]


def _with_literal(node: Mapping[str, Any], operator: str) -> Row | None:
    if len(node["children"]) != 2:
        return None
    field, literal = node["children"]
    path = _path(field)
    if path is None or literal["type"] != "literal":
        return None
    return Row(path, operator, literal["value"])


def _path(node: Mapping[str, Any]) -> tuple[str, ...] | None:
    if node["type"] == "field":
        return (node["value"],)
    if node["type"] != "subexpression":
        return None
    parts = [_path(child) for child in node["children"]]
    if any(part is None for part in parts):
        return None
    return tuple(key for part in parts if part for key in part)


# --- texts of the form ----------------------------------------------------------------------------


def row_from_texts(field: str, operator: str, text: str) -> Row:
    """Return the row that a person typed; raises BadRow."""
    if operator not in OPERATORS:
        raise BadRow(_("choose an operator"))
    return Row(_typed_path(field), operator, _typed_value(operator, text))


def _typed_path(text: str) -> tuple[str, ...]:
    path: list[str] = []
    rest = text.strip()
    while rest:
        quoted = _QUOTED.match(rest)
        if quoted:
            key, rest = _unquoted(quoted.group()), rest[quoted.end() :]
        else:
            key, dot, after = rest.partition(".")
            key, rest = key.strip(), f"{dot}{after}"
        if not key or (rest and not rest.startswith(".")):
            raise BadRow(_("a field is a path such as inputs.amount"))
        path.append(key)
        if rest == ".":
            raise BadRow(_("a field is a path such as inputs.amount"))
        rest = rest[1:]
    if not path:
        raise BadRow(_("choose a field"))
    return tuple(path)


def _unquoted(text: str) -> str:
    try:
        key = parse(text)
    except BoundedJSONError:
        raise BadRow(_("a field is a path such as inputs.amount")) from None
    return str(key)


def _typed_value(operator: str, text: str) -> Any:
    if operator == "exists":
        return None
    if operator in _TEXTS:
        if not text:
            raise BadRow(_("enter a text"))
        return text
    if operator == "one_of":
        return _typed_list(text)
    value = _json_or_text(text)
    if operator in _NUMBERS and not _is_number(value):
        raise BadRow(_("enter a number"))
    return value


def _typed_list(text: str) -> list[Any]:
    try:
        found = parse(f"[{text}]")
    except BoundedJSONError:
        found = [_json_or_text(each.strip()) for each in text.split(",") if each.strip()]
    if not isinstance(found, list) or not found:
        raise BadRow(_("enter values with commas between them"))
    return found


def _json_or_text(text: str) -> Any:
    """Return the number, boolean, null or quoted text that `text` writes; else the text itself."""
    try:
        value = parse(text)
    except BoundedJSONError:
        return text
    return text if isinstance(value, dict | list) else value


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def value_text(row: Row) -> str:
    """Return the value of a row as `row_from_texts` reads it."""
    if row.operator == "exists":
        return ""
    if row.operator == "one_of":
        texts = [_text_of(each) for each in row.value]
        plain = ", ".join(texts)
        return plain if _is_read_as(plain, row) else json.dumps(row.value, ensure_ascii=False)[1:-1]
    return row.value if row.operator in _TEXTS else _text_of(row.value)


def _is_read_as(text: str, row: Row) -> bool:
    try:
        return _same(row_from_texts("x", row.operator, text).value, row.value)
    except BadRow:
        return False


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are written equally: 1, 1.0 and true are three values."""
    return json.dumps(one) == json.dumps(other)


def _text_of(value: Any) -> str:
    if isinstance(value, str) and _same(_json_or_text(value), value):
        return value
    return json.dumps(value, ensure_ascii=False)


# --- the form -------------------------------------------------------------------------------------


def posted_expression(data: QueryDict, key: str, present: str) -> str:
    """Return the expression of the posted fields of `key`, or `present` without such fields.

    A form without rows has only the text.  Fields: `key.mode` ("", "all", "any" or "text"), `key`
    (the text), and `key.0.field`, `key.0.operator`, `key.0.value` for each row.  Rows without a
    field and a value are left out.

    Raises:
        BadRow: a row cannot be read.
    """
    mode = data.get(f"{key}.mode", "text" if key in data else None)
    if mode is None:
        return present
    if mode == "text":
        return data.get(key, "").replace("\0", "").strip()
    if mode not in ("all", "any"):
        return ""
    rows = Rows(tuple(_posted_rows(data, key)), mode)  # type: ignore[arg-type]
    # Rows that did not change keep the way the expression is written.
    return present if rows == rows_of(present) else expression_of(rows) if rows.rows else ""


def _posted_rows(data: QueryDict, key: str) -> Iterator[Row]:
    for number in range(MAX_ROWS):
        field = data.get(f"{key}.{number}.field", "")
        text = data.get(f"{key}.{number}.value", "")
        if not field.strip() and not text:
            continue
        try:
            yield row_from_texts(field, data.get(f"{key}.{number}.operator", ""), text)
        except BadRow as error:
            raise BadRow(
                _("condition %(number)s: %(error)s") % {"number": number + 1, "error": error}
            ) from None


def rows_context(
    key: str,
    expression: str,
    typed: Mapping[str, str],
    *,
    fields: Sequence[str] = (),
    modes: Mapping[str, str],
    blank: int = 1,
) -> dict[str, Any]:
    """Return the fields of an expression for `_rule_rows.html`.

    `typed` has the posted fields, if they could not be read.  `fields` are paths to
    offer.  `modes` names the choices "", "all", "any" and "text".
    """
    if f"{key}.mode" in typed:
        mode, rows = typed[f"{key}.mode"], list(_typed_rows(typed, key))
        text = typed.get(key, expression)
    else:
        found = rows_of(expression) if expression else Rows(())
        mode = "text" if found is None else found.match if expression else ""
        rows = (
            [_row_context(key, number, row) for number, row in enumerate(found.rows)]
            if found
            else []
        )
        text = expression
    return {
        "key": key,
        "modes": tuple(
            {"value": value, "label": label, "chosen": value == mode}
            for value, label in modes.items()
        ),
        "rows": (*rows, *(_blank(key, len(rows) + number) for number in range(blank)))[:MAX_ROWS],
        "text": text,
        "fields": tuple(fields),
        "max_rows": MAX_ROWS,
    }


def _row_context(key: str, number: int, row: Row) -> dict[str, Any]:
    return _texts_context(key, number, path_text(row.path), row.operator, value_text(row))


def _blank(key: str, number: int) -> dict[str, Any]:
    return _texts_context(key, number, "", "is", "")


def _texts_context(key: str, number: int, field: str, operator: str, value: str) -> dict[str, Any]:
    return {
        "key": f"{key}.{number}",
        "number": number + 1,
        "field": field,
        "value": value,
        "operators": tuple(
            {"value": name, "label": _(label), "chosen": name == operator}
            for name, label in OPERATORS.items()
        ),
    }


def _typed_rows(data: Mapping[str, str], key: str) -> Iterator[dict[str, Any]]:
    for number in range(MAX_ROWS):
        names = (f"{key}.{number}.{part}" for part in ("field", "operator", "value"))
        field, operator, value = (data.get(name, "") for name in names)
        if field or value:
            yield _texts_context(key, number, field, operator, value)
