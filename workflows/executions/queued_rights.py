"""Whether the sender of a queued command still has the right to send it when it is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflows.engine.plans.validation import PlanInvalid
from workflows.engine.protocol.commands import (
    Abort,
    AddMessage,
    ExtendHold,
    InjectTask,
    ReportResult,
    ResubmitAction,
)
from workflows.engine.protocol.ports import QueuedCommand
from workflows.engine.values.reasons import Reason
from workflows.models import Execution, Hold
from workflows.permissions import tokens

from . import access
from .validation import InvalidRequest, PolicyFloor, check_task

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def lost_right(execution_id: str, queued: QueuedCommand) -> Reason | None:
    """Return why the sender of a queued command may not send it any more; None if they may.

    The account, its token and its roles may have changed while the layer ran.  An abort is not
    checked again: running tasks stopped when it was sent.
    """
    if not queued.actor.is_user or isinstance(queued.command, Abort):
        return None
    person = tokens.user_of(queued.actor)
    if person is None:
        return Reason("access_ended", {"actor": queued.actor.name})
    execution = access.visible_to(person).filter(pk=int(execution_id)).first()
    if execution is None or not _may_send(person, execution, queued.command):
        return Reason("right_lost", {"actor": queued.actor.name})
    return None


def _may_send(person: User, execution: Execution, command: object) -> bool:
    match command:
        case AddMessage(ask_agent=False, role="user"):
            return access.may_start(person)
        case ResubmitAction() | ReportResult():
            return execution.created_by_id == person.pk
        case ExtendHold():
            return _may_decide(person, command.hold)
        case InjectTask():
            return access.may_operate(person, execution) and _may_inject(person, execution, command)
    return access.may_operate(person, execution)


def _may_decide(person: User, hold_id: str) -> bool:
    """Whether a group of the person, or of somebody whom they stand in for, decides the hold."""
    wanted = Hold.objects.values_list("groups", flat=True).get(pk=hold_id)
    groups = access.groups_of(person) | access.delegated_groups_of(person)
    return access.AUDITOR not in groups and bool((groups & set(wanted)) - access.NON_DECIDING_ROLES)


def _may_inject(person: User, execution: Execution, command: InjectTask) -> bool:
    """Whether the roles of the person allow the permissions of the task."""
    reviewers = PolicyFloor.of(execution.workflow).reviewers
    try:
        check_task(command.task, access.roles_of(person), reviewers)
    except (PlanInvalid, InvalidRequest):
        return False
    return True
