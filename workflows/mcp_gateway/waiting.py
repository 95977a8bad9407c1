"""Waiting for a run to come to its next stop, and telling how far it is meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

from django.db.models import Count
from django.http import Http404
from rest_framework.exceptions import Throttled

from workflows import conf
from workflows.api.executions import parse_id
from workflows.engine.status import ExecutionStatus
from workflows.models import Hold, PlanRevision, TaskAttempt
from workflows.realtime.subscription import Subscription, channel_group

from .callers import Caller
from .threads import in_thread

#: A look at the journal without news: Redis may be away, and rights may have been lost.
_BACKSTOP_SECONDS = 2.0
_MOVING = (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)

#: Calls that wait in this process, by token.  Touched in the event loop alone.
_waiting: Counter[int] = Counter()

Report = Callable[[float, float | None, str | None], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Seen:
    """One look at a run; `done` of `total` tasks are settled."""

    moving: bool
    layer: int
    layers: int
    done: int
    total: int

    @property
    def words(self) -> str:
        if self.layer < 0:
            return "waiting for a worker"
        return f"layer {self.layer + 1} of {self.layers}, {self.done} of {self.total} tasks settled"


async def until_rest(
    caller: Caller,
    workflow_id: str,
    *,
    seconds: float,
    report: Report,
    beyond: Collection[str] = (),
) -> None:
    """Return when the run rests, is over, or `seconds` have passed.

    With `beyond` a run that still stops for nothing but those holds does not count as resting.
    """
    end = time.monotonic() + seconds
    progress = _Progress(report)
    async with _one_more(caller), Subscription(channel_group(workflow_id)) as subscription:
        while True:
            seen = await in_thread(_look, caller, workflow_id, frozenset(beyond))
            left = end - time.monotonic()
            if not seen.moving or left <= 0:
                return
            await progress.tell(
                seen, [start["nodeId"] for start in subscription.started_tasks.take(0)]
            )
            await subscription.wait(min(left, _BACKSTOP_SECONDS))


@asynccontextmanager
async def _one_more(caller: Caller) -> AsyncIterator[None]:
    """Count a call that waits; raises Throttled when one token has too many in this process."""
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


def _look(caller: Caller, workflow_id: str, beyond: frozenset[str]) -> _Seen:
    rows = caller.now().executions().filter(pk=parse_id(workflow_id))
    row = rows.values("pk", "status", "layer", "revision").first()
    if row is None:
        raise Http404
    open_now = Hold.objects.filter(execution=row["pk"], status=Hold.Status.OPEN)
    still = bool(beyond) and row["status"] == ExecutionStatus.PAUSED_FOR_REVIEW
    moving = row["status"] in _MOVING or (still and not open_now.exclude(pk__in=beyond).exists())
    layers = _layers(row["pk"], row["revision"]) if moving else []
    done = TaskAttempt.objects.filter(execution=row["pk"], settled=True)
    return _Seen(
        moving=moving,
        layer=row["layer"],
        layers=len(layers),
        done=done.aggregate(n=Count("task_id", distinct=True))["n"] if moving else 0,
        total=sum(map(len, layers)),
    )


def _layers(execution_id: int, revision: int) -> list[list[str]]:
    rows = PlanRevision.objects.filter(execution=execution_id, number=revision)
    return list(rows.values_list("layers", flat=True).first() or [])


class _Progress:
    """Tells what is new, each time with a larger number, as the protocol wants it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._told = ""
        self._number = -1.0
        self._running: dict[str, None] = {}
        self._at = (-1, 0)

    async def tell(self, seen: _Seen, started: list[str]) -> None:
        words = seen.words
        if self._at != (seen.layer, seen.done):
            self._running, self._at = {}, (seen.layer, seen.done)
        self._running |= dict.fromkeys(started)
        if self._running:
            words += f"; running: {', '.join([*self._running][:5])}"
        if words == self._told:
            return
        self._told = words
        self._number = max(float(seen.done), self._number + 0.001)
        await self._report(self._number, float(seen.total) if seen.total else None, words)
