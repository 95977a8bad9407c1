"""Let the tool graph learn from ended executions which tools follow each other."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import cast

from django.db import IntegrityError, connection
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now

from graphrag.learning import FinishedRun, learn_runs, learned_keys
from workflows import conf
from workflows.engine.plans.dag import CapabilityTask, Revision, ToolTask
from workflows.engine.protocol.events import GraphUpdateFailed
from workflows.engine.protocol.status import TaskStatus
from workflows.journal import writer as journal_writer
from workflows.models import Execution, ExecutionEvent, LearningAttempt, TaskAttempt

logger = logging.getLogger(__name__)


def learn_from(execution_id: int) -> None:
    """Add the edges of an ended execution to the tool graph; idempotent.

    An error is recorded as an event of the execution and has no other effect.  After
    `lost_claims_limit` workers were lost during learning, the execution is not tried again.
    """
    attempts = _begin(execution_id)
    if attempts is None:
        return  # Another worker is learning from it.
    try:
        if attempts > conf.lost_claims_limit():
            lost = attempts - 1
            logger.error("execution %s lost %s workers that learned from it", execution_id, lost)
            _record_failure(
                execution_id, f"{lost} workers in a row ended while they learned from this run"
            )
        else:
            _learn([execution_id])
    finally:
        # Only a killed worker leaves its attempt behind; a stop or an error does not count.
        LearningAttempt.objects.filter(pk=execution_id).delete()


def learn_from_all(execution_ids: Sequence[int]) -> list[int]:
    """Do what `learn_from` does for several executions, with the statements of one.

    Returns the executions that each need a job of their own, because there was an error.  Those
    with an earlier attempt are left out: either another worker is learning from them, or they lost
    a worker.
    """
    begun = _begin_first(execution_ids)
    try:
        known = _learned(begun)
        return _learn([each for each in begun if each not in known])
    finally:
        LearningAttempt.objects.filter(pk__in=begun).delete()


def _begin(execution_id: int) -> int | None:
    """Return the number of this attempt; None while another one may be running."""
    attempt, is_first = LearningAttempt.objects.get_or_create(
        pk=execution_id, defaults={"attempts": 1, "begun_at": Now()}
    )
    if is_first:
        return 1
    # The second of two workers changes no row, because the first one has set `begun_at`.
    over = LearningAttempt.objects.filter(pk=execution_id, begun_at__lt=Now() - _PATIENCE)
    is_mine = over.update(attempts=F("attempts") + 1, begun_at=Now())
    return attempt.attempts + 1 if is_mine else None


def _begin_first(execution_ids: Sequence[int]) -> list[int]:
    """Return the executions of which this is the first attempt."""
    new = Execution.objects.filter(pk__in=execution_ids, learningattempt=None)
    begun = list(new.values_list("pk", flat=True))
    try:
        LearningAttempt.objects.bulk_create(
            LearningAttempt(pk=each, attempts=1, begun_at=Now()) for each in begun
        )
    except IntegrityError:
        return []  # Another worker has just begun with one; the sweeper enqueues the others again.
    return begun


def _learn(execution_ids: Sequence[int]) -> list[int]:
    """Learn from executions; return those that are left, because several could not be learned.

    An error is an event of the only execution, or of each that was counted before the error.
    """
    runs = _finished_runs(execution_ids)
    try:
        learn_runs(runs)
    except Exception as error:
        logger.exception("the tool graph could not learn from executions %s", execution_ids)
        failed = execution_ids if len(execution_ids) == 1 else _learned(execution_ids)
        for execution_id in failed:
            _record_failure(execution_id, f"{type(error).__name__}: {error}"[:2000])
        return [each for each in execution_ids if each not in failed]
    return []


def _finished_runs(execution_ids: Sequence[int]) -> list[FinishedRun]:
    revisions = dict(Execution.objects.filter(pk__in=execution_ids).values_list("pk", "revision"))
    succeeded = defaultdict[int, set[str]](set)
    attempts = TaskAttempt.objects.filter(
        execution__in=execution_ids, settled=True, status=TaskStatus.SUCCEEDED.value
    )
    for execution_id, task_id in attempts.order_by().values_list("execution_id", "task_id"):
        succeeded[execution_id].add(task_id)
    return [
        _finished_run(
            execution_id,
            journal_writer.load_revision(execution_id, revisions[execution_id]),
            succeeded[execution_id],
        )
        for execution_id in execution_ids
    ]


def _finished_run(execution_id: int, revision: Revision, succeeded: set[str]) -> FinishedRun:
    tools = _tools(revision, succeeded)
    return FinishedRun(
        execution_key=str(execution_id),
        layers=[{tools[name] for name in layer if name in tools} for layer in revision.layers],
        edges=_data_edges(revision, tools),
    )


def unlearned(limit: int = 200) -> list[int]:
    """Return ended executions from which the graph has not learned yet, by their end.

    These are executions of the last days with at least one successful task, whether completed,
    failed or aborted, except those with a learning attempt within the last minute.
    """
    return _backlog.take(limit)


def batched(execution_ids: Sequence[int]) -> list[Sequence[int]]:
    """Split executions to learn from into batches.

    One that has lost a worker gets a batch of its own.
    """
    lost = set(
        LearningAttempt.objects.filter(pk__in=execution_ids).values_list("execution_id", flat=True)
    )
    others = [each for each in execution_ids if each not in lost]
    batches = [others[at : at + _BATCH] for at in range(0, len(others), _BATCH)]
    return [*batches, *([each] for each in execution_ids if each in lost)]


class _Backlog:
    """The position up to which this process has searched, in order of the executions' end.

    Executions that ended before `_done` are not read again, so the cost of a round does not grow
    with the history.
    """

    def __init__(self) -> None:
        self._done: tuple[datetime, int] | None = None

    def take(self, limit: int) -> list[int]:
        now = _database_time()
        if self._done is None:
            self._done = (now - _LOOKS_BACK, 0)
        at, result, is_settled = self._done, list[int](), True
        for _ in range(_PAGES):
            page = _ended_after(at)
            known = _known([pk for _, pk in page])
            waiting = [pk for _, pk in page if pk not in known]
            is_settled = is_settled and not waiting
            if is_settled:
                self._settle(page, until=now - _MAY_APPEAR)
            result += _not_begun(waiting, since=now - _PATIENCE)
            if len(page) < _PAGE or len(result) >= limit:
                break
            at = page[-1]
        return result[:limit]

    def _settle(self, page: Sequence[tuple[datetime, int]], *, until: datetime) -> None:
        over = [each for each in page if each[0] < until]
        if over:
            self._done = over[-1]


#: How far back a process starts to search.
_LOOKS_BACK = timedelta(days=7)
#: Time in which the commit of an execution's last step may still become visible.
_MAY_APPEAR = timedelta(seconds=10)
#: Time that an attempt may take: several statements of `learn_statement_seconds`.
_PATIENCE = timedelta(minutes=1)
_PAGE, _PAGES = 2000, 10
#: Executions that one job learns from.
_BATCH = 25
_backlog = _Backlog()


def _database_time() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        (now,) = cursor.fetchone()
    return cast("datetime", now)


def _ended_after(moment: tuple[datetime, int]) -> list[tuple[datetime, int]]:
    """Return one page of ended executions with a successful task, as (end, id)."""
    when, pk = moment
    later = Q(finished_at__gt=when) | Q(finished_at=when, pk__gt=pk)
    succeeded = TaskAttempt.objects.filter(
        execution=OuterRef("pk"), settled=True, status=TaskStatus.SUCCEEDED.value
    )
    rows = Execution.objects.filter(later, Exists(succeeded), finished_at__gte=when)
    pairs = rows.order_by("finished_at", "id").values_list("finished_at", "pk")[:_PAGE]
    return [(ended, pk) for ended, pk in pairs if ended is not None]


def _known(ids: Sequence[int]) -> set[int]:
    """Return the executions that were learned, or failed once and are not tried again."""
    learned = _learned(ids)
    rest = [each for each in ids if each not in learned]
    failed = ExecutionEvent.objects.filter(execution__in=rest, kind="graph_update_failed")
    return learned | set(failed.values_list("execution_id", flat=True))


def _learned(ids: Iterable[int]) -> set[int]:
    return {int(key) for key in learned_keys([str(each) for each in ids])}


def _not_begun(ids: Sequence[int], *, since: datetime) -> list[int]:
    """Return the executions without a learning attempt after `since`."""
    begun = LearningAttempt.objects.filter(execution__in=ids, begun_at__gte=since)
    running = set(begun.values_list("execution_id", flat=True))
    return [each for each in ids if each not in running]


def _tools(revision: Revision, succeeded: set[str]) -> dict[str, str]:
    """Return the catalogue names of the tools and capabilities that succeeded, by task id."""
    names = {}
    for task in revision.plan.tasks:
        if task.id in succeeded and isinstance(task, ToolTask):
            names[task.id] = task.tool
        elif task.id in succeeded and isinstance(task, CapabilityTask):
            names[task.id] = f"capability.{task.capability}"
    return names


def _data_edges(revision: Revision, tools: dict[str, str]) -> list[tuple[str, str]]:
    """Return the pairs of tools of which the second depends on the first."""
    return [
        (tools[need], tools[task.id])
        for task in revision.plan.tasks
        if task.id in tools
        for need in task.needs
        if need in tools
    ]


def _record_failure(execution_id: int, error: str) -> None:
    with journal_writer.DjangoJournal().open(str(execution_id), expected_version=None) as run:
        run.record(GraphUpdateFailed(error=error))
        run.commit()
        run.publish(at_once=True)
