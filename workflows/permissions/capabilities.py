"""Capabilities: code of a successful task, stored under a name and used as a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from django.db import IntegrityError, transaction
from pydantic import ValidationError

from workflows.common.schemas import infer_schema, infer_type, schema_problem
from workflows.engine.plans.dag import CodeTask
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.permissions import NAMED, PermissionSet, admits, cap, named
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import CapabilityCode
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.values.reasons import Reason
from workflows.journal.writer import load_revision
from workflows.models import Capability, Execution, Grant, TaskAttempt

from .grants import IN_FORCE

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = structlog.get_logger(__name__)

_SCHEMAS = ("input_schema", "output_schema")


class CapabilityInvalid(Exception):
    """A request to create a capability is invalid; `problems` names the fields."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(f"{each.path}: {each.message}" for each in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class StoredCode:
    """A capability as an execution needs it; `permissions` is its set without grants."""

    name: str
    language: Any
    code: str
    input_schema: Mapping[str, Any]
    output_schema: Any
    permissions: PermissionSet


@dataclass(frozen=True, slots=True)
class KnownCapability:
    """A capability as plan validation needs it.

    `permission_set` names the smallest named set that covers it, including its grants.
    """

    input_schema: Mapping[str, Any]
    permission_set: str
    asks: bool


# --- reading --------------------------------------------------------------------------------------


def load(names: Iterable[str]) -> dict[str, StoredCode]:
    """Return the enabled capabilities with these names; one query, none for no names."""
    unique = sorted(set(names))
    rows = Capability.objects.filter(name__in=unique, enabled=True) if unique else ()
    return {row.name: _stored(row) for row in rows}


def _stored(row: Capability) -> StoredCode:
    return StoredCode(
        name=row.name,
        language=row.language,
        code=row.code,
        input_schema=row.input_schema,
        output_schema=row.output_schema,
        permissions=declared_set(row),
    )


def known(names: Iterable[str]) -> dict[str, KnownCapability]:
    """Return the enabled capabilities with these names for plan validation."""
    unique = sorted(set(names))
    if not unique:
        return {}
    rows = list(Capability.objects.filter(name__in=unique, enabled=True))
    raised = raised_sets(rows)
    return {
        row.name: KnownCapability(
            input_schema=row.input_schema,
            permission_set=_nearest(declared_set(row), raised[row.pk]),
            asks=row.approval_mode == Capability.ApprovalMode.ASK,
        )
        for row in rows
    }


@dataclass(frozen=True, slots=True)
class Offered:
    """A capability as the catalogue of tools lists it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Any
    permission_set: str


def offered() -> list[Offered]:
    """Return all enabled capabilities, by name."""
    rows = list(Capability.objects.filter(enabled=True))
    raised = raised_sets(rows)
    return [
        Offered(
            name=row.name,
            description=row.description,
            input_schema=row.input_schema,
            output_schema=row.output_schema,
            permission_set=_nearest(declared_set(row), raised[row.pk]),
        )
        for row in rows
    ]


def capability_code(name: str) -> CapabilityCode | None:
    """Return the code to show with an escalation, also of a disabled capability."""
    row = Capability.objects.filter(name=name).only("language", "code").first()
    return CapabilityCode(language=row.language, code=row.code) if row else None


def declared_set(row: Capability) -> PermissionSet:
    """Return the permission set that a capability was created with; an invalid one grants nothing.

    Only a write to the database can make it invalid.
    """
    try:
        return PermissionSet.model_validate(row.permission_set)
    except ValidationError:
        logger.warning("capability with an invalid permission set", capability=row.name)
        return PermissionSet()


def raised_sets(rows: Iterable[Capability]) -> dict[int, PermissionSet]:
    """Return by id the present permissions of each capability: its own set and its grants."""
    sets = {row.pk: declared_set(row) for row in rows}
    granted = Grant.objects.filter(IN_FORCE, scope="capability", capability__in=list(sets))
    for capability_id, permissions in granted.values_list("capability", "permissions"):
        sets[capability_id] = sets[capability_id].union(PermissionSet.model_validate(permissions))
    return sets


def _nearest(declared: PermissionSet, raised: PermissionSet) -> str:
    for name, each in NAMED.items():
        if each.covers(declared) and admits(each, raised):
            return name
    return "trusted"


# --- creating -------------------------------------------------------------------------------------


def make_capability(
    *,
    actor: User,
    execution: Execution,
    task_id: str,
    name: str,
    description: str = "",
    approval_mode: str = "ask",
    input_schema: Any = None,
    output_schema: Any = None,
) -> Capability:
    """Create a capability from a code task that succeeded.

    It gets the task's own permission set, without the grants for the task or its execution.
    Schemas that are not given are inferred from the task's inputs and output.  Raises
    CapabilityInvalid with the invalid fields, or Refused if the task did not succeed.
    """
    task = load_revision(execution.pk, execution.revision).plan.by_id.get(task_id)
    if not isinstance(task, CodeTask):
        raise Refused("not_code", Reason("not_a_code_task", {"task": task_id}))
    done = TaskAttempt.objects.filter(
        execution=execution, task_id=task_id, settled=True, status=TaskStatus.SUCCEEDED.value
    ).first()
    if done is None:
        raise Refused("not_succeeded", Reason("task_not_succeeded", {"task": task_id}))
    inputs = infer_schema(done.inputs or {}) if input_schema is None else input_schema
    output = infer_type(done.output) if output_schema is None else output_schema
    _check(name, approval_mode, {"input_schema": inputs, "output_schema": output})
    try:
        ceiling = named(execution.policy.get("permission_ceiling", "trusted"))
        allowed = cap(named(task.permission_set or "minimal"), ceiling)
    except ValueError as error:
        problem = Reason("task_problem", {"task": task_id, "problem": str(error)})
        raise Refused("unknown_permission_set", problem) from None
    row = Capability(
        name=name,
        description=description,
        language=task.language,
        code=task.code,
        input_schema=inputs,
        output_schema=output,
        permission_set=allowed.model_dump(mode="json"),
        approval_mode=approval_mode,
        created_by=actor,
        from_execution=execution,
        from_task=task_id,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        message = f"there is a capability {name!r} already"
        raise CapabilityInvalid(Problem("name", "unique", message)) from None
    row.refresh_from_db()
    return row


def _check(name: str, approval_mode: str, schemas: Mapping[str, Any]) -> None:
    problems = []
    if not _is_name(name):
        message = "must be 1 to 100 letters, digits, - or _, beginning with a letter"
        problems.append(Problem("name", "invalid", message))
    if approval_mode not in Capability.ApprovalMode.values:
        problems.append(Problem("approval_mode", "invalid", "must be ask or auto"))
    for field in _SCHEMAS:
        problem = schema_problem(schemas[field])
        if problem:
            problems.append(Problem(field, "bad_schema", problem))
    if problems:
        raise CapabilityInvalid(*problems)


def _is_name(name: str) -> bool:
    plain = name.replace("-", "").replace("_", "")
    return 0 < len(name) <= 100 and name.isascii() and name[0].isalpha() and plain.isalnum()
