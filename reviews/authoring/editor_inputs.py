"""The inputs of a draft in the plan editor: posted fields, operations, and what is not given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from reviews.templatetags.desk import dom_id
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.validation import Problem
from workflows.engine.values.bounded_json import BoundedJSONError, parse

from . import input_form, input_rows
from .fields import asked_inputs
from .input_form import Examples
from .input_references import rename_input, tasks_that_read
from .input_rows import RowError
from .planner_draft import schemas_of

if TYPE_CHECKING:
    from django.http import QueryDict

    from .editor_draft import EditorDraft


def with_posted_inputs(draft: EditorDraft, data: QueryDict) -> EditorDraft:
    """Apply the posted rows, JSON texts and example values to the draft.

    Changed JSON of the schema wins over the rows, which the page then shows again.
    """
    schema, defaults = draft.inputs_schema, draft.default_inputs
    examples = input_form.posted_examples(schema, defaults, data)
    draft = _with_json(_with_json(draft, "default_inputs", data), "inputs_schema", data)
    if draft.default_inputs == defaults:
        draft = replace(draft, examples=examples)
    if draft.inputs_schema != schema:
        draft = replace(draft, rows_are_stale=True)
    else:
        draft = _with_rows(draft, data)
    if draft.inputs_schema != schema and draft.examples is not None:
        fitting = input_form.fitting(draft.inputs_schema, draft.examples.values)
        draft = replace(draft, examples=Examples(fitting))
    faults = input_form.row_problems(draft.inputs_schema)
    known = {each.path for each in draft.problems}
    faults = [each for each in faults if each.path not in known]
    return replace(draft, problems=(*draft.problems, *faults))


def _with_json(draft: EditorDraft, name: str, data: QueryDict) -> EditorDraft:
    text = data.get(f"{name}_text")
    if text is None:
        return draft
    try:
        value = parse(text) if text.strip() else {}
    except BoundedJSONError as error:
        return _unread(draft, name, text, _("invalid JSON: %(error)s") % {"error": error})
    if not isinstance(value, dict):
        return _unread(draft, name, text, _("must be a JSON object, as in {}"))
    changes: dict[str, Any] = {name: value}
    return replace(draft, **changes) if value != getattr(draft, name) else draft


def _unread(draft: EditorDraft, name: str, text: str, message: str) -> EditorDraft:
    typed = {**draft.typed, f"{name}_text": text}
    return replace(draft, typed=typed).with_problem(Problem(name, "malformed", message))


def _with_rows(draft: EditorDraft, data: QueryDict) -> EditorDraft:
    found = input_form.posted_inputs(draft.inputs_schema, data)
    draft = replace(
        draft,
        inputs_schema=found.schema,
        problems=(*draft.problems, *found.problems),
        typed={**draft.typed, **found.typed},
        json_is_stale=found.schema != draft.inputs_schema,
    )
    for old, new in found.renamed:
        draft = _renamed(draft, old, new)
    return draft


def _renamed(draft: EditorDraft, old: str, new: str) -> EditorDraft:
    """Return the draft with another name of an input in its tasks and values."""
    plan, warnings = rename_input(draft.plan, old, new)
    return replace(
        draft,
        plan=plan,
        task_is_stale=draft.task_is_stale or plan != draft.plan,
        default_inputs=_with_key(draft.default_inputs, old, new),
        examples=draft.examples
        and replace(draft.examples, values=_with_key(draft.examples.values, old, new)),
        warnings=(*draft.warnings, *warnings),
    )


def _with_key(values: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {(new if name == old else name): value for name, value in values.items()}


# --- operations -----------------------------------------------------------------------------------


def operated_inputs(draft: EditorDraft, about: str) -> EditorDraft:
    """Return the draft after an operation such as `add:repo`, `remove:2`, `later:0` or `keep`."""
    kind, _colon, argument = about.partition(":")
    if kind == "keep":
        return _kept(draft)
    if not input_rows.has_rows(draft.inputs_schema):
        return draft
    if kind == "add":
        return _added(draft, argument)
    names = [row.name for row in input_rows.rows_of(draft.inputs_schema)]
    at = parse_natural_number(argument)
    if at is None or at >= len(names):
        return draft
    if kind == "remove":
        return _removed(draft, names[at], at)
    if kind in ("earlier", "later"):
        by = -1 if kind == "earlier" else 1
        schema = input_rows.moved(draft.inputs_schema, names[at], by)
        to = min(max(at + by, 0), len(names) - 1)
        is_last = to == (0 if by < 0 else len(names) - 1)
        button = ("later" if by < 0 else "earlier") if is_last else kind
        return replace(draft, inputs_schema=schema, focus=dom_id(f"in{to}", button))
    return draft


def _added(draft: EditorDraft, name: str) -> EditorDraft:
    asked = asked_inputs(draft.plan, schemas_of(draft.plan)) if name else {}
    if name and name not in asked:
        return draft
    part = input_form.part_for(asked[name]["types"]) if name else None
    try:
        schema = input_rows.added(draft.inputs_schema, name, part)
    except RowError as error:
        return draft.with_problem(Problem("inputs_schema", "refused", error.message))
    at = len(schema["properties"]) - 1
    return replace(draft, inputs_schema=schema, focus=dom_id(f"in{at}.name"))


def _removed(draft: EditorDraft, name: str, at: int) -> EditorDraft:
    schema = input_rows.removed(draft.inputs_schema, name)
    left = len(schema.get("properties", {}))
    readers = tasks_that_read(draft.plan, name)
    warning = _("%(tasks)s still reads the input %(name)s, which you removed.") % {
        "tasks": ", ".join(readers),
        "name": name,
    }
    examples = draft.examples and Examples(_without(draft.examples.values, name))
    return replace(
        draft,
        inputs_schema=schema,
        default_inputs=_without(draft.default_inputs, name),
        examples=examples,
        warnings=(*draft.warnings, warning) if readers else draft.warnings,
        focus=dom_id(f"in{min(at, left - 1)}", "remove") if left else "inputs-add",
    )


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _kept(draft: EditorDraft) -> EditorDraft:
    """Keep the example values as default inputs, if they fit the schema."""
    if draft.examples is None:
        return draft
    schema = {**draft.inputs_schema, "required": []} if draft.inputs_schema else {}
    values = draft.examples.values
    problems = (*draft.examples.problems, *input_form.example_problems(schema, values))
    draft = replace(draft, focus="inputs-keep")
    if problems:
        return replace(draft, problems=(*draft.problems, *problems))
    return replace(draft, default_inputs=input_form.kept_defaults(draft.inputs_schema, values))


# --- a start from the editor ----------------------------------------------------------------------


def examples_of(draft: EditorDraft) -> Examples:
    """Return what the preview shows; a run that starts from the editor has these inputs."""
    values = input_form.start_values(draft.inputs_schema, draft.default_inputs)
    return draft.examples or Examples(values)


def inputs_not_given(draft: EditorDraft) -> tuple[Problem, ...]:
    """Return the inputs that the plan reads without a value, and values that do not fit."""
    examples = examples_of(draft)
    values = examples.values
    asked = asked_inputs(draft.plan, schemas_of(draft.plan))
    message = _("%(task)s needs this input; give it a value in the form that a starter sees")
    missing = {
        f"inputs.{name}": Problem(f"inputs.{name}", "required", message % {"task": about["task"]})
        for name, about in asked.items()
        if name not in values
    }
    faults = (
        *examples.problems,
        *input_form.example_problems(draft.inputs_schema, values),
    )
    return (*missing.values(), *(each for each in faults if each.path not in missing))
