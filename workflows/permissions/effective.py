"""Effective permissions: a task's own permission set and the grants in force for it.

They are computed when a batch of tasks starts, by the thread that runs the batch, so a revoked
grant has no effect from then on.  Task threads do not query grants.

Names of permission sets are validated when a plan is accepted.  A task with an unknown name (in a
plan that an earlier release stored) fails and names it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, OuterRef, Q
from django.db.models.functions import Now

from workflows.engine.plans.dag import CapabilityTask, CodeTask, ExternalActionTask, ToolTask
from workflows.engine.policy.permissions import PermissionSet, admits, cap, named
from workflows.engine.protocol.ports import TaskCall, TaskFailed
from workflows.engine.values.reasons import Reason
from workflows.journal.permission_rows import subject_of
from workflows.models import Execution, ExecutionEvent, Grant
from workflows.tools import registry

from . import capabilities, deny_list
from .capabilities import StoredCode
from .grants import IN_FORCE

logger = logging.getLogger(__name__)

NOTHING = PermissionSet()
#: Seconds between two checks of the grants of running tasks.
_CHECK_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class EffectivePermissions:
    """The permission set of a task, the ids of the grants in it, and a capability's code.

    `code` is None too if the capability was deleted or disabled.  A task with a `refusal` may not
    run.
    """

    permissions: PermissionSet = NOTHING
    grants: tuple[int, ...] = ()
    code: StoredCode | None = None
    refusal: Reason | None = None

    def check(self) -> None:
        """Raise TaskFailed if the task may not run."""
        if self.refusal is not None:
            raise TaskFailed(self.refusal, retryable=False)


def effective_permissions(
    calls: Sequence[TaskCall], *, counted: bool = True
) -> dict[str, EffectivePermissions]:
    """Return the effective permissions of each call by task id, with at most three queries.

    Counts a use of each grant unless `counted` is False.
    """
    codes = capabilities.load(
        call.task.capability for call in calls if isinstance(call.task, CapabilityTask)
    )
    deniable = {call.task.id for call in calls if _can_be_denied(call)}
    grants = _grants_for([call for call in calls if call.task.id in deniable]) if deniable else []
    effective = {
        call.task.id: _evaluate(call, codes, grants if call.task.id in deniable else ())
        for call in calls
    }
    used = sorted({pk for each in effective.values() for pk in each.grants})
    if used and counted:
        Grant.objects.filter(pk__in=used).update(uses=F("uses") + 1, last_used_at=Now())
    return effective


@dataclass(frozen=True, slots=True)
class _StoredGrant:
    """A grant, and the tasks that were added or changed after its permission was requested."""

    row: Grant
    revised: frozenset[str]


class GrantWatch:
    """Checks periodically whether the grants of running tasks are still in force."""

    def __init__(self, effective: Iterable[EffectivePermissions]) -> None:
        self._grants = frozenset(pk for each in effective for pk in each.grants)
        self._checked_at = time.monotonic()

    def lapsed(self) -> frozenset[int]:
        """Return ids of grants that are no longer in force; empty between two checks."""
        if not self._grants or time.monotonic() - self._checked_at < _CHECK_SECONDS:
            return frozenset()
        self._checked_at = time.monotonic()
        in_force = Grant.objects.filter(IN_FORCE, pk__in=self._grants)
        return self._grants.difference(in_force.values_list("pk", flat=True))


def _can_be_denied(call: TaskCall) -> bool:
    """Whether the task can be denied a permission: all code, and tools that check permissions."""
    if not isinstance(call.task, ToolTask):
        return not isinstance(call.task, ExternalActionTask)
    if call.task.runner is not None:
        # A grant may be revoked while the task runs, and a remote task cannot be stopped then.
        return False
    tool = registry.get(call.task.tool)
    return tool is not None and tool.asks


def _grants_for(calls: Sequence[TaskCall]) -> list[_StoredGrant]:
    """Return the grants in force that may apply to one of `calls` of one execution."""
    execution_id = int(calls[0].execution_id)
    names = [call.task.id for call in calls]
    here = Q(execution_id=execution_id) & (Q(scope="execution") | Q(task_id__in=names))
    workflow = Execution.objects.filter(pk=execution_id).values("workflow")
    until = Q(scope="until", workflow__in=workflow, task_id__in=names)
    used = [call.task.capability for call in calls if isinstance(call.task, CapabilityTask)]
    raised = Q(scope="capability", capability__name__in=used)
    revisions = ExecutionEvent.objects.filter(
        kind="plan_revised", execution=OuterRef("execution"), seq__gt=OuterRef("hold__opened_seq")
    )
    rows = Grant.objects.filter(IN_FORCE).filter(here | until | raised).order_by("pk")
    return [
        _StoredGrant(row, _revised_tasks(row.plans))
        for row in rows.annotate(plans=ArraySubquery(revisions.values("payload")))
    ]


def _revised_tasks(revisions: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(name for each in revisions for name in (*each["added"], *each["changed"]))


def _evaluate(
    call: TaskCall, codes: Mapping[str, StoredCode], grants: Sequence[_StoredGrant]
) -> EffectivePermissions:
    code = codes.get(call.task.capability) if isinstance(call.task, CapabilityTask) else None
    try:
        own, ceiling = _own_set(call, code), _named(call.ceiling, "the ceiling of this run")
    except ValueError as error:
        return EffectivePermissions(
            code=code, refusal=Reason("permission_set_unknown", {"problem": str(error)})
        )
    above = _above_ceiling(call, ceiling)
    if above is not None:
        return EffectivePermissions(code=code, refusal=above)
    own = deny_list.without_denied(own)
    permissions, counted = own, []
    for grant in grants:
        allowed = deny_list.without_denied(_granted(grant.row))
        if not _reaches(grant, call) or own.covers(allowed) or not admits(ceiling, allowed):
            continue
        permissions = permissions.union(allowed)
        counted.append(grant.row.pk)
    return EffectivePermissions(permissions, tuple(counted), code)


def _above_ceiling(call: TaskCall, ceiling: PermissionSet) -> Reason | None:
    """Return why the tool of a task cannot run below this ceiling; None if it can.

    A tool that checks its permissions runs with the capped set and requests more.  Any other tool,
    such as one of an MCP server, runs with its permissions in the catalogue or not at all.
    """
    task = call.task
    if not isinstance(task, ToolTask) or registry.confines(task.tool):
        return None
    name = _set_name(task)
    if ceiling.covers(named(name)):
        return None
    params: dict[str, str | int | Reason] = {
        "tool": task.tool,
        "permissions": name,
        "ceiling": call.ceiling,
    }
    return Reason("tool_above_ceiling", params)


def _reaches(stored: _StoredGrant, call: TaskCall) -> bool:
    """Whether the task of `call` lies within the grant's scope."""
    grant = stored.row
    task, is_here = call.task, grant.execution_id == int(call.execution_id)
    match grant.scope:
        case Grant.Scope.EXECUTION:
            # The person who granted it has seen the other tasks of the plan.
            return is_here and task.id not in stored.revised
        case Grant.Scope.TASK:
            return is_here and grant.task_id == task.id
        case Grant.Scope.CAPABILITY:
            # The grant is for uses of the capability itself, in any execution.
            is_used = isinstance(task, CapabilityTask)
            return is_used and grant.subject == subject_of(task, grant.scope)
        case Grant.Scope.UNTIL:
            # In the execution that requested it, the task cannot have changed since.
            same = is_here or grant.subject == subject_of(task, grant.scope)
            return grant.task_id == task.id and same
    return False


def _own_set(call: TaskCall, code: StoredCode | None) -> PermissionSet:
    """Return the set that the task has without grants, below the ceiling of its execution."""
    ceiling = _named(call.ceiling, "the ceiling of this run")
    if isinstance(call.task, CapabilityTask):
        stored = code.permissions if code else NOTHING
        limit = call.task.permission_set
        own = stored if limit is None else cap(stored, _named(limit, "the task's permission_set"))
        return cap(own, ceiling)
    name = _set_name(call.task)
    _named(name, "the task's permission_set")
    return _capped(name, call.ceiling)


def _named(name: str, what: str) -> PermissionSet:
    """Return the named set; the ValueError for an unknown name says that `what` has it."""
    try:
        return named(name)
    except ValueError as error:
        raise ValueError(f"{what} is not known: {error}") from None


def _granted(grant: Grant) -> PermissionSet:
    """Return the permission set of a grant; an empty one if the stored value is invalid."""
    try:
        return PermissionSet.model_validate(grant.permissions)
    except ValueError:
        logger.exception("grant %s has an invalid permission set and is ignored", grant.pk)
        return NOTHING


def _set_name(task: ToolTask | CodeTask | ExternalActionTask) -> str:
    """Return the name of a task's permission set, which defaults to that of its tool.

    An accepted plan names a set for each tool task.  For others, a tool of an MCP server gets the
    widest set that such tools have.
    """
    if task.permission_set is not None:
        return task.permission_set
    if not isinstance(task, ToolTask):
        return "minimal"
    tool = registry.get(task.tool)
    return tool.permission_set if tool else "mcp-standard"


# Keyed by both names; bounded by 256; never stale, because named sets are constants.
@lru_cache(maxsize=256)
def _capped(own: str, ceiling: str) -> PermissionSet:
    return cap(named(own), named(ceiling))
