"""`evolve(state, event)`: returns the state after an event.  Nothing else changes a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce, singledispatch
from typing import Any

from . import events as ev
from .state import (
    Escalation,
    ExecutionState,
    Hold,
    HoldReason,
    RemoteCall,
    SkipReason,
    Stage,
    TaskState,
)
from .status import ExecutionStatus, TaskStatus, check_transition

_S = ExecutionStatus


def evolve(state: ExecutionState, event: ev.Event) -> ExecutionState:
    """Return the state after `event`; raises IllegalTransition for a forbidden status change."""
    after = _apply(event, state)
    if after.status is not state.status:
        check_transition(state.status, after.status)
    return replace(after, version=state.version + 1)


def replay(events: Iterable[ev.Event]) -> ExecutionState:
    """Return the state of an execution from all of its events, oldest first."""
    return reduce(evolve, events, ExecutionState())


@singledispatch
def _apply(event: object, state: ExecutionState) -> ExecutionState:
    """Return the state unchanged: messages, refusals and other events with no control state."""
    return state


@_apply.register
def _(event: ev.ExecutionStarted, state: ExecutionState) -> ExecutionState:
    return replace(state, status=_S.RUNNING, total_layers=event.total_layers)


@_apply.register
def _(event: ev.ExecutionForked, state: ExecutionState) -> ExecutionState:
    # Events of forks that were recorded before `start` existed have no state.
    return event.start or state


@_apply.register
def _(event: ev.LayerStarted, state: ExecutionState) -> ExecutionState:
    tasks = {task_id: _fresh(event.skips.get(task_id)) for task_id in event.tasks}
    return replace(
        state,
        layer=event.layer,
        stage=Stage.RUN,
        approved=False,
        tasks=tasks,
        layer_failed=False,
        failed_leaf=state.failed_leaf or event.failed_leaf,
        skipped_tasks=state.skipped_tasks.difference(event.tasks),
    )


def _fresh(skip: SkipReason | None) -> TaskState:
    return TaskState() if skip is None else TaskState(status=TaskStatus.SKIPPED, skip=skip)


@_apply.register
def _(event: ev.TaskSubmitted, state: ExecutionState) -> ExecutionState:
    remote = RemoteCall(event.runner, event.handle, event.since, event.until, event.shown)
    return state.with_task(event.task_id, remote=remote, retry_at=None)


@_apply.register
def _(event: ev.TaskSucceeded, state: ExecutionState) -> ExecutionState:
    return state.with_task(
        event.task_id,
        status=TaskStatus.SUCCEEDED,
        attempt=event.attempt,
        retry_at=None,
        remote=None,
        # Clears the approval of a BEFORE review; an AFTER review is still due.
        cleared=False,
    )


@_apply.register
def _(event: ev.TaskErrored, state: ExecutionState) -> ExecutionState:
    if event.retry_at is not None:
        return state.with_task(
            event.task_id,
            status=TaskStatus.PENDING,
            attempt=event.attempt,
            retry_at=event.retry_at,
            remote=None,
        )
    failed = state.with_task(
        event.task_id, status=TaskStatus.FAILED, attempt=event.attempt, retry_at=None, remote=None
    )
    return _with_failure(failed, is_leaf=event.is_leaf)


def _with_failure(state: ExecutionState, *, is_leaf: bool) -> ExecutionState:
    return replace(state, layer_failed=True, failed_leaf=state.failed_leaf or is_leaf)


@_apply.register
def _(event: ev.TaskEscalated, state: ExecutionState) -> ExecutionState:
    need = Escalation(event.operation, event.resource, event.current, event.requested, event.line)
    return state.with_task(event.task_id, status=TaskStatus.PENDING, escalation=need)


@_apply.register
def _(event: ev.HoldOpened, state: ExecutionState) -> ExecutionState:
    hold = Hold(
        id=event.hold_id,
        reason=event.reason,
        decider=event.decider,
        task_id=event.task_id,
        phase=event.phase,
        quorum=event.quorum,
        on_reject=event.on_reject,
        on_timeout=event.on_timeout,
    )
    holds = (*state.holds, hold)
    human = any(each.decider == "human" for each in holds)
    status = _S.PAUSED_FOR_REVIEW if human else _S.AWAITING_AGENT
    if event.shown is not None and event.task_id:
        state = state.with_task(event.task_id, edits=event.shown)
    return replace(state, holds=holds, holds_opened=state.holds_opened + 1, status=status)


@_apply.register
def _(event: ev.ReviewSpared, state: ExecutionState) -> ExecutionState:
    # Recorded like an approval, so a retry or resume does not evaluate the rule again.
    return state.with_task(event.task_id, cleared=True)


@_apply.register
def _(event: ev.HoldVoted, state: ExecutionState) -> ExecutionState:
    holds = tuple(
        replace(
            hold,
            approvals=(*hold.approvals, event.voter),
            approver_ids=(*hold.approver_ids, event.voter_id),
        )
        if hold.id == event.hold_id
        else hold
        for hold in state.holds
    )
    return replace(state, holds=holds)


@_apply.register
def _(event: ev.HoldEscalated, state: ExecutionState) -> ExecutionState:
    holds = tuple(
        replace(hold, escalated=event.step + 1) if hold.id == event.hold_id else hold
        for hold in state.holds
    )
    return replace(state, holds=holds)


@_apply.register
def _(event: ev.HoldAnswered, state: ExecutionState) -> ExecutionState:
    hold = state.hold(event.hold_id)
    # Events that were recorded before `answer` existed have none.
    if hold is None or event.answer is None:
        return state
    return _with_hold(state, replace(hold, answer=event.answer))


@_apply.register
def _(event: ev.HoldWithdrawn, state: ExecutionState) -> ExecutionState:
    hold = state.hold(event.hold_id)
    if hold is None:
        return state
    if event.what == "decision":
        return _with_hold(state, replace(hold, answer=None))
    votes = zip(hold.approvals, hold.approver_ids, strict=True)
    left = [(name, user_id) for name, user_id in votes if user_id != event.voter_id]
    approvals = tuple(name for name, _ in left)
    approver_ids = tuple(user_id for _, user_id in left)
    return _with_hold(state, replace(hold, approvals=approvals, approver_ids=approver_ids))


def _with_hold(state: ExecutionState, other: Hold) -> ExecutionState:
    holds = tuple(other if hold.id == other.id else hold for hold in state.holds)
    return replace(state, holds=holds)


@_apply.register
def _(event: ev.HoldDecided, state: ExecutionState) -> ExecutionState:
    decided = state.hold(event.hold_id)
    holds = tuple(hold for hold in state.holds if hold.id != event.hold_id)
    after = _DECIDED[event.reason](event, replace(state, holds=holds))
    if decided is not None and decided.outdated:
        after = replace(after, approved=False)
    return replace(after, status=_S.RUNNING) if event.resumed else after


def _node_decided(event: ev.HoldDecided, state: ExecutionState) -> ExecutionState:
    task_id = event.task_id or ""
    if event.decision == "APPROVE":
        return state.with_task(task_id, cleared=True, edits=_edits(event, state, task_id))
    if event.decision == "REQUEST_CHANGES":
        return _sent_back(event, state, task_id)
    if event.on_reject == "skip":
        return state.with_task(task_id, status=TaskStatus.SKIPPED, skip=SkipReason.REVIEWER)
    rejected = state.with_task(task_id, status=TaskStatus.REJECTED)
    return _with_failure(rejected, is_leaf=event.is_leaf)


def _edits(event: ev.HoldDecided, state: ExecutionState, task_id: str) -> dict[str, Any] | None:
    """Return the values that override the task's inputs: those shown, plus the reviewer's edits."""
    if event.phase != "BEFORE_EXECUTION":
        return None
    known = state.tasks.get(task_id, TaskState()).edits
    return {**(known or {}), **(event.edits or {})} or None


def _sent_back(event: ev.HoldDecided, state: ExecutionState, task_id: str) -> ExecutionState:
    """Run the task again with the feedback, followed by another review."""
    task = state.tasks.get(task_id, TaskState())
    return state.with_task(
        task_id,
        status=TaskStatus.PENDING,
        cleared=False,
        feedback=(*task.feedback, event.comment),
        sent_back_by=event.hold_id,
        sent_back_at=task.attempt,
        waits_for_caller=event.waits_for_caller,
        waits_until=event.waits_until,
    )


@_apply.register
def _(event: ev.TaskResubmitted, state: ExecutionState) -> ExecutionState:
    # Edits of an earlier round do not apply to the new values.
    return state.with_task(
        event.task_id,
        waits_for_caller=False,
        waits_until=None,
        resubmitted=event.resubmitted,
        edits=None,
    )


@_apply.register
def _(event: ev.ResultReported, state: ExecutionState) -> ExecutionState:
    return replace(state, result_reported=True)


def _escalation_decided(event: ev.HoldDecided, state: ExecutionState) -> ExecutionState:
    task_id = event.task_id or ""
    if event.decision == "REJECT":
        failed = state.with_task(task_id, status=TaskStatus.FAILED, escalation=None)
        return _with_failure(failed, is_leaf=event.is_leaf)
    granted = (event.grant,) if event.grant else ()
    task = state.tasks.get(task_id, TaskState())
    after = state.with_task(task_id, escalation=None, grants=(*task.grants, *granted))
    wider = granted if event.grant_scope == "execution" else ()
    return replace(after, grants=(*state.grants, *wider))


def _approval_decided(event: ev.HoldDecided, state: ExecutionState) -> ExecutionState:
    return replace(state, approved=event.decision == "APPROVE")


def _validation_decided(event: ev.HoldDecided, state: ExecutionState) -> ExecutionState:
    return replace(state, stage=Stage.APPROVAL)


def _agent_hold_decided(event: ev.HoldDecided, state: ExecutionState) -> ExecutionState:
    return replace(state, stage=Stage.VALIDATION, agent_requested=False)


def _plan_change_decided(event: ev.HoldDecided, state: ExecutionState) -> ExecutionState:
    return replace(state, proposal=None)


_DECIDED: dict[HoldReason, Callable[[ev.HoldDecided, ExecutionState], ExecutionState]] = {
    HoldReason.NODE_REVIEW: _node_decided,
    HoldReason.ESCALATION: _escalation_decided,
    HoldReason.LAYER_APPROVAL: _approval_decided,
    HoldReason.LAYER_VALIDATION: _validation_decided,
    HoldReason.AGENT_DECISION: _agent_hold_decided,
    HoldReason.REPLAN_REVIEW: _plan_change_decided,
}


@_apply.register
def _(event: ev.LayerClosed, state: ExecutionState) -> ExecutionState:
    return replace(state, stage=Stage.AGENT)


@_apply.register
def _(event: ev.LayerSkipRequested, state: ExecutionState) -> ExecutionState:
    return replace(state, skipped_tasks=state.skipped_tasks.union(event.tasks))


@_apply.register
def _(event: ev.LayerSkipped, state: ExecutionState) -> ExecutionState:
    return replace(
        state,
        layer=event.layer,
        stage=Stage.APPROVAL,
        approved=False,
        tasks={},
        layer_failed=False,
        skipped_tasks=state.skipped_tasks.difference(event.tasks),
    )


@_apply.register
def _(event: ev.AgentRequested, state: ExecutionState) -> ExecutionState:
    return replace(state, agent_requested=True)


@_apply.register
def _(event: ev.AgentDecided, state: ExecutionState) -> ExecutionState:
    return replace(state, stage=Stage.VALIDATION, agent_requested=False)


@_apply.register
def _(event: ev.AgentFailed, state: ExecutionState) -> ExecutionState:
    # If an external agent timed out, a separate event decides its hold.
    if event.hold_id is not None:
        return state
    return replace(state, stage=Stage.VALIDATION, agent_requested=False)


@_apply.register
def _(event: ev.PlanRevised, state: ExecutionState) -> ExecutionState:
    # A reviewed replan was counted when it was proposed.
    replans = state.replans + (event.cause == "replan" and event.hold_id is None)
    return replace(
        _without_approval(state),
        revision=event.revision,
        total_layers=event.total_layers,
        failed_leaf=state.failed_leaf or event.failed_leaf,
        replans=replans,
        skipped_tasks=state.skipped_tasks.difference(event.removed),
    )


@_apply.register
def _(event: ev.ReplanFailed, state: ExecutionState) -> ExecutionState:
    return replace(state, failed_replans=state.failed_replans + 1)


@_apply.register
def _(event: ev.ContextUpdated, state: ExecutionState) -> ExecutionState:
    return _without_approval(state) if event.unsigns else state


def _without_approval(state: ExecutionState) -> ExecutionState:
    """Invalidate approvals of the next layer: its plan or context has changed since."""
    holds = tuple(replace(hold, outdated=True) for hold in state.holds)
    return replace(state, approved=False, holds=holds)


@_apply.register
def _(event: ev.PlanProposed, state: ExecutionState) -> ExecutionState:
    replans = state.replans + (event.cause == "replan")
    return replace(state, proposal=event.proposal, replans=replans)


@_apply.register
def _(event: ev.ExecutionCompleted, state: ExecutionState) -> ExecutionState:
    return replace(state, status=_S.COMPLETED, tasks={})


@_apply.register
def _(event: ev.ExecutionFailed, state: ExecutionState) -> ExecutionState:
    return replace(state, status=_S.FAILED, holds=(), tasks={})


@_apply.register
def _(event: ev.ExecutionAborted, state: ExecutionState) -> ExecutionState:
    return replace(state, status=_S.ABORTED, holds=(), tasks={}, proposal=None)
