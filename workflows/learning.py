"""Feedback to the tool graph after a run: what followed what.  Off the critical path."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from graphrag.learning import learn, learned_keys

from . import journal
from .engine.dag import CapabilityTask, Revision, ToolTask
from .engine.events import GraphUpdateFailed
from .engine.status import TaskStatus
from .models import Execution, ExecutionEvent, TaskAttempt

logger = logging.getLogger(__name__)


def learn_from(execution_id: int) -> None:
    """Count the edges of one ended execution; once, however often it is called.

    What goes wrong is an event on the execution and nothing else: the run is over and stays so.
    """
    execution = Execution.objects.get(pk=execution_id)
    ran = TaskAttempt.objects.filter(
        execution=execution, settled=True, status=TaskStatus.SUCCEEDED.value
    )
    revision = journal.load_revision(execution.pk, execution.revision)
    tools = _tools(revision, set(ran.values_list("task_id", flat=True)))
    try:
        learn(
            execution_key=str(execution.pk),
            layers=[{tools[name] for name in layer if name in tools} for layer in revision.layers],
            edges=_data_edges(revision, tools),
        )
    except Exception as error:
        logger.exception("the tool graph learned nothing from execution %s", execution_id)
        _tell(execution_id, f"{type(error).__name__}: {error}"[:2000])


def unlearned(limit: int = 200) -> list[int]:
    """Ended executions from which the graph has not learned yet, those that ended first first.

    A run teaches when at least one of its tasks succeeded, whether it completed, failed or was
    aborted.

    Every one of the last days is found, however late or in how large a number they ended.  What
    was given three times and is still not learned is given no more by this process.
    """
    return _backlog.take(limit)


class _Backlog:
    """How far this process has looked, in the order in which executions ended.

    All that ended up to `_done` needs no second look, so a round costs no more with a long history.
    """

    def __init__(self) -> None:
        self._done: tuple[datetime, int] | None = None
        self._given: Counter[tuple[datetime, int]] = Counter()

    def take(self, limit: int) -> list[int]:
        now = _database_time()
        if self._done is None:
            self._done = (now - _LOOKS_BACK, 0)
        at, found = self._done, list[tuple[datetime, int]]()
        for _ in range(_PAGES):
            page = _ended_after(at)
            wanted = self._wanted(page)
            found += wanted
            if not found:
                self._settle(page, until=now - _MAY_APPEAR)
            if len(page) < _PAGE or len(found) >= limit:
                break
            at = page[-1]
        self._given.update(found[:limit])
        return [pk for _, pk in found[:limit]]

    def _wanted(self, page: Sequence[tuple[datetime, int]]) -> list[tuple[datetime, int]]:
        known = _known([pk for _, pk in page])
        return [each for each in page if each[1] not in known and self._given[each] < _TRIES]

    def _settle(self, page: Sequence[tuple[datetime, int]], *, until: datetime) -> None:
        over = [each for each in page if each[0] < until]
        if over:
            self._done = over[-1]
            self._given = Counter({k: v for k, v in self._given.items() if k > over[-1]})


#: How far back a process begins to look.
_LOOKS_BACK = timedelta(days=7)
#: For how long after its end a run may still become visible: its step was not committed yet.
_MAY_APPEAR = timedelta(seconds=10)
_PAGE, _PAGES, _TRIES = 2000, 10, 3
_backlog = _Backlog()


def _database_time() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        (found,) = cursor.fetchone()
    return cast("datetime", found)


def _ended_after(moment: tuple[datetime, int]) -> list[tuple[datetime, int]]:
    """One page of ended executions with a task that succeeded, by (end, id)."""
    when, pk = moment
    later = Q(finished_at__gt=when) | Q(finished_at=when, pk__gt=pk)
    succeeded = TaskAttempt.objects.filter(
        execution=OuterRef("pk"), settled=True, status=TaskStatus.SUCCEEDED.value
    )
    rows = Execution.objects.filter(later, Exists(succeeded), finished_at__gte=when)
    pairs = rows.order_by("finished_at", "id").values_list("finished_at", "pk")[:_PAGE]
    return [(ended, pk) for ended, pk in pairs if ended is not None]


def _known(ids: Sequence[int]) -> set[int]:
    """Those that are learned, and those that failed once: they are not tried for ever."""
    learned = {int(key) for key in learned_keys([str(each) for each in ids])}
    rest = [each for each in ids if each not in learned]
    told = ExecutionEvent.objects.filter(execution__in=rest, kind="graph_update_failed")
    return learned | set(told.values_list("execution_id", flat=True))


def _tools(revision: Revision, succeeded: set[str]) -> dict[str, str]:
    """Task id → its name in the catalogue, for tools and capabilities that succeeded."""
    names = {}
    for task in revision.plan.tasks:
        if task.id in succeeded and isinstance(task, ToolTask):
            names[task.id] = task.tool
        elif task.id in succeeded and isinstance(task, CapabilityTask):
            names[task.id] = f"capability.{task.capability}"
    return names


def _data_edges(revision: Revision, tools: dict[str, str]) -> list[tuple[str, str]]:
    """Pairs of tools that are joined by what one waits for of the other."""
    return [
        (tools[need], tools[task.id])
        for task in revision.plan.tasks
        if task.id in tools
        for need in task.needs
        if need in tools
    ]


def _tell(execution_id: int, error: str) -> None:
    with journal.DjangoJournal().open(str(execution_id), expected_version=None) as run:
        run.record(GraphUpdateFailed(error=error))
        run.commit()
        run.tell(at_once=True)
