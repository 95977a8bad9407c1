"""Form fields of a plan, and the plan parsed from posted fields.
`t2.needs`, `t2.a1.source`, `t2.a1.select`, `t2.a1.text`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from reviews.components.number_formatting import limits_text, number_text
from workflows.common.schemas import FieldError, FormField
from workflows.common.schemas.form_shapes import ABSENT
from workflows.engine.plans.dag import is_reference
from workflows.engine.values.bounded_json import BoundedJSONError, parse

from .argument_forms import posted_argument
from .rule_rows import BadRow, posted_expression

if TYPE_CHECKING:
    from django.http import QueryDict

_LONG = 60
#: A longer enumeration is a text field.
_MAX_OPTIONS = 50


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a task: a value, or a reference (`source`, `select`)."""

    key: str
    name: str
    description: str
    required: bool
    types: tuple[str, ...]
    source: str
    select: str
    text: str
    #: The placeholder of an empty field: the tool's default.
    without: str
    #: The only texts that the schema allows; empty if it allows any.
    options: tuple[str, ...] = ()
    #: The `inputmode` of a number, and its limits in words.
    input_mode: str = ""
    limits: str = ""
    #: The schema of the value, and the value; ABSENT if none is given or a reference is.
    schema: Any = None
    value: Any = ABSENT
    #: The nested fields of an object or a list, and the JSON that they show.
    fields: tuple[FormField, ...] = ()
    was: str = ""

    @property
    def is_long(self) -> bool:
        return (
            "\n" in self.text or len(self.text) > _LONG or bool({"object", "array"} & {*self.types})
        )


def values_name(task: Mapping[str, Any]) -> str:
    """Return the key of a task's arguments."""
    return "arguments" if task.get("type") in ("tool", "external_action") else "inputs"


def values_of(task: Mapping[str, Any]) -> dict[str, Any]:
    found = task.get(values_name(task))
    return dict(found) if isinstance(found, dict) else {}


def arguments_of(task: Mapping[str, Any], schema: Any, key: str) -> list[Argument]:
    """Return the arguments of the schema, then arguments that only the task has."""
    schema = schema if isinstance(schema, dict) else {}
    parts = schema.get("properties")
    known = parts if isinstance(parts, dict) else {}
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    values = values_of(task)
    names = [*known, *(name for name in values if name not in known)]
    return [
        _argument(
            f"{key}.a{at}", name, known.get(name), definitions, values, required=name in wanted
        )
        for at, name in enumerate(names)
    ]


def _argument(
    key: str,
    name: str,
    part: Any,
    definitions: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    required: bool,
) -> Argument:
    part = part if isinstance(part, dict) else {}
    value: Any = values.get(name)
    refers = is_reference(value)
    return Argument(
        key=key,
        name=name,
        description=str(part.get("description", ""))[:500],
        required=required,
        types=_types(part),
        source=value["$from"] if refers else "",
        select=str(value.get("select", "")) if refers else "",
        text="" if refers or name not in values else _text(value),
        without=_("%(value)s if left empty") % {"value": _text(part["default"])[:60]}
        if part.get("default") not in (None, "")
        else "",
        options=_options(part),
        input_mode=_input_mode(_types(part)),
        limits=limits_text(part),
        schema={**definitions, **part},
        value=ABSENT if refers or name not in values else value,
    )


def _input_mode(types: tuple[str, ...]) -> str:
    if not types or not {"integer", "number"}.issuperset(types):
        return ""
    return "numeric" if types == ("integer",) else "decimal"


def _options(part: Mapping[str, Any]) -> tuple[str, ...]:
    allowed = part.get("enum")
    if isinstance(allowed, list) and len(allowed) <= _MAX_OPTIONS:
        return tuple(_text(each) for each in allowed)
    return ("true", "false") if _types(part) == ("boolean",) else ()


def _types(part: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = part.get("type")
    if isinstance(kinds, str):
        return (kinds,)
    if isinstance(kinds, list):
        return tuple(str(kind) for kind in kinds if kind != "null")
    return tuple(
        kind
        for name in ("anyOf", "oneOf")
        for each in part.get(name) or ()
        if isinstance(each, dict)
        for kind in _types(each)
        if kind != "null"
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- posted fields --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PostedPlan:
    """A plan with the posted fields, their errors, and texts of nested fields that are invalid."""

    plan: dict[str, Any]
    errors: list[FieldError]
    rejected: dict[str, str]


def posted_plan(
    plan: Mapping[str, Any], schemas: Mapping[int, Any], posted: QueryDict
) -> PostedPlan:
    """Return the plan with the posted fields applied; tasks without fields do not change.

    `schemas` are the input schemas of tasks by index.  Invalid values are reported by the key of
    their field and do not change the plan.
    """
    found = PostedPlan({**plan, "tasks": []}, [], {})
    for at, task in enumerate(plan.get("tasks", ())):
        key = f"t{at}"
        if f"{key}.id" in posted:
            task = _posted_task(task, schemas.get(at), key, posted, found)
        found.plan["tasks"].append(task)
    return found


def _posted_task(
    task: dict[str, Any], schema: Any, key: str, posted: QueryDict, found: PostedPlan
) -> dict[str, Any]:
    """Return the task with its posted fields; add what is invalid to `found`."""
    values, errors = values_of(task), found.errors
    for each in arguments_of(task, schema, key):
        if _is_from_fields(each.key, posted):
            argument = posted_argument(each.key, each.name, each.schema, posted)
            _put(values, each.name, argument.value)
            errors += [FieldError(f"{each.key}/", message) for message in argument.errors]
            found.rejected.update(argument.rejected)
            continue
        try:
            _apply_argument(each, values, posted, keeps_empty=task.get("type") == "code_execution")
        except ValueError as error:
            errors.append(FieldError(f"{each.key}.text", f"{each.name}: {error}"))
    changed = {**task, values_name(task): values}
    _set(changed, "depends_on", posted.getlist(f"{key}.needs"))
    phase = posted.get(f"{key}.review", "")
    if f"{key}.review" in posted and phase != review_phase(task):
        old = task.get("human_review")
        kept = dict(old) if isinstance(old, dict) else {}
        kept.pop("enabled", None)
        _set(changed, "human_review", {**kept, "trigger_phase": phase} if phase else None)
    errors += _apply_settings(changed, key, posted)
    return changed


def _apply_settings(task: dict[str, Any], key: str, posted: QueryDict) -> Iterator[FieldError]:
    """Apply title, code, condition, timeout and retry of a task; yield invalid numbers."""
    try:
        _set(task, "when", posted_expression(posted, f"{key}.when", task.get("when") or ""))
    except BadRow as error:
        yield FieldError(f"{key}.when", str(error))
    for name in ("title", "language", "code", "permission_set", "runner"):
        if f"{key}.{name}" in posted:
            text = posted.get(f"{key}.{name}", "").replace("\r\n", "\n").replace("\0", "")
            _set(task, name, text if name == "code" else text.strip())
    retry = dict(task["retry"]) if isinstance(task.get("retry"), dict) else {}
    for holder, name, field in (
        (task, "timeout_seconds", "timeout"),
        (retry, "max_attempts", "attempts"),
        (retry, "backoff_seconds", "backoff"),
    ):
        number_field = posted.get(f"{key}.{field}")
        if number_field is None or number_field.strip() == number_text(holder.get(name)):
            continue
        try:
            number = _number(number_field)
        except ValueError:
            yield FieldError(f"{key}.{field}", _("enter a number"))
            continue
        holder.pop(name, None)
        if number is not None:
            holder[name] = number
    if retry != (task.get("retry") or {}):
        _set(task, "retry", retry)


def _number(text: str) -> int | float | None:
    text = text.strip()
    if not text:
        return None
    value = parse(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(text)
    return value


def review_phase(task: Mapping[str, Any]) -> str:
    """Return the review phase of the task: BEFORE_EXECUTION, AFTER_EXECUTION or ""."""
    review = task.get("human_review")
    if not isinstance(review, dict) or not review.get("enabled", True):
        return ""
    return str(review.get("trigger_phase", "BEFORE_EXECUTION"))


def _is_from_fields(key: str, posted: QueryDict) -> bool:
    """Return whether the nested fields give an argument: no reference, and no changed JSON."""
    was, text = posted.get(f"{key}.was"), posted.get(f"{key}.text", "")
    if was is None or posted.get(f"{key}.source"):
        return False
    return text.replace("\r\n", "\n") == was.replace("\r\n", "\n")


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    if value is ABSENT:
        values.pop(name, None)
    else:
        values[name] = value


def _set(task: dict[str, Any], name: str, value: Any) -> None:
    if value:
        task[name] = value
    else:
        task.pop(name, None)


def _apply_argument(
    argument: Argument, values: dict[str, Any], posted: QueryDict, *, keeps_empty: bool
) -> None:
    """Apply the fields of one argument to the values; raises ValueError for invalid text.

    An empty field means no argument, unless `keeps_empty`: inputs of code have no schema that
    would keep their field, and a button removes them.
    """
    if f"{argument.key}.text" not in posted:
        return
    source = posted.get(f"{argument.key}.source", "")
    if source:
        select = posted.get(f"{argument.key}.select", "").strip()
        values[argument.name] = {"$from": source, **({"select": select} if select else {})}
        return
    text = posted.get(f"{argument.key}.text", "").replace("\r\n", "\n")
    if text == argument.text and not argument.source:
        return
    if text == "" and not keeps_empty:
        values.pop(argument.name, None)
        return
    values[argument.name] = read_value(text, argument.types)


def read_value(text: str, types: Iterable[str]) -> Any:
    """Parse a text as one of these JSON types, as a string without types; raises ValueError."""
    wanted = set(types)
    if wanted == {"string"}:
        return text
    try:
        return parse(text)
    except BoundedJSONError as error:
        if "string" in wanted or not wanted:
            return text
        raise ValueError(f"must be JSON ({' or '.join(sorted(wanted))}): {error}") from None


def asked_inputs(plan: Mapping[str, Any], schemas: Mapping[int, Any]) -> dict[str, dict[str, Any]]:
    """Return the run inputs that a plan reads: name → task, types and description."""
    found: dict[str, dict[str, Any]] = {}
    for at, task in enumerate(plan.get("tasks", ())):
        for each in arguments_of(task, schemas.get(at), f"t{at}"):
            name = each.select.strip('"')
            if each.source == "inputs" and name.replace("_", "a").isalnum() and name not in found:
                found[name] = {
                    "task": task.get("id", ""),
                    "types": each.types,
                    "description": each.description,
                }
    return found
