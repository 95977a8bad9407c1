"""Create, change and delete workflows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.module_loading import import_string

from workflows.common.redaction import DOTS, mask_secrets
from workflows.common.schemas import schema_problem
from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.decide import Refused
from workflows.engine.values.bounded_json import DEFAULT, WITH_PLAN, BoundedJSONError, check_value
from workflows.engine.values.reasons import Reason
from workflows.models import SecurityEvent, Workflow, WorkflowVersion
from workflows.planning.planner import suggest
from workflows.security_events.services import record_security_event

from . import access
from .validation import (
    InvalidRequest,
    PolicyFloor,
    check_groups,
    check_plan,
    check_policy,
    group_warnings,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_JSON_FIELDS = ("plan", "policy", "inputs_schema", "default_inputs")
#: The fields that a version of a workflow keeps.
VERSIONED = ("title", "description", *_JSON_FIELDS)


class WorkflowChanged(InvalidRequest):
    """A workflow was saved after the caller read it.

    `workflow` is its row now, `newest` its newest version, and `fields` what that version changed.
    """

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        versions = list(workflow.versions.order_by("-number")[:2])
        self.newest = versions[0] if versions else None
        self.fields = _changed_fields(versions)
        moment = f"{workflow.updated_at:%Y-%m-%d at %H:%M} UTC"
        message = f"it was saved on {moment}, after you opened it"
        if self.newest:
            author = self.newest.author_name or "the system"
            fields = f", which changed {', '.join(self.fields)}" if self.fields else ""
            message = f"{message}; newest is version {self.newest.number} by {author}{fields}"
        super().__init__((Problem("workflow", "conflict", message),))


def _changed_fields(versions: list[WorkflowVersion]) -> tuple[str, ...]:
    """Return the fields in which the first version differs from the second."""
    if len(versions) < 2:
        return ()
    new, old = (each.definition for each in versions)
    return tuple(name for name in VERSIONED if new.get(name) != old.get(name))


def definition_problems(
    fields: Mapping[str, Any], *, actor: User | None = None
) -> tuple[Problem, ...]:
    """Return the problems of the fields `plan`, `policy`, `inputs_schema` and `default_inputs`.

    Paths start with the field, as in `plan.tasks[2].tool`.  Permission sets in the plan must lie
    below a ceiling of `actor`.
    """
    checks: dict[str, Callable[[Any], tuple[Problem, ...]]] = {
        "plan": lambda value: _problems_of(
            lambda: check_groups(plan=check_plan(value, chosen_by=actor))
        ),
        "policy": lambda value: _problems_of(lambda: check_groups(policy=check_policy(value))),
        "inputs_schema": _schema_problems,
        "default_inputs": lambda value: (),
    }
    problems: list[Problem] = []
    for name in _JSON_FIELDS:
        if name in fields:
            problems += _json_problems(name, fields[name]) or checks[name](fields[name])
    return tuple(problems)


def _json_problems(name: str, value: Any) -> tuple[Problem, ...]:
    if not isinstance(value, dict):
        return (Problem(name, "not_an_object", "must be a JSON object"),)
    try:
        check_value(value, WITH_PLAN if name == "plan" else DEFAULT)
    except BoundedJSONError as error:
        path = f"{name}.{error.path}" if error.path else name
        return (Problem(path, "malformed", error.message),)
    if DOTS in json.dumps(_with_texts(name, value, lambda text: ""), ensure_ascii=False):
        message = "has the mask of a hidden value: enter the value itself"
        return (Problem(name, "masked", message),)
    return ()


def _with_texts(name: str, value: Any, change: Callable[[str], str]) -> Any:
    """Return a valid field with its texts for people changed: titles, descriptions, instructions.

    Titles are cut to the length of their column, because a mask can be longer than the secret.
    """
    if name in ("title", "description"):
        text = change(value)
        return text[:200] if name == "title" else text
    if name == "policy" and isinstance(value.get("replan_review"), dict):
        return {**value, "replan_review": _changed_texts(value["replan_review"], change)}
    if name == "plan" and isinstance(value.get("tasks"), list):
        return {**value, "tasks": [_changed_texts(task, change) for task in value["tasks"]]}
    return value


#: The texts of a task or a review, with their longest length.
_TEXTS = {"title": 200, "instructions": 4000}


def _changed_texts(part: Any, change: Callable[[str], str]) -> Any:
    """Return a task or a review of a definition with its texts changed."""
    if not isinstance(part, dict):
        return part
    changed = {
        key: change(text)[: _TEXTS[key]]
        for key, text in part.items()
        if key in _TEXTS and isinstance(text, str)
    }
    if isinstance(part.get("human_review"), dict):
        changed["human_review"] = _changed_texts(part["human_review"], change)
    return {**part, **changed}


def _problems_of(check: Callable[[], Any]) -> tuple[Problem, ...]:
    try:
        check()
    except InvalidRequest as invalid:
        return invalid.problems
    return ()


def _schema_problems(schema: Mapping[str, Any]) -> tuple[Problem, ...]:
    # An empty schema accepts any inputs.
    if not schema:
        return ()
    problem = schema_problem(schema)
    if problem:
        return (Problem("inputs_schema", "bad_schema", problem),)
    if schema.get("type", "object") != "object":
        message = 'the schema\'s type must be "object", because inputs are an object'
        return (Problem("inputs_schema.type", "bad_schema", message),)
    return ()


def plan_for_intent(
    *, intent: str, inputs: Mapping[str, Any], actor: User | None = None
) -> dict[str, Any]:
    """Draft a plan of known tools for an intent in plain words.

    Raises InvalidRequest without a plan, and where the planner has to ask, for example about a tool
    that people mostly refused in runs which the actor sees.
    """
    token = access.credential_of(actor)
    may_read = token is None or "read" in token.scopes
    suggestion = suggest(intent, inputs, actor if may_read else None)
    if suggestion.plan is None:
        nearest = ", ".join(suggestion.nearest[:5])
        message = " ".join(suggestion.warnings) or "No known tools fit this well enough."
        if nearest:
            message = f"{message} The nearest tools: {nearest}."
        raise InvalidRequest((Problem("intent", "no_plan", message),))
    if suggestion.missing or suggestion.questions:
        raise InvalidRequest(
            (
                *(
                    Problem(f"inputs.{name}", "missing_input", f"{tool} needs this input")
                    for name, tool in suggestion.missing.items()
                ),
                *(Problem(path, "unsure", text) for path, text in suggestion.questions.items()),
            )
        )
    return suggestion.plan


def shown_definition(workflow: Workflow) -> dict[str, Any]:
    """Return `plan` and `default_inputs` as people see them who may not change the workflow."""
    shown: dict[str, Any] = import_string(settings.HOLDPOINT["definition_view"])(workflow)
    return shown


def save_workflow(
    *,
    actor: User,
    fields: Mapping[str, Any],
    workflow: Workflow | None = None,
    seen: str | None = None,
    comment: str = "",
    restored: int | None = None,
) -> Workflow:
    """Create a workflow from `fields`, or change the fields of the given one.

    A changed definition is stored as the next version, with `comment`.  Running executions keep
    the plan they started with.  Raises InvalidRequest with paths, also for a policy that is looser
    than before without the right to loosen, and WorkflowChanged if `seen` is not the `seen_mark` of
    the workflow any more.
    """
    problems = definition_problems(fields, actor=actor)
    if problems:
        raise InvalidRequest(problems)
    row = workflow if workflow is not None else Workflow(created_by=actor)
    try:
        with transaction.atomic():
            if workflow is not None and seen is not None:
                row = lock_unchanged(workflow.pk, seen)
            if "policy" in fields:
                _check_loosening(actor, workflow, fields["policy"])
            for name, value in fields.items():
                setattr(row, name, _with_texts(name, value, mask_secrets))
            row.save()
            record_version(row, author=actor, comment=comment, restored=restored)
    except IntegrityError as error:
        problem = Problem("name", "unique", f"there is a workflow {row.name!r} already")
        raise InvalidRequest((problem,)) from error
    return row


def _check_loosening(actor: User, workflow: Workflow | None, policy: Mapping[str, Any]) -> None:
    """Refuse a policy that the actor could not set at the start of a run.

    A new workflow is compared with the policy of the installation, as an ad-hoc plan is.
    """
    if access.may_loosen(actor):
        return
    stored = workflow and Workflow.objects.select_for_update().get(pk=workflow.pk)
    floor = PolicyFloor.of(stored)
    floor.check(floor.changes(check_policy(policy)), actor)


def seen_mark(workflow: Workflow) -> str:
    """Return the mark of a workflow's state that forms send with a save."""
    return workflow.updated_at.isoformat()


def lock_unchanged(workflow_id: int, seen: str) -> Workflow:
    """Return a workflow, locked until the transaction ends; raise WorkflowChanged.

    The comparison is made under the lock, so that only one of two concurrent saves succeeds.
    """
    row = Workflow.objects.select_for_update().get(pk=workflow_id)
    if seen_mark(row) != seen:
        raise WorkflowChanged(row)
    return row


def record_version(
    workflow: Workflow, *, author: User | None, comment: str = "", restored: int | None = None
) -> WorkflowVersion:
    """Store the definition of a workflow as its next version, unless it did not change.

    The caller has written the row of the workflow in the same transaction, so it holds its lock
    and numbers are given once.
    """
    workflow.refresh_from_db(fields=VERSIONED)
    definition = {name: getattr(workflow, name) for name in VERSIONED}
    newest = WorkflowVersion.objects.filter(workflow=workflow).order_by("-number").first()
    if newest is not None and newest.definition == definition:
        return newest
    version = WorkflowVersion.objects.create(
        workflow=workflow,
        number=newest.number + 1 if newest else 1,
        definition=definition,
        author=author,
        author_name=author.get_username() if author else "",
        comment=mask_secrets(comment)[:1000],
        restored=restored,
    )
    record_security_event(
        kind=SecurityEvent.Kind.WORKFLOW_SAVED,
        actor=author or "",
        subject=f"workflow:{workflow.pk}",
        details={"workflow": workflow.name, "version": version.number},
    )
    return version


def restore_version(*, actor: User, workflow: Workflow, number: int) -> Workflow:
    """Save an older version of a workflow as its newest one.

    Raises WorkflowVersion.DoesNotExist, and InvalidRequest for a definition that is not valid any
    more, for example because a tool is gone.
    """
    version = WorkflowVersion.objects.get(workflow=workflow, number=number)
    return save_workflow(
        actor=actor, fields=version.definition, workflow=workflow, restored=version.number
    )


def workflow_warnings(workflow: Workflow) -> list[str]:
    """Return a warning for each group of a workflow that has no member who may decide.

    Returns none for a workflow that cannot be started any more; its start says why.
    """
    try:
        plan, policy = check_plan(workflow.plan), check_policy(workflow.policy)
    except InvalidRequest:
        return []
    return group_warnings(plan=plan, policy=policy)


def delete_workflow(*, workflow: Workflow) -> None:
    """Delete a workflow that has no executions and no rules; raises Refused otherwise."""
    try:
        workflow.delete()
    except ProtectedError as error:
        raise Refused("in_use", Reason("workflow_in_use")) from error
