"""Wait until a run stops or an approval is answered, and report progress meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.http import Http404
from rest_framework.exceptions import Throttled

from workflows import conf
from workflows.api.executions import parse_id
from workflows.engine.protocol.status import ExecutionStatus
from workflows.models import Hold, PlanRevision, TaskAttempt
from workflows.realtime.subscription import Subscription, channel_group

from .authentication import Caller
from .threads import in_thread

#: Maximum wait of a call: clients and some proxies time out after a minute.
MAX_WAIT_SECONDS = 55
#: The journal is polled without a notification too: Redis may be unavailable, and the caller may
#: lose the right to see the run.
_POLL_SECONDS = 2.0
_ACTIVE = (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)

#: Number of waiting calls in this process by token id. Only the event loop changes it.
_waiting: Counter[int] = Counter()

Report = Callable[[float, float | None, str | None], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The progress of a run; `done` of `total` tasks have ended."""

    is_active: bool
    layer: int
    layers: int
    done: int
    total: int

    @property
    def text(self) -> str:
        if self.layer < 0:
            return "waiting for a worker"
        return (
            f"layer {self.layer + 1} of {self.layers}, {self.done} of {self.total} tasks finished"
        )


async def wait_until_stopped(
    caller: Caller,
    workflow_id: str,
    *,
    seconds: float,
    report: Report,
    ignored_holds: Collection[str] = (),
) -> None:
    """Return when the run stops or ends, or after `seconds`.

    A run that waits only for `ignored_holds` does not count as stopped.
    """
    end = time.monotonic() + seconds
    progress = _Progress(report)
    async with waiting_call(caller), Subscription(channel_group(workflow_id)) as subscription:
        while True:
            snapshot = await in_thread(_snapshot, caller, workflow_id, frozenset(ignored_holds))
            left = end - time.monotonic()
            if not snapshot.is_active or left <= 0:
                return
            await progress.report(
                snapshot, [start["nodeId"] for start in subscription.started_tasks.take(0)]
            )
            await subscription.wait(min(left, _POLL_SECONDS))


async def wait_until_answered(
    caller: Caller,
    body: dict[str, Any],
    *,
    seconds: float,
    read: Callable[[], Awaitable[dict[str, Any]]],
    report: Report,
) -> dict[str, Any]:
    """Return the body of an approval when its status is no longer `pending`, or after `seconds`.

    Progress counts the seconds, so that a client can extend its own timeout.
    """
    start = time.monotonic()
    text = f"waiting for a person to decide at {body['review_url']}"
    group = channel_group(body["execution_id"])
    async with waiting_call(caller), Subscription(group) as subscription:
        while True:
            # Subscribed before reading, so that no decision is missed in between.
            body = await read()
            left = start + seconds - time.monotonic()
            if body["status"] != "pending" or left <= 0:
                return body
            await report(round(seconds - left, 3), seconds, text)
            await subscription.wait(min(left, _POLL_SECONDS))


@asynccontextmanager
async def waiting_call(caller: Caller) -> AsyncIterator[None]:
    """Count a waiting call; raise Throttled if the token has too many in this process."""
    most = conf.connections_each()
    if most and _waiting[caller.token_id] >= most:
        raise Throttled(detail=f"This token has {most} calls waiting already.")
    _waiting[caller.token_id] += 1
    try:
        yield
    finally:
        _waiting[caller.token_id] -= 1
        if not _waiting[caller.token_id]:
            del _waiting[caller.token_id]


def _snapshot(caller: Caller, workflow_id: str, ignored_holds: frozenset[str]) -> _Snapshot:
    rows = caller.context().executions().filter(pk=parse_id(workflow_id))
    row = rows.values("pk", "status", "layer", "revision").first()
    if row is None:
        raise Http404
    open_holds = Hold.objects.filter(execution=row["pk"], status=Hold.Status.OPEN)
    was_paused = bool(ignored_holds) and row["status"] == ExecutionStatus.PAUSED_FOR_REVIEW
    is_active = row["status"] in _ACTIVE or (
        was_paused and not open_holds.exclude(pk__in=ignored_holds).exists()
    )
    layers = _layers(row["pk"], row["revision"]) if is_active else []
    settled = TaskAttempt.objects.filter(execution=row["pk"], settled=True)
    return _Snapshot(
        is_active=is_active,
        layer=row["layer"],
        layers=len(layers),
        done=settled.aggregate(n=Count("task_id", distinct=True))["n"] if is_active else 0,
        total=sum(map(len, layers)),
    )


def _layers(execution_id: int, revision: int) -> list[list[str]]:
    rows = PlanRevision.objects.filter(execution=execution_id, number=revision)
    return list(rows.values_list("layers", flat=True).first() or [])


class _Progress:
    """Report changes with an increasing progress value, as the protocol requires."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last_text = ""
        self._value = -1.0
        self._running: dict[str, None] = {}
        self._position = (-1, 0)

    async def report(self, snapshot: _Snapshot, started: list[str]) -> None:
        text = snapshot.text
        if self._position != (snapshot.layer, snapshot.done):
            self._running, self._position = {}, (snapshot.layer, snapshot.done)
        self._running |= dict.fromkeys(started)
        if self._running:
            text += f"; running: {', '.join([*self._running][:5])}"
        if text == self._last_text:
            return
        self._last_text = text
        self._value = max(float(snapshot.done), self._value + 0.001)
        total = float(snapshot.total) if snapshot.total else None
        await self._report(self._value, total, text)
