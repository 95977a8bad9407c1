"""Form fields of a hold's payload or a workflow's inputs, and the parsing of submitted forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from workflows.common.schemas import FieldError, FormField, FormValue, form_fields, value_from_form
from workflows.engine.values.bounded_json import BoundedJSONError, parse

from .masking import is_marked

_MAX_DEPTH = 4


def payload_fields(
    schema: Any,
    value: Any,
    *,
    original: Any,
    rejected: Mapping[str, str] | None = None,
    errors: Iterable[FieldError] = (),
) -> tuple[FormField, ...]:
    """Return the fields of `value`; `original` is the value before any edit."""
    shape = schema_for(schema, original)
    fields = form_fields(shape, value, original=original, rejected=rejected, errors=errors)
    return tuple(map(_plain_where_masked, fields))


def _plain_where_masked(field: FormField) -> FormField:
    """Use text controls for masked values: browsers reject a mark in a date or URL control.

    The schema's default is no placeholder there, because it may be the masked value.
    """
    children = tuple(map(_plain_where_masked, field.children))
    if is_marked(field.text):
        return replace(field, children=children, input_type="text", placeholder="")
    if is_marked(field.original_text):
        kind = "password" if field.input_type == "password" else "text"
        return replace(field, children=children, input_type=kind, placeholder="")
    return replace(field, children=children)


def posted_value(schema: Any, original: Any, posted: Mapping[str, str]) -> FormValue:
    """Return `original` with the submitted changes; unchanged texts keep their values."""
    return value_from_form(schema_for(schema, original), original, posted)


def posted_json(text: str) -> FormValue:
    """Parse JSON text from a form; reports an error at the root if it is invalid."""
    try:
        return FormValue(parse(text))
    except BoundedJSONError as error:
        return FormValue(None, (FieldError("", str(error)),))


def schema_for(schema: Any, value: Any) -> Any:
    """Return the tool's schema, or one inferred from the value if the tool declares none."""
    return _read_off(value, 0) if schema is None or schema in ({}, True) else schema


def _read_off(value: Any, depth: int) -> dict[str, Any]:
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        parts = {key: _read_off(item, depth + 1) for key, item in value.items()}
        return {"type": "object", "properties": parts, "required": list(parts)}
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return {"type": name}
    return {}
