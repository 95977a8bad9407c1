"""What each task of a batch may do now: its own set, and the grants in force.

The ledger is asked when a batch begins, by the thread that runs it; so a revoked grant is worth
nothing from then on, whatever the execution's state remembers.  Task threads ask nothing.

Names are checked when a plan is accepted.  One that nobody knows all the same, in a plan that was
stored by other means or by an earlier release, lets its task do nothing: the task fails and says
which name it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import F, Q
from django.db.models.functions import Now

from workflows.engine.dag import CapabilityTask, CodeTask, ToolTask
from workflows.engine.permissions import PermissionSet, admits, cap, named
from workflows.engine.ports import TaskCall, TaskFailed
from workflows.journal.grant_rows import subject_of
from workflows.models import Execution, Grant
from workflows.tools import registry

from . import capabilities, deny_list
from .capabilities import StoredCode
from .grants import IN_FORCE

logger = logging.getLogger(__name__)

NOTHING = PermissionSet()
#: How often running tasks' grants are looked after, in seconds.
_LOOK_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class EffectivePermissions:
    """The set a task runs with, ids of the grants in it, and its code if it is a capability.

    `code` is None as well when the capability is gone or disabled.  With a `refusal` the task may
    not run at all.
    """

    permissions: PermissionSet = NOTHING
    grants: tuple[int, ...] = ()
    code: StoredCode | None = None
    refusal: str = ""

    def check(self) -> None:
        """Raise TaskFailed when the task may not run."""
        if self.refusal:
            raise TaskFailed(self.refusal, retryable=False)


def effective_permissions(
    calls: Sequence[TaskCall], *, counted: bool = True
) -> dict[str, EffectivePermissions]:
    """The permit of each call, by task id; counts the grants as used, if they are to be used.

    Three queries at most, and none for tasks that can never ask for more.
    """
    codes = capabilities.load(
        call.task.capability for call in calls if isinstance(call.task, CapabilityTask)
    )
    asking = {call.task.id for call in calls if _may_ask(call)}
    ledger = _ledger([call for call in calls if call.task.id in asking]) if asking else []
    permits = {
        call.task.id: _permit(call, codes, ledger if call.task.id in asking else ())
        for call in calls
    }
    used = sorted({each for permit in permits.values() for each in permit.grants})
    if used and counted:
        Grant.objects.filter(pk__in=used).update(uses=F("uses") + 1, last_used_at=Now())
    return permits


class GrantWatch:
    """Looks now and then whether the grants that tasks run with are still in force."""

    def __init__(self, permits: Iterable[EffectivePermissions]) -> None:
        self._grants = frozenset(each for permit in permits for each in permit.grants)
        self._looked = time.monotonic()

    def lapsed(self) -> frozenset[int]:
        """Ids of those that are not; empty between two looks.  Asks the database."""
        if not self._grants or time.monotonic() - self._looked < _LOOK_SECONDS:
            return frozenset()
        self._looked = time.monotonic()
        found = Grant.objects.filter(IN_FORCE, pk__in=self._grants).values_list("pk", flat=True)
        return self._grants.difference(found)


def _may_ask(call: TaskCall) -> bool:
    """Whether the task can be denied something: code always, a tool if it looks at its context."""
    if not isinstance(call.task, ToolTask):
        return True
    tool = registry.get(call.task.tool)
    return tool is not None and tool.asks


def _ledger(calls: Sequence[TaskCall]) -> list[Grant]:
    """The grants in force that might be for one of `calls`, which share one execution."""
    execution_id = int(calls[0].execution_id)
    names = [call.task.id for call in calls]
    here = Q(execution_id=execution_id) & (Q(scope="execution") | Q(task_id__in=names))
    workflow = Execution.objects.filter(pk=execution_id).values("workflow")
    until = Q(scope="until", workflow__in=workflow, task_id__in=names)
    used = [call.task.capability for call in calls if isinstance(call.task, CapabilityTask)]
    raised = Q(scope="capability", capability__name__in=used)
    return list(Grant.objects.filter(IN_FORCE).filter(here | until | raised).order_by("pk"))


def _permit(
    call: TaskCall, codes: Mapping[str, StoredCode], ledger: Sequence[Grant]
) -> EffectivePermissions:
    code = codes.get(call.task.capability) if isinstance(call.task, CapabilityTask) else None
    try:
        own, ceiling = _own(call, code), _known(call.ceiling, "the ceiling of this run")
    except ValueError as error:
        return EffectivePermissions(code=code, refusal=f"{error}; the task does not run without it")
    above = _above_ceiling(call, ceiling)
    if above:
        return EffectivePermissions(code=code, refusal=above)
    own = deny_list.without_denied(own)
    together, counted = own, []
    for grant in ledger:
        allowed = deny_list.without_denied(_granted(grant))
        if not reaches(grant, call) or own.covers(allowed) or not admits(ceiling, allowed):
            continue
        together = together.union(allowed)
        counted.append(grant.pk)
    return EffectivePermissions(together, tuple(counted), code)


def _above_ceiling(call: TaskCall, ceiling: PermissionSet) -> str:
    """Why the tool of a task cannot run below this ceiling; "" when it can.

    A tool that looks at its context is held to the capped set and asks for more. Every other one,
    those of MCP servers among them, runs with the permissions it was entered with in the catalogue
    and can only be refused as a whole.
    """
    task = call.task
    if not isinstance(task, ToolTask) or registry.confines(task.tool):
        return ""
    name = _set_name(task)
    if ceiling.covers(named(name)):
        return ""
    return (
        f"{task.tool} runs with the permission set {name}, which is above the ceiling of this run "
        f"({call.ceiling})"
    )


def reaches(grant: Grant, call: TaskCall) -> bool:
    """Whether the task of `call` lies within the grant's scope."""
    task, is_here = call.task, grant.execution_id == int(call.execution_id)
    match grant.scope:
        case Grant.Scope.EXECUTION:
            return is_here
        case Grant.Scope.TASK:
            return is_here and grant.task_id == task.id
        case Grant.Scope.CAPABILITY:
            # What it ran in need not know its name: only a capability's own uses count.
            is_used = isinstance(task, CapabilityTask)
            return is_used and grant.subject == subject_of(task, grant.scope)
        case Grant.Scope.UNTIL:
            # In its own run it is for the task that asked, which cannot change once it has begun.
            same = is_here or grant.subject == subject_of(task, grant.scope)
            return grant.task_id == task.id and same
    return False


def _own(call: TaskCall, code: StoredCode | None) -> PermissionSet:
    """What the task may do by itself, below the ceiling of its execution."""
    ceiling = _known(call.ceiling, "the ceiling of this run")
    if isinstance(call.task, CapabilityTask):
        stored = code.permissions if code else NOTHING
        limit = call.task.permission_set
        own = stored if limit is None else cap(stored, _known(limit, "the task's permission_set"))
        return cap(own, ceiling)
    name = _set_name(call.task)
    _known(name, "the task's permission_set")
    return _capped(name, call.ceiling)


def _known(name: str, what: str) -> PermissionSet:
    """The named set; ValueError says what has a name that nobody knows."""
    try:
        return named(name)
    except ValueError as error:
        raise ValueError(f"{what} is not known: {error}") from None


def _granted(grant: Grant) -> PermissionSet:
    """What a row of the ledger allows; nothing when it does not hold a permission set."""
    try:
        return PermissionSet.model_validate(grant.permissions)
    except ValueError:
        logger.exception("grant %s holds no permission set and counts for nothing", grant.pk)
        return NOTHING


def _set_name(task: ToolTask | CodeTask) -> str:
    """The set a task names; a tool task that names none has its tool's.

    A plan that was accepted names a set for each tool. For a tool of an MCP server without one the
    widest set that such tools get stands in.
    """
    if task.permission_set is not None:
        return task.permission_set
    if not isinstance(task, ToolTask):
        return "minimal"
    tool = registry.get(task.tool)
    return tool.permission_set if tool else "mcp-standard"


@lru_cache(maxsize=256)
def _capped(own: str, ceiling: str) -> PermissionSet:
    return cap(named(own), named(ceiling))
