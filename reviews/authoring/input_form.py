"""The form of a workflow's inputs: posted rows, the preview, and example values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.decisions.payload_forms import payload_fields, posted_value
from reviews.runs.pages import initial_inputs
from workflows.common.schemas import FieldError, schema_errors, schema_problem
from workflows.common.schemas.forms import json_equal
from workflows.engine.plans.validation import Problem
from workflows.models import Workflow

from . import input_rows
from .input_rows import NEW_PARTS, Row, RowError

if TYPE_CHECKING:
    from django.http import QueryDict

#: The types that people choose from, in the order of the menu.
TYPES = (
    ("text", N_("Text")),
    ("long_text", N_("Long text")),
    ("number", N_("Number")),
    ("integer", N_("Whole number")),
    ("boolean", N_("Yes or no")),
    ("choice", N_("Choice")),
    ("list", N_("List of texts")),
    ("date", N_("Date")),
    ("email", N_("E-mail address")),
    ("url", N_("URL")),
    ("object", N_("Object (JSON)")),
    ("any", N_("Any value (JSON)")),
)
#: JSON types of arguments → the type of an input that feeds them.
_TYPE_OF = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "object": "object",
    "array": "list",
}
_TEXT_FIELDS = ("title", "type", "description", "default", "least", "most", "choices", "part")
_FIELDS = ("name", *_TEXT_FIELDS)
#: The first characters of the names of the preview's fields.
_EXAMPLES = ("v:/", "j:/", "s:/", "i:/")


@dataclass(frozen=True, slots=True)
class PostedInputs:
    """The schema after the posted rows: problems by field, typed texts, and new names."""

    schema: dict[str, Any]
    problems: tuple[Problem, ...] = ()
    typed: dict[str, str] = field(default_factory=dict)
    renamed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Examples:
    """The values in the preview, and the texts that could not be read, by JSON pointer."""

    values: dict[str, Any]
    problems: tuple[Problem, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)


def posted_inputs(schema: dict[str, Any], data: QueryDict) -> PostedInputs:
    """Apply the posted rows; a row with an error does not change the schema."""
    if not input_rows.has_rows(schema):
        return PostedInputs(schema)
    changed, problems, renamed = schema, [], []
    typed: dict[str, str] = {}
    for at, row in enumerate(input_rows.rows_of(schema)):
        key = f"in{at}"
        if f"{key}.row" not in data:
            continue
        new = _posted_row(row, key, data)
        try:
            changed = input_rows.changed_row(changed, row.name, new)
        except RowError as error:
            problems.append(Problem(f"{key}.{error.field}", "unreadable", error.message))
            typed |= {f"{key}.{name}": getattr(new, name) for name in _FIELDS}
        else:
            if new.name != row.name:
                renamed.append((row.name, new.name))
    return PostedInputs(changed, tuple(problems), typed, tuple(renamed))


def _posted_row(row: Row, key: str, data: QueryDict) -> Row:
    posted = [name for name in _TEXT_FIELDS if f"{key}.{name}" in data]
    texts: dict[str, Any] = {name: data.get(f"{key}.{name}", "") for name in posted}
    if texts.get("type") == "boolean":
        texts["default"] = data.get(f"{key}.yes_no", row.default)
    name = data.get(f"{key}.name", row.name)
    return replace(
        row,
        **texts,
        name=row.name if name == row.name else name.strip(),
        required=f"{key}.required" in data,
        secret=f"{key}.secret" in data if row.type else row.secret,
    )


def row_problems(schema: dict[str, Any]) -> list[Problem]:
    """Return the problems of rows that contradict themselves, with the keys of their fields."""
    if schema_problem(schema) or not input_rows.has_rows(schema):
        return []
    places = {row.name: at for at, row in enumerate(input_rows.rows_of(schema))}
    return [
        Problem(f"in{places[name]}.{place}", "contradiction", message)
        for name, place, message in input_rows.row_faults(schema)
    ]


def input_path(schema: dict[str, Any], path: str) -> str:
    """Return the path of a problem with the name of its input instead of the key of its row."""
    found = re.fullmatch(r"in([0-9]{1,3})\.[a-z]+", path)
    if found is None or not input_rows.has_rows(schema):
        return path
    rows = input_rows.rows_of(schema)
    at = int(found[1])
    return f"inputs.{rows[at].name}" if at < len(rows) else path


def part_for(types: Iterable[str]) -> dict[str, Any]:
    """Return the schema of a new input that feeds an argument of these JSON types."""
    kinds = {_TYPE_OF.get(each, "any") for each in types} or {"text"}
    return dict(NEW_PARTS[kinds.pop() if len(kinds) == 1 else "any"])


# --- example values -------------------------------------------------------------------------------


def start_values(schema: dict[str, Any], default_inputs: dict[str, Any]) -> dict[str, Any]:
    """Return what the start form shows before anybody fills it."""
    return initial_inputs(Workflow(inputs_schema=schema, default_inputs=default_inputs))


def posted_examples(
    schema: dict[str, Any], default_inputs: dict[str, Any], data: QueryDict
) -> Examples | None:
    """Return the values in the preview; None without a preview."""
    if not any(name.startswith(_EXAMPLES) for name in data):
        return None
    found = posted_value(schema, start_values(schema, default_inputs), data)
    value = found.value if isinstance(found.value, dict) else {}
    return Examples(value, tuple(map(_example_problem, found.errors)), found.rejected)


def example_problems(schema: dict[str, Any], values: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return where values do not fit the schema."""
    return tuple(_example_problem(each) for each in schema_errors(schema or None, values))


def _example_problem(error: FieldError) -> Problem:
    path = f"inputs.{error.path}" if error.path else "inputs"
    return Problem(path, "schema_mismatch", error.message)


def fitting(schema: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without those that a changed schema refuses."""
    parts = schema.get("properties")
    parts = parts if isinstance(parts, dict) else {}
    return {
        name: value
        for name, value in values.items()
        if name not in parts or not schema_errors({**schema, **_only(name, parts)}, {name: value})
    }


def _only(name: str, parts: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {name: parts[name]}, "required": []}


def kept_defaults(schema: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values to keep as default inputs: those that the schema does not give."""
    by_schema = start_values(schema, {})
    return {
        name: value
        for name, value in values.items()
        if name not in by_schema or not json_equal(by_schema[name], value)
    }


# --- contexts -------------------------------------------------------------------------------------


def inputs_context(
    schema: dict[str, Any],
    examples: Examples,
    default_inputs: dict[str, Any],
    problems: Iterable[Problem],
    typed: Mapping[str, str],
    readers: Callable[[str], list[str]],
) -> dict[str, Any]:
    """Return `inputs` of the template: the rows with their errors, and the preview."""
    problems = list(problems)
    has_rows = input_rows.has_rows(schema)
    rows = input_rows.rows_of(schema) if has_rows else []
    return {
        "has_rows": has_rows,
        "rows": tuple(
            _row(at, row, len(rows), problems, typed, readers(row.name))
            for at, row in enumerate(rows)
        ),
        "json_is_open": not has_rows
        or bool({"inputs_schema_text", "default_inputs_text"} & typed.keys()),
        "may_add": has_rows and len(rows) < input_rows.MAX_ROWS,
        "preview": {
            "key": "preview",
            "fields": _preview(schema, examples, default_inputs, problems),
        },
    }


def _row(
    at: int,
    row: Row,
    count: int,
    problems: list[Problem],
    typed: Mapping[str, str],
    readers: list[str],
) -> dict[str, Any]:
    key = f"in{at}"
    shown = {name: typed.get(f"{key}.{name}", getattr(row, name)) for name in _FIELDS}
    return {
        "key": key,
        "at": at,
        "number": at + 1,
        "is_first": at == 0,
        "is_last": at == count - 1,
        "is_json": not row.type,
        **shown,
        "row_name": row.name,
        "required": row.required,
        "secret": row.secret,
        "kept": ", ".join(row.kept),
        "readers": ", ".join(readers),
        "types": tuple(
            {"value": value, "label": _(label), "chosen": value == shown["type"]}
            for value, label in TYPES
        ),
        "slots": {
            "slots": {
                f"{key}.{name}": [each.message for each in problems if each.path == f"{key}.{name}"]
                for name in (_FIELDS[:-1] if row.type else ("part",))
            }
        },
    }


def _preview(
    schema: dict[str, Any],
    examples: Examples,
    default_inputs: dict[str, Any],
    problems: list[Problem],
) -> Any:
    if schema_problem(schema):
        return ()
    found = {each.path: each.message for each in (*examples.problems, *problems)}
    errors = [
        FieldError(path.removeprefix("inputs."), message)
        for path, message in found.items()
        if path.startswith("inputs.")
    ]
    before = start_values(schema, default_inputs)
    return payload_fields(
        schema, examples.values, original=before, rejected=examples.rejected, errors=errors
    )
