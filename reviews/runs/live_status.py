"""Live status of a run: running tasks with start times, and queued commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from reviews.components.labels import command_text
from workflows.executions.selectors import TaskView
from workflows.models import Execution, ExecutionEvent, QueuedCommand

#: Events after which ready tasks start.
_BEGINNINGS = frozenset({"execution_started", "layer_started", "hold_decided"})
#: Events that `with_live_status` reads.
STATUS_KINDS = _BEGINNINGS | {"task_errored"}
_MAX_QUEUED = 50
_MAX_WORDS = 1500


def with_live_status(
    tasks: Sequence[TaskView], events: Iterable[ExecutionEvent], now: datetime
) -> tuple[list[TaskView], dict[str, datetime]]:
    """Return the tasks and the start time of each running one, derived from the newest events.

    A task that waits for its next attempt counts as pending.
    """
    running = {task.id for task in tasks if task.status == "RUNNING"}
    since = _since(running, events) if running else {}
    for task in tasks:
        if task.remote is not None:
            since[task.id] = datetime.fromtimestamp(task.remote.since, UTC)
    later = {name for name, moment in since.items() if moment > now}
    seen = [replace(task, status="PENDING") if task.id in later else task for task in tasks]
    return seen, {name: moment for name, moment in since.items() if name not in later}


def _since(running: set[str], events: Iterable[ExecutionEvent]) -> dict[str, datetime]:
    events = list(events)
    began = [each.created_at for each in events if each.kind in _BEGINNINGS]
    if not began:
        return {}
    since = dict.fromkeys(running, began[-1])
    for event in events:
        name, again = event.payload.get("task_id"), event.payload.get("retry_at")
        if event.kind == "task_errored" and name in since and again:
            since[name] = max(since[name], datetime.fromtimestamp(again, UTC))
    return since


def queued(execution: Execution) -> tuple[dict[str, Any], ...]:
    """Return the queued commands of a run, oldest first: sentence, effect, actor and time."""
    rows = QueuedCommand.objects.filter(execution=execution, taken_at__isnull=True).order_by("id")
    return tuple(_queued(row) for row in rows[:_MAX_QUEUED])


def _queued(row: QueuedCommand) -> dict[str, Any]:
    kind = row.command.get("kind", "")
    effect = _("will be applied after this layer")
    if kind == "abort":
        effect = _("running tasks are being stopped")
    return {
        "message": kind == "add_message",
        "sentence": _sentence(kind, row.command),
        "effect": effect,
        "actor": row.actor,
        "at": row.created_at,
    }


def _sentence(kind: str, command: Mapping[str, Any]) -> str:
    if kind == "add_message":
        return str(command.get("content", ""))[:_MAX_WORDS]
    reason = command.get("reason") or ""
    name = command_text(kind)
    return f"{name}: {str(reason)[:_MAX_WORDS]}" if reason else name
