"""Feedback to the tool graph after a run: what followed what.  Off the critical path."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from graphrag.learning import learn, learned_keys
from workflows import conf
from workflows.engine.dag import CapabilityTask, Revision, ToolTask
from workflows.engine.events import GraphUpdateFailed
from workflows.engine.status import TaskStatus
from workflows.journal import writer as journal_writer
from workflows.journal.statements import execute
from workflows.models import Execution, ExecutionEvent, LearningAttempt, TaskAttempt

logger = logging.getLogger(__name__)


def learn_from(execution_id: int) -> None:
    """Count the edges of one ended execution; once, however often it is called.

    What goes wrong is an event on the execution and nothing else: the run is over and stays so.
    An execution that lost `lost_claims_limit` workers over it is not learned from any more.
    """
    attempts = _begin(execution_id)
    if attempts is None:
        return  # Another worker is at it.
    try:
        if attempts > conf.lost_claims_limit():
            lost = attempts - 1
            logger.error("execution %s lost %s workers that learned from it", execution_id, lost)
            _tell(execution_id, f"{lost} workers in a row ended while they learned from this run")
        else:
            _learn(execution_id)
    finally:
        # A stop or an error is not held against the run; only a killed worker leaves its attempt.
        LearningAttempt.objects.filter(pk=execution_id).delete()


_BEGIN = """
INSERT INTO workflows_learningattempt AS before (execution_id, attempts, begun_at)
VALUES (%(execution)s, 1, now())
ON CONFLICT (execution_id) DO UPDATE SET attempts = before.attempts + 1, begun_at = now()
WHERE before.begun_at < now() - %(patience)s
RETURNING attempts
"""


def _begin(execution_id: int) -> int | None:
    """The number of this attempt; None while another one may be under way."""
    rows = execute(_BEGIN, {"execution": execution_id, "patience": _PATIENCE})
    return int(rows[0][0]) if rows else None


def _learn(execution_id: int) -> None:
    execution = Execution.objects.get(pk=execution_id)
    ran = TaskAttempt.objects.filter(
        execution=execution, settled=True, status=TaskStatus.SUCCEEDED.value
    )
    revision = journal_writer.load_revision(execution.pk, execution.revision)
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

    Every one of the last days is found, however late or in how large a number they ended, except
    those that a worker began to learn from within the last minute.
    """
    return _backlog.take(limit)


class _Backlog:
    """How far this process has looked, in the order in which executions ended.

    All that ended up to `_done` needs no second look, so a round costs no more with a long history.
    """

    def __init__(self) -> None:
        self._done: tuple[datetime, int] | None = None

    def take(self, limit: int) -> list[int]:
        now = _database_time()
        if self._done is None:
            self._done = (now - _LOOKS_BACK, 0)
        at, found, is_settled = self._done, list[int](), True
        for _ in range(_PAGES):
            page = _ended_after(at)
            known = _known([pk for _, pk in page])
            waiting = [pk for _, pk in page if pk not in known]
            is_settled = is_settled and not waiting
            if is_settled:
                self._settle(page, until=now - _MAY_APPEAR)
            found += _not_begun(waiting, since=now - _PATIENCE)
            if len(page) < _PAGE or len(found) >= limit:
                break
            at = page[-1]
        return found[:limit]

    def _settle(self, page: Sequence[tuple[datetime, int]], *, until: datetime) -> None:
        over = [each for each in page if each[0] < until]
        if over:
            self._done = over[-1]


#: How far back a process begins to look.
_LOOKS_BACK = timedelta(days=7)
#: For how long after its end a run may still become visible: its step was not committed yet.
_MAY_APPEAR = timedelta(seconds=10)
#: For how long an attempt may be under way; several statements of `learn_statement_seconds`.
_PATIENCE = timedelta(minutes=1)
_PAGE, _PAGES = 2000, 10
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


def _not_begun(ids: Sequence[int], *, since: datetime) -> list[int]:
    """Those that no worker began to learn from after `since`."""
    begun = LearningAttempt.objects.filter(execution__in=ids, begun_at__gte=since)
    under_way = set(begun.values_list("execution_id", flat=True))
    return [each for each in ids if each not in under_way]


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
    with journal_writer.DjangoJournal().open(str(execution_id), expected_version=None) as run:
        run.record(GraphUpdateFailed(error=error))
        run.commit()
        run.publish(at_once=True)
