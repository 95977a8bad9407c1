"""Nested fields of the arguments whose schema describes an object or a list.

The controls are named as in every form of a JSON Schema, with the key of the argument
before the JSON pointer: `v:t1.a0/items/0/name`.  `t1.a0.was` is the JSON that the page showed, on
which the posted fields are applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from workflows.common.schemas import FormField, form_fields, value_from_form
from workflows.common.schemas.form_shapes import ABSENT
from workflows.engine.plans.dag import references
from workflows.engine.values.bounded_json import BoundedJSONError, parse

if TYPE_CHECKING:
    from django.http import QueryDict

#: An argument with more controls is edited as JSON: Django accepts 1,000 fields of one form.
_MAX_CONTROLS = 60


@dataclass(frozen=True, slots=True)
class PostedArgument:
    """The value of posted fields (ABSENT for none), error messages, and texts by control name."""

    value: Any
    errors: tuple[str, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)


def argument_fields(
    key: str, name: str, schema: Any, value: Any, typed: Mapping[str, str]
) -> tuple[FormField, ...]:
    """Return the fields of an argument; none if one text shows it as well or better.

    `value` is ABSENT for an argument that is not given or is a reference.  `typed` has the texts
    that could not be read by the names of their controls.
    """
    if value is not ABSENT and any(True for _each in references(value)):
        return ()
    rejected = {
        control[2 + len(key) :]: text
        for control, text in typed.items()
        if _is_control_of(key, control)
    }
    fields = form_fields(schema, value, rejected=rejected)
    if fields and fields[0].path == "":
        fields = (replace(fields[0], label=fields[0].rules.get("title") or name),)
    if not _are_useful(fields) or _controls(fields) > _MAX_CONTROLS:
        return ()
    return tuple(_under(key, each) for each in fields)


def _are_useful(fields: tuple[FormField, ...]) -> bool:
    """Return whether these are the fields of an object or a list that the schema describes."""
    if fields and fields[0].path == "":
        items = fields[0].blank
        return fields[0].kind == "array" and items is not None and items.kind != "json"
    return any(each.kind != "json" for each in fields)


def _controls(fields: tuple[FormField, ...]) -> int:
    return sum(1 + each.has_state + _controls(each.children) for each in fields)


def _under(key: str, shown: FormField) -> FormField:
    """Return a field with the key of its argument in the names of its controls."""
    return replace(
        shown,
        path=f"{key}{shown.path}",
        name=f"{shown.name[:2]}{key}{shown.name[2:]}",
        children=tuple(_under(key, each) for each in shown.children),
        blank=shown.blank and _under(key, shown.blank),
    )


def _is_control_of(key: str, control: str) -> bool:
    """Return whether this is the name of a control of the fields of an argument."""
    return control[1:2] == ":" and (control[2:] == key or control[2:].startswith(f"{key}/"))


def posted_argument(key: str, name: str, schema: Any, posted: QueryDict) -> PostedArgument:
    """Return the value that the posted fields of an argument give."""
    before = _shown(posted.get(f"{key}.was", ""))
    data = {
        f"{control[:2]}{control[2 + len(key) :]}": posted.get(control, "")
        for control in posted
        if _is_control_of(key, control)
    }
    found = value_from_form(schema, before, data)
    is_absent = before is ABSENT and found.value is None
    return PostedArgument(
        ABSENT if is_absent else found.value,
        tuple(_message(name, each.path, each.message) for each in found.errors),
        {f"v:{key}{pointer}": text for pointer, text in found.rejected.items()},
    )


def _message(name: str, path: str, message: str) -> str:
    return f"{name}{'' if path[:1] in ('', '[') else '.'}{path}: {message}"


def _shown(text: str) -> Any:
    """Return the value that the page showed; ABSENT for none and for a broken text."""
    try:
        return parse(text) if text else ABSENT
    except BoundedJSONError:
        return ABSENT
