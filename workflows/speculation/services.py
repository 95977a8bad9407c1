"""Work done ahead while somebody decides, and taking it when the decision leaves it standing.

1. A run comes to rest at a hold: a job for a worker with nothing better to do is sent.
2. The job asks the engine which tasks could run if everything open were approved unchanged, and
   takes those whose tools only read.
3. Each is claimed by the digest of task, tool, inputs and permissions, run, and put aside.
4. What that makes known is asked about again, until there is nothing, or enough.
5. When the real run comes to such a task, its own digest decides: the same, and the result is
   there; another, and it is dropped and the task runs.

The job holds no lease and writes nothing of the execution.  It stops when the run goes on, or when
any execution waits for a worker.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis.exceptions import RedisError

from workflows.engine import speculation_candidates
from workflows.engine.dag import ToolTask
from workflows.engine.ports import (
    Busy,
    Run,
    Settled,
    SpeculationOutcome,
    Success,
    TaskCall,
    TaskResult,
    TaskRunner,
    Watch,
)
from workflows.engine.status import ExecutionStatus, TaskStatus
from workflows.executions import dispatch
from workflows.executions.layer_runner import LayerRunner, time_limit
from workflows.journal import writer as journal_writer
from workflows.models import Execution, Speculation
from workflows.permissions.effective import effective_permissions
from workflows.planning.planner import read_only_tools

from . import policy, store

logger = logging.getLogger(__name__)

_WAITS = (ExecutionStatus.PAUSED_FOR_REVIEW.value, ExecutionStatus.AWAITING_AGENT.value)
#: Seconds over a task's own limit after which its claim is anybody's.
_GRACE = 30.0


def request_speculation(run: Run) -> None:
    """Have somebody work ahead of a run that has come to rest at a hold, if its policy says so."""
    if speculation_candidates.may_speculate(run):
        dispatch.enqueue_speculation_on_commit(int(run.execution_id))


# --- working ahead --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """A task that was claimed."""

    call: TaskCall
    claim: store.Claim


def run_speculation(execution_id: int) -> None:
    """Work out what can be known behind the open holds of an execution, and put it aside.

    May be called at any time and by several at once: what is there, or under way, is left alone.
    """
    watch = _Watch(execution_id)
    while not watch.over:
        works = _next(execution_id)
        if not works:
            return
        _work_out(works, watch)
    if watch.gives_way:
        dispatch.enqueue(dispatch.SPECULATE, execution_id, queue=dispatch.SPECULATION)


class _Watch:
    """Looks whether the run still waits, and whether another one waits for this worker."""

    def __init__(self, execution_id: int) -> None:
        self._execution_id = execution_id
        self.over = self.gives_way = False

    def __call__(self) -> bool:
        status = Execution.objects.values_list("status", flat=True).get(pk=self._execution_id)
        self.gives_way = status in _WAITS and _somebody_waits()
        self.over = self.gives_way or status not in _WAITS
        return self.over


def _somebody_waits() -> bool:
    try:
        return dispatch.queue_length(dispatch.DEFAULT) > 0
    except RedisError:
        return False


def _next(execution_id: int) -> list[_Work]:
    """Claims on all that can be worked out now; empty when there is nothing to do."""
    try:
        with journal_writer.DjangoJournal().open(str(execution_id), expected_version=None) as run:
            if not speculation_candidates.may_speculate(run) or store.stopped(execution_id):
                return []
            room = run.policy.speculation.max_tasks - len(store.pending(execution_id))
            return _claimed(run, _unknown(run), room)
    except (Busy, journal_writer.ExecutionNotFound):
        return []


def _unknown(run: Run) -> list[tuple[speculation_candidates.Candidate, str]]:
    """Return the candidates without a stored result, with their digests."""
    known: dict[str, Settled] = {}
    looked: set[str] = set()
    unknown: list[tuple[speculation_candidates.Candidate, str]] = []
    while found := [
        candidate
        for candidate in speculation_candidates.candidates(run, known)
        if candidate.task.id not in looked
    ]:
        looked.update(candidate.task.id for candidate in found)
        allowed = read_only_tools(candidate.task.tool for candidate in found)
        readers = [candidate for candidate in found if candidate.task.tool in allowed]
        for candidate, key, output in _with_results(run, readers):
            if not output:
                unknown.append((candidate, key))
            else:
                known[candidate.task.id] = Settled(TaskStatus.SUCCEEDED, json.loads(output))
    return unknown


def _with_results(
    run: Run, candidates: Sequence[speculation_candidates.Candidate]
) -> Iterator[tuple[speculation_candidates.Candidate, str, str]]:
    """Yield each candidate with its digest and its stored result, or ""."""
    if not candidates:
        return
    keys = _digests([_call(run, candidate) for candidate in candidates])
    rows = store.rows_of_tasks(
        int(run.execution_id), [candidate.task.id for candidate in candidates]
    )
    texts = {row.key: row.output for row in rows if row.state == Speculation.State.READY}
    for candidate in candidates:
        key = keys[candidate.task.id]
        yield candidate, key, texts.get(key, "")


def _call(run: Run, candidate: speculation_candidates.Candidate, key: str = "") -> TaskCall:
    """Return the call of a candidate.

    Its idempotency key differs from the task's real call, whose inputs may differ.
    """
    return TaskCall(
        candidate.task,
        candidate.inputs,
        attempt=1,
        key=f"{run.execution_id}:{candidate.task.id}:ahead-{key[:16]}",
        execution_id=run.execution_id,
        ceiling=run.policy.permission_ceiling,
    )


def _digests(calls: Sequence[TaskCall]) -> dict[str, str]:
    """By task id, what each call's result hangs on."""
    permits = effective_permissions(calls, counted=False)
    return {
        call.task.id: speculation_candidates.result_digest(
            call.task, call.inputs, permits[call.task.id].permissions
        )
        for call in calls
        if isinstance(call.task, ToolTask)
    }


def _claimed(
    run: Run, unknown: Sequence[tuple[speculation_candidates.Candidate, str]], room: int
) -> list[_Work]:
    behinds = {candidate.task.id: _behind(run, candidate.task.id) for candidate, _ in unknown}
    pairs = {(behinds[candidate.task.id], candidate.task.tool) for candidate, _ in unknown}
    tallies = store.tallies(pairs) if pairs else {}
    confidence = run.policy.speculation.confidence
    works: list[_Work] = []
    for candidate, key in unknown:
        task = candidate.task
        tally = tallies.get((behinds[task.id], task.tool), policy.Tally())
        if len(works) >= room or not policy.is_worthwhile(confidence, tally):
            continue
        call = _call(run, candidate, key)
        claim = store.claim(
            execution_id=int(run.execution_id),
            task_id=task.id,
            key=key,
            tool=task.tool,
            behind=behinds[task.id],
            patience=time_limit(call) + _GRACE,
        )
        if claim is not None:
            works.append(_Work(call, claim))
    return works


def _behind(run: Run, task_id: str) -> str:
    """What is held in front of a task: a tool, or the reason of a hold that has no task."""
    hold = speculation_candidates.blocking_hold(run, task_id)
    held = run.revision.plan.by_id.get(hold.task_id or "") if hold else None
    if held is not None:
        return held.target
    return hold.reason.value if hold else ""


def _work_out(works: Sequence[_Work], watch: Watch) -> None:
    """Run what was claimed; what does not come to an end is given up."""
    claims = {work.call.task.id: work.claim for work in works}
    try:
        for batch in LayerRunner().run([work.call for work in works], watch):
            for result in batch:
                _put_aside(claims.pop(result.call.task.id), result)
    finally:
        store.abandon(claims.values())


def _put_aside(claim: store.Claim, result: TaskResult) -> None:
    outcome = result.outcome
    if isinstance(outcome, Success):
        store.save_result(claim, outcome.output, outcome.logs, outcome.duration_ms)
    else:
        reason = getattr(outcome, "message", "") or "it needs a permission"
        store.mark_failed(claim, str(reason), getattr(outcome, "duration_ms", 0.0))


# --- taking ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeculativeRunner:
    """engine.ports.TaskRunner: what was worked out ahead is a result at once, the rest is run."""

    inner: TaskRunner

    def run(self, calls: Sequence[TaskCall], watch: Watch) -> Iterator[Sequence[TaskResult]]:
        asked = _askers(calls)
        there, missed = _taken(asked) if asked else ({}, {})
        if there:
            yield list(there.values())
        rest = [call for call in calls if call.task.id not in there]
        if not rest or (there and watch()):
            return
        for batch in self.inner.run(rest, watch):
            yield [_with_miss(each, missed) for each in batch] if missed else batch


def _askers(calls: Sequence[TaskCall]) -> list[TaskCall]:
    """Those for which there may be a result already."""
    return [call for call in calls if call.speculates and call.attempt == 1]


def _with_miss(result: TaskResult, missed: Mapping[str, SpeculationOutcome]) -> TaskResult:
    return replace(result, ahead=missed.get(result.call.task.id))


def _taken(
    calls: Sequence[TaskCall],
) -> tuple[dict[str, TaskResult], dict[str, SpeculationOutcome]]:
    """Results that stand, and what is told of those that do not, by task id."""
    rows: dict[str, list[Speculation]] = {}
    for row in store.rows_of_tasks(int(calls[0].execution_id), [call.task.id for call in calls]):
        rows.setdefault(row.task_id, []).append(row)
    if not rows:
        return {}, {}
    calls = [call for call in calls if call.task.id in rows]
    allowed = read_only_tools(call.task.target for call in calls)
    same = _same(calls, rows)
    taken = store.take(row for name, row in same.items() if row.tool in allowed)
    results, missed = {}, {}
    for call in calls:
        name = call.task.id
        used = same.get(name)
        waste = [row for row in rows[name] if row is not used or row.pk not in taken]
        told = _dropped(waste, _why(used, allowed))
        if used is not None and used.pk in taken:
            results[name] = _result(call, used)
        elif told is not None:
            missed[name] = told
    return results, missed


def _same(
    calls: Sequence[TaskCall], rows: Mapping[str, Sequence[Speculation]]
) -> dict[str, Speculation]:
    """By task id, the result that was worked out for exactly this call."""
    keys = _digests(calls)
    return {
        name: row
        for name, key in keys.items()
        for row in rows[name]
        if row.key == key and row.output
    }


def _result(call: TaskCall, row: Speculation) -> TaskResult:
    output: Any = json.loads(row.output)
    told = SpeculationOutcome(hit=True, seconds=round(row.duration_ms / 1000, 3))
    return TaskResult(call, Success(output, row.duration_ms, row.logs), told)


def _why(same: Speculation | None, allowed: frozenset[str]) -> str:
    if same is None:
        return "its inputs or permissions changed"
    return "it was too old" if same.tool in allowed else "its tool is not read-only any more"


def _dropped(rows: Sequence[Speculation], reason: str) -> SpeculationOutcome | None:
    """Drop what is not used; None when none of it had been worked out yet."""
    if not rows:
        return None
    store.drop(rows, reason)
    ready = [row for row in rows if row.state == Speculation.State.READY]
    seconds = sum(row.duration_ms for row in ready) / 1000
    return (
        SpeculationOutcome(hit=False, seconds=round(seconds, 3), reason=reason) if ready else None
    )
