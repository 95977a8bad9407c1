"""Speculation: run read-only tasks while an execution waits for a decision, and reuse the results.

1. When an execution comes to rest at a hold, a low-priority job is enqueued.
2. The job asks the engine which tasks could run if all open holds were approved unchanged, and
   selects those with read-only tools.
3. It claims each result by a digest of task, tool, inputs and permissions, runs the task and
   stores the result.
4. It repeats this with the tasks behind the new results, up to the limits of the policy.
   Where an agent may replan, the read-only tool that past runs predict is computed too.
5. When the execution reaches such a task, it computes the digest again: if it is equal, the
   stored result is used; otherwise the result is dropped and the task runs.

The job has no lease and does not write to the execution.  It stops when the execution continues,
or when another execution waits for a worker.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from workflows import conf
from workflows.engine.plans.dag import Plan, ToolTask
from workflows.engine.protocol import speculation_candidates
from workflows.engine.protocol.ports import (
    Busy,
    FinishedTask,
    Heartbeat,
    Run,
    SpeculationOutcome,
    Success,
    TaskCall,
    TaskResult,
    TaskRunner,
)
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus
from workflows.engine.values.reasons import Reason
from workflows.executions import dispatch
from workflows.executions.layer_runner import LayerRunner, time_limit
from workflows.journal import writer as journal_writer
from workflows.models import Execution, Speculation
from workflows.permissions.effective import effective_permissions
from workflows.planning.planner import predicted_plan, read_only_tools

from . import policy, store

logger = logging.getLogger(__name__)

_RESTING = (ExecutionStatus.PAUSED_FOR_REVIEW.value, ExecutionStatus.AWAITING_AGENT.value)
#: Seconds beyond a task's time limit after which another job may take over its claim.
_GRACE = 30.0


def request_speculation(run: Run) -> None:
    """Enqueue speculation for an execution that rests at a hold, if its policy enables it."""
    if speculation_candidates.may_speculate(run):
        dispatch.enqueue_speculation_on_commit(int(run.execution_id))


# --- computing results ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """A claimed task."""

    call: TaskCall
    claim: store.Claim


def run_speculation(execution_id: int) -> None:
    """Run the tasks behind the open holds of an execution, and store their results.

    Idempotent and safe to call concurrently: existing and running results are skipped.
    """
    stop_check = _StopCheck(execution_id)
    while not stop_check.must_stop:
        works = _claim_next(execution_id)
        if not works:
            return
        _run_claimed(works, stop_check)
    if stop_check.yields_worker:
        dispatch.enqueue(dispatch.SPECULATE, execution_id, queue=dispatch.SPECULATION)


class _StopCheck:
    """Stops speculation when the execution no longer rests, or another one needs this worker."""

    def __init__(self, execution_id: int) -> None:
        self._execution_id = execution_id
        self.must_stop = self.yields_worker = False

    def __call__(self) -> bool:
        status = Execution.objects.values_list("status", flat=True).get(pk=self._execution_id)
        self.yields_worker = status in _RESTING and _has_waiting_executions()
        self.must_stop = self.yields_worker or status not in _RESTING
        return self.must_stop


def _has_waiting_executions() -> bool:
    try:
        return dispatch.queue_length(dispatch.DEFAULT) > 0
    except RedisError:
        return False


def _claim_next(execution_id: int) -> list[_Work]:
    """Claim the tasks that can run now; returns an empty list if there are none."""
    try:
        with journal_writer.DjangoJournal().open(str(execution_id), expected_version=None) as run:
            if not speculation_candidates.may_speculate(run):
                return []
            pending = store.pending(execution_id)
            room = run.policy.speculation.max_tasks - len(pending)
            return _claim(run, _missing(run), room, {row.hold for row in pending})
    except (Busy, journal_writer.ExecutionNotFound):
        return []


def _missing(run: Run) -> list[tuple[speculation_candidates.Candidate, str]]:
    """Return the candidates without a result, with their digests; tasks of the plan come first.

    Where an agent may replan, the task that is probably added next is a candidate too.
    """
    missing = _missing_in(run, None)
    predicted = _predicted_plan(run)
    if predicted is not None:
        listed = {candidate.task.id for candidate, _ in missing}
        missing += [each for each in _missing_in(run, predicted) if each[0].task.id not in listed]
    return missing


def _predicted_plan(run: Run) -> Plan | None:
    """Return the plan that the agent will probably ask for, if it may and the planner knows.

    None where a person reviews plan changes: nothing runs that only such a change would add.
    """
    state = run.state
    if run.policy.replan_review.enabled:
        return None
    if not speculation_candidates.may_be_replanned(run) or state.replans >= conf.max_replans():
        return None
    layers = run.revision.layers[: state.layer + 1]
    finished = run.finished_tasks([name for layer in layers for name in layer])
    return predicted_plan(run.revision.plan, finished, run.context, run.inputs)


def _missing_in(
    run: Run, predicted: Plan | None
) -> list[tuple[speculation_candidates.Candidate, str]]:
    """Return the candidates without a result in the plan, or in the predicted one.

    Stored results make the inputs of further candidates known.
    """
    known: dict[str, FinishedTask] = {}
    seen: set[str] = set()
    missing: list[tuple[speculation_candidates.Candidate, str]] = []
    while candidates := [
        candidate
        for candidate in speculation_candidates.candidates(run, known, predicted)
        if candidate.task.id not in seen
    ]:
        seen.update(candidate.task.id for candidate in candidates)
        allowed = read_only_tools(candidate.task.tool for candidate in candidates)
        read_only = [candidate for candidate in candidates if candidate.task.tool in allowed]
        for candidate, key, output in _with_results(run, read_only):
            if not output:
                missing.append((candidate, key))
            else:
                known[candidate.task.id] = FinishedTask(TaskStatus.SUCCEEDED, json.loads(output))
    return missing


def _with_results(
    run: Run, candidates: Sequence[speculation_candidates.Candidate]
) -> Iterator[tuple[speculation_candidates.Candidate, str, str]]:
    """Yield each candidate with its digest and the JSON text of its result, "" if there is none."""
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

    Its idempotency key differs from the task's real one, whose inputs may differ.
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
    """Return by task id a digest of what determines each call's result."""
    effective = effective_permissions(calls, counted=False)
    return {
        call.task.id: speculation_candidates.result_digest(
            call.task, call.inputs, effective[call.task.id].permissions
        )
        for call in calls
        if isinstance(call.task, ToolTask)
    }


def _claim(
    run: Run,
    missing: Sequence[tuple[speculation_candidates.Candidate, str]],
    room: int,
    pending_holds: Collection[str],
) -> list[_Work]:
    """Claim the results that are worthwhile, and one of the others at each hold that explores.

    `pending_holds` already have a result, so they do not explore.
    """
    if not missing:
        return []
    behinds = {candidate.task.id: _behind(run, candidate.task.id) for candidate, _ in missing}
    pairs = {(behinds[candidate.task.id].name, candidate.task.tool) for candidate, _ in missing}
    tallies = store.tallies(pairs)
    is_stopped = store.stopped(int(run.execution_id)) is not None
    measured = set(pending_holds)
    works: list[_Work] = []
    for candidate, key in missing:
        task, behind = candidate.task, behinds[candidate.task.id]
        tally = tallies.get((behind.name, task.tool), policy.Tally())
        worthwhile = policy.is_worthwhile(run.policy.speculation.confidence, tally)
        explores = behind.hold not in measured and policy.explores(behind.hold)
        if len(works) >= room or not (explores or (worthwhile and not is_stopped)):
            continue
        call = _call(run, candidate, key)
        claim = store.claim(
            execution_id=int(run.execution_id),
            task_id=task.id,
            key=key,
            tool=task.tool,
            behind=behind.name,
            hold=behind.hold,
            patience=time_limit(call) + _GRACE,
        )
        if claim is not None:
            measured.add(behind.hold)
            works.append(_Work(call, claim))
    return works


class _Behind(NamedTuple):
    """What a task waits behind: the held tool or the reason of the hold, and the hold's id."""

    name: str
    hold: str


def _behind(run: Run, task_id: str) -> _Behind:
    hold = speculation_candidates.blocking_hold(run, task_id)
    if hold is None:
        return _Behind("", "")
    held = run.revision.plan.by_id.get(hold.task_id or "")
    return _Behind(held.target if held else hold.reason.value, hold.id)


def _run_claimed(works: Sequence[_Work], heartbeat: Heartbeat) -> None:
    """Run the claimed tasks, and abandon the claims of those that do not end."""
    claims = {work.call.task.id: work.claim for work in works}
    try:
        for batch in LayerRunner().run([work.call for work in works], heartbeat):
            for result in batch:
                _store_result(claims.pop(result.call.task.id), result)
    finally:
        store.abandon(claims.values())


def _store_result(claim: store.Claim, result: TaskResult) -> None:
    outcome = result.outcome
    if isinstance(outcome, Success):
        store.save_result(claim, outcome.output, outcome.logs, outcome.duration_ms)
    else:
        reason = getattr(outcome, "message", "") or "it needs a permission"
        store.mark_failed(claim, str(reason), getattr(outcome, "duration_ms", 0.0))


# --- using results --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeculativeRunner:
    """An engine.ports.TaskRunner that uses stored results and lets `inner` run the other tasks."""

    inner: TaskRunner

    def run(
        self, calls: Sequence[TaskCall], heartbeat: Heartbeat
    ) -> Iterator[Sequence[TaskResult]]:
        eligible = _eligible(calls)
        results, missed = _take_results(eligible) if eligible else ({}, {})
        if results:
            yield list(results.values())
        rest = [call for call in calls if call.task.id not in results]
        if not rest or (results and heartbeat()):
            return
        for batch in self.inner.run(rest, heartbeat):
            yield [_with_miss(each, missed) for each in batch] if missed else batch


def _eligible(calls: Sequence[TaskCall]) -> list[TaskCall]:
    """Return the calls that may have a speculative result."""
    return [call for call in calls if call.speculates and call.attempt == 1]


def _with_miss(result: TaskResult, missed: Mapping[str, SpeculationOutcome]) -> TaskResult:
    return replace(result, speculation=missed.get(result.call.task.id))


def _take_results(
    calls: Sequence[TaskCall],
) -> tuple[dict[str, TaskResult], dict[str, SpeculationOutcome]]:
    """Return by task id the results that are used, and the outcomes of those that are dropped."""
    rows: dict[str, list[Speculation]] = {}
    for row in store.rows_of_tasks(int(calls[0].execution_id), [call.task.id for call in calls]):
        rows.setdefault(row.task_id, []).append(row)
    if not rows:
        return {}, {}
    calls = [call for call in calls if call.task.id in rows]
    allowed = read_only_tools(call.task.target for call in calls)
    matching = _matching(calls, rows)
    taken = store.take(row for name, row in matching.items() if row.tool in allowed)
    results, missed = {}, {}
    for call in calls:
        name = call.task.id
        match = matching.get(name)
        unused = [row for row in rows[name] if row is not match or row.pk not in taken]
        miss = _drop(unused, _drop_reason(match, allowed))
        if match is not None and match.pk in taken:
            results[name] = _result(call, match)
        elif miss is not None:
            missed[name] = miss
    return results, missed


def _matching(
    calls: Sequence[TaskCall], rows: Mapping[str, Sequence[Speculation]]
) -> dict[str, Speculation]:
    """Return by task id the result that was computed for exactly this call."""
    keys = _digests(calls)
    return {
        name: row
        for name, key in keys.items()
        for row in rows[name]
        if row.key == key and row.output
    }


def _result(call: TaskCall, row: Speculation) -> TaskResult:
    output: Any = json.loads(row.output)
    hit = SpeculationOutcome(hit=True, seconds=round(row.duration_ms / 1000, 3))
    return TaskResult(call, Success(output, row.duration_ms, row.logs), hit)


def _drop_reason(match: Speculation | None, allowed: frozenset[str]) -> Reason:
    if match is None:
        return Reason("speculation_changed")
    return Reason("speculation_too_old" if match.tool in allowed else "speculation_not_read_only")


def _drop(rows: Sequence[Speculation], reason: Reason) -> SpeculationOutcome | None:
    """Drop unused results; returns None if none of them was ready."""
    if not rows:
        return None
    store.drop(rows, reason.text)
    ready = [row for row in rows if row.state == Speculation.State.READY]
    seconds = sum(row.duration_ms for row in ready) / 1000
    return (
        SpeculationOutcome(hit=False, seconds=round(seconds, 3), reason=reason) if ready else None
    )
