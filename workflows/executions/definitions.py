"""Keeping workflows: the definitions that executions are started from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from workflows.common.schemas import schema_problem
from workflows.engine.bounded_json import BoundedJSONError, check_value
from workflows.engine.decide import Refused
from workflows.engine.plan_validation import Problem
from workflows.models import Workflow
from workflows.planning.planner import suggest

from .validation import InvalidRequest, check_groups, check_plan, check_policy, group_warnings

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_JSON_FIELDS = ("plan", "policy", "inputs_schema", "default_inputs")


def definition_problems(
    fields: Mapping[str, Any], *, actor: User | None = None
) -> tuple[Problem, ...]:
    """What is wrong with `plan, policy, inputs_schema, default_inputs`, as far as they are given.

    Paths begin with the field: `plan.tasks[2].tool`. Permission sets in the plan have to lie below
    a ceiling of `actor`, who saves it.
    """
    checks: dict[str, Callable[[Any], tuple[Problem, ...]]] = {
        "plan": lambda value: _raised(
            lambda: check_groups(plan=check_plan(value, chosen_by=actor))
        ),
        "policy": lambda value: _raised(lambda: check_groups(policy=check_policy(value))),
        "inputs_schema": _schema_problems,
        "default_inputs": lambda value: (),
    }
    found: list[Problem] = []
    for name in _JSON_FIELDS:
        if name in fields:
            found += _storable(name, fields[name]) or checks[name](fields[name])
    return tuple(found)


def _storable(name: str, value: Any) -> tuple[Problem, ...]:
    if not isinstance(value, dict):
        return (Problem(name, "not_an_object", "must be a JSON object"),)
    try:
        check_value(value)
    except BoundedJSONError as error:
        path = f"{name}.{error.path}" if error.path else name
        return (Problem(path, "malformed", error.message),)
    return ()


def _raised(check: Callable[[], Any]) -> tuple[Problem, ...]:
    try:
        check()
    except InvalidRequest as invalid:
        return invalid.problems
    return ()


def _schema_problems(schema: Mapping[str, Any]) -> tuple[Problem, ...]:
    """An empty schema asks for nothing."""
    if not schema:
        return ()
    problem = schema_problem(schema)
    if problem:
        return (Problem("inputs_schema", "bad_schema", problem),)
    if schema.get("type", "object") != "object":
        message = 'inputs are an object, so the schema\'s type must be "object"'
        return (Problem("inputs_schema.type", "bad_schema", message),)
    return ()


def plan_for_intent(*, intent: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A plan that known tools make of an intent in plain words; raises InvalidRequest."""
    found = suggest(intent, inputs)
    if found.plan is None:
        near = f" The nearest tools: {', '.join(found.nearest[:5])}." if found.nearest else ""
        why = " ".join(found.warnings) or "No known tools fit this well enough."
        message = f"{why}{near}"
        raise InvalidRequest((Problem("intent", "no_plan", message),))
    if found.missing:
        raise InvalidRequest(
            tuple(
                Problem(f"inputs.{name}", "missing_input", f"{tool} needs this input")
                for name, tool in found.missing.items()
            )
        )
    return found.plan


def save_workflow(
    *, actor: User, fields: Mapping[str, Any], workflow: Workflow | None = None
) -> Workflow:
    """A new workflow with `fields`, or the given one with them changed.

    Executions that run keep the plan they started with.  Raises InvalidRequest with paths.
    """
    problems = definition_problems(fields, actor=actor)
    if problems:
        raise InvalidRequest(problems)
    row = workflow if workflow is not None else Workflow(created_by=actor)
    for name, value in fields.items():
        setattr(row, name, value)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        taken = Problem("name", "unique", f"there is a workflow {row.name!r} already")
        raise InvalidRequest((taken,)) from error
    return row


def workflow_warnings(workflow: Workflow) -> list[str]:
    """Name the groups of a workflow without an active member who may decide.

    What cannot be run any more (a tool of its plan is gone) is left to the start, which refuses it.
    """
    try:
        plan, policy = check_plan(workflow.plan), check_policy(workflow.policy)
    except InvalidRequest:
        return []
    return group_warnings(plan=plan, policy=policy)


def delete_workflow(*, workflow: Workflow) -> None:
    """Remove a workflow that was never run and has no rules; raises Refused otherwise."""
    try:
        workflow.delete()
    except ProtectedError as error:
        raise Refused(
            "in_use", "It has been run, or has rules; switch it off instead of removing it."
        ) from error
