"""`decide(state, command, ctx)`: returns the events of a command, or refuses it with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch
from typing import Any, Literal

from . import commands as cmd
from . import events as ev
from .dag import CapabilityTask, Plan, reads_context
from .decision_context import DecisionContext, Refused
from .permissions import PermissionSet
from .plan_diff import change_between
from .plan_validation import Problem
from .policy import TriggerPhase
from .replanning import (
    OPEN_PROPOSAL,
    accept_proposal,
    check_replan,
    context_events,
    propose,
    revise,
)
from .required_reviews import gates_of_layer, with_values
from .state import ExecutionState, Hold, HoldAnswer, HoldReason
from .status import ExecutionStatus

NOTHING_NEW = "The planner found nothing to change in the plan."

__all__ = ["DecisionContext", "Refused", "check_replan", "decide"]


def decide(state: ExecutionState, command: object, ctx: DecisionContext) -> tuple[ev.Event, ...]:
    """Return the events of `command`.

    Raises:
        Refused: the command does not apply in this state.
    """
    if state.status.is_final:
        raise Refused("final", f"The run has ended ({state.status}); it takes no more commands.")
    return tuple(_decide(command, state, ctx))


@singledispatch
def _decide(command: object, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    raise TypeError(f"not a command: {command!r}")


@_decide.register
def _(command: cmd.Continue, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    hold = _agent_hold(state)
    if hold is None:
        raise Refused("not_waiting", "The run does not wait for `continue`.")
    return [_decided(state, hold, ctx, decision="APPROVE", comment=command.reason)]


def _agent_hold(state: ExecutionState) -> Hold | None:
    return next((hold for hold in state.holds if hold.decider == "agent"), None)


@_decide.register
def _(command: cmd.Abort, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    return [ev.ExecutionAborted(reason=command.reason or "aborted")]


@_decide.register
def _(
    command: cmd.FailExecution, state: ExecutionState, ctx: DecisionContext
) -> Iterable[ev.Event]:
    if state.status is ExecutionStatus.PENDING:
        layers = ctx.revision.layers
        total = sum(len(layer) for layer in layers)
        yield ev.ExecutionStarted(total_layers=len(layers), total_tasks=total)
    yield ev.ExecutionFailed(error=_abandonment_reason(command, state))


def _abandonment_reason(command: cmd.FailExecution, state: ExecutionState) -> str:
    """Return why the run is abandoned, with the tasks that were running."""
    why = f"given up: {command.lost} workers in a row ended without recording a step"
    running = [name for name, task in state.tasks.items() if not task.status.is_final]
    if running:
        why += f"; tasks under way: {', '.join(running)}"
    return f"{why}; {command.error}" if command.error else why


@_decide.register
def _(command: cmd.UpdateState, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    following = state.layer + 1
    reads = following < len(ctx.revision.layers) and any(
        reads_context(task) for task in ctx.revision.tasks(following)
    )
    return [ev.ContextUpdated(updates=command.updates, unsigns=reads)]


@_decide.register
def _(command: cmd.AddMessage, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    author = command.author or ctx.actor
    said = ev.MessageAdded(role=command.role, content=command.content, author=author)
    if not command.ask_agent:
        return [said]
    if not ctx.policy.ail.enabled:
        raise Refused("no_agent", "No agent decides in this run: its policy enables none (ail).")
    return [said, ev.AgentRequested()]


@_decide.register
def _(command: cmd.SkipLayer, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    wanted = state.layer + 1 if command.layer is None else command.layer
    if not state.layer < wanted < state.total_layers:
        raise Refused("begun", f"Layer {wanted} has begun or does not exist.")
    if wanted in state.skips:
        raise Refused("skipped", f"Layer {wanted} will be skipped already.")
    gates = gates_of_layer(ctx.revision, wanted, ctx.policy)
    if gates:
        raise Refused(
            "gated",
            f"Layer {wanted} needs {gates}, so it cannot be skipped. Decide it, or abort the run.",
        )
    return [ev.LayerSkipRequested(layer=wanted)]


# --- decisions on holds -------------------------------------------------------------------------


@_decide.register(cmd.ApprovalResponse)
@_decide.register(cmd.CheckpointResponse)
def _(
    command: cmd.ApprovalResponse | cmd.CheckpointResponse,
    state: ExecutionState,
    ctx: DecisionContext,
) -> Iterable[ev.Event]:
    hold = _open_hold(state, command.hold)
    events = _response(command, state, hold, ctx)
    return _with_undo_window(command, ctx, events) if command.undo_seconds else events


def _response(
    command: cmd.ApprovalResponse | cmd.CheckpointResponse,
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
) -> list[ev.Event]:
    edited = command.changes_payload
    if command.set_output_null and hold.phase is not TriggerPhase.AFTER_EXECUTION:
        message = "Only the output of a task can be set to null."
        raise Refused("no_edits", message, (Problem("set_output_null", "no_output", message),))
    if edited and hold.reason not in _EDITABLE:
        raise Refused("no_edits", "Only a node review or a plan review takes edits.")
    if command.request_changes:
        return _changes_requested(state, hold, ctx, command)
    if not command.approved:
        return _rejection(state, hold, ctx, comment=command.feedback)
    if ctx.actor in hold.approvals:
        raise Refused("already_voted", "You have approved this already; the quorum needs others.")
    if edited and hold.quorum > 1:
        # Earlier approvals would count for an edited payload that their authors never saw.
        raise Refused(
            "no_edits",
            "Several people approve the same here, so nobody changes it:"
            " ask for changes, or reject.",
        )
    if len(hold.approvals) + 1 < hold.quorum:
        vote = ev.HoldVoted(
            hold_id=hold.id, voter=ctx.actor, task_id=hold.task_id, phase=hold.phase
        )
        return [vote]
    if hold.reason is HoldReason.ESCALATION:
        return _grant(state, hold, ctx, command)
    if hold.reason is HoldReason.REPLAN_REVIEW:
        return _accept_plan_change(state, hold, ctx, command.edits, comment=command.feedback)
    return [_approval(state, hold, ctx, command)]


def _changes_requested(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    command: cmd.ApprovalResponse | cmd.CheckpointResponse,
) -> list[ev.Event]:
    """Run the task again with the feedback, and add the feedback to the conversation."""
    problem = changes_problem(state, hold, ctx)
    if problem:
        raise Refused(*problem)
    if command.approved or command.changes_payload:
        raise Refused("no_edits", "A request for changes neither approves nor edits.")
    if not command.feedback.strip():
        raise Refused("no_feedback", "Say what should be changed.")
    decided = _decided(state, hold, ctx, decision="REQUEST_CHANGES", comment=command.feedback)
    content = f"Changes requested for {hold.task_id}: {command.feedback}"
    return [decided, ev.MessageAdded(role="user", content=content, author=ctx.actor)]


def changes_problem(
    state: ExecutionState, hold: Hold, ctx: DecisionContext
) -> tuple[str, str] | None:
    """Return why changes cannot be requested at this hold, as a code and a message, or None."""
    task = ctx.revision.plan.by_id.get(hold.task_id or "")
    review = task.human_review if task else None
    if hold.phase is not TriggerPhase.AFTER_EXECUTION or review is None or hold.task_id is None:
        return "no_changes", "Only the output of a task can be sent back to be changed."
    known = state.tasks.get(hold.task_id)
    asked = len(known.feedback) if known else 0
    if asked >= review.max_change_requests:
        times = f"{asked} time{'' if asked == 1 else 's'}"
        return "no_more_changes", f"Changes were requested {times}, and no more can be."
    return None


_EDITABLE = (HoldReason.NODE_REVIEW, HoldReason.REPLAN_REVIEW)


def _open_hold(state: ExecutionState, hold_id: str) -> Hold:
    hold = state.hold(hold_id)
    if hold is None:
        raise Refused("no_such_hold", f"{hold_id} is not open; it may be decided already.")
    if hold.answer is not None:
        raise Refused("no_such_hold", f"{hold.answer.actor} has decided {hold_id} just now.")
    return hold


# --- undo ---------------------------------------------------------------------------------------


def _with_undo_window(
    command: cmd.ApprovalResponse | cmd.CheckpointResponse,
    ctx: DecisionContext,
    events: list[ev.Event],
) -> list[ev.Event]:
    """Replace the decision by an answer that can be undone; a vote stays a vote."""
    decided = next((each for each in events if isinstance(each, ev.HoldDecided)), None)
    if decided is None:
        return events
    data = command.model_dump(mode="json", exclude={"kind", "undo_seconds"})
    noted = ev.HoldAnswered(
        hold_id=decided.hold_id,
        reason=decided.reason,
        decision=decided.decision,
        task_id=decided.task_id,
        phase=decided.phase,
        edited=decided.edited,
        comment=decided.comment,
        undo_seconds=command.undo_seconds,
        answer=HoldAnswer(ctx.actor, data),
    )
    return [noted]


@_decide.register
def _(command: cmd.SettleAnswer, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    hold = state.hold(command.hold)
    if hold is None or hold.answer is None:
        raise Refused("not_answered", f"{command.hold} has no answer that waits.")
    given = cmd.ApprovalResponse.model_validate(hold.answer.command)
    events = _response(given, state, hold, replace(ctx, actor=hold.answer.actor))
    return [
        each.model_copy(update={"answered": True}) if isinstance(each, ev.HoldDecided) else each
        for each in events
    ]


@_decide.register
def _(
    command: cmd.WithdrawAnswer, state: ExecutionState, ctx: DecisionContext
) -> Iterable[ev.Event]:
    hold = state.hold(command.hold)
    if hold is None:
        message = "This decision has taken effect; it cannot be taken back any more."
        raise Refused("gone_on", message)
    what: Literal["decision", "vote"] = "decision" if hold.answer else "vote"
    said = (hold.answer.actor,) if hold.answer else hold.approvals
    if command.of not in said:
        raise Refused("nothing_to_withdraw", f"{command.of} has said nothing to take back.")
    taken_back = ev.HoldWithdrawn(
        hold_id=hold.id, task_id=hold.task_id, phase=hold.phase, voter=command.of, what=what
    )
    return [taken_back]


def _approval(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    command: cmd.ApprovalResponse | cmd.CheckpointResponse,
) -> ev.HoldDecided:
    event = _decided(state, hold, ctx, decision="APPROVE", comment=command.feedback)
    if not command.changes_payload:
        return event
    return event.model_copy(update={"edits": command.edits, "edited": True})


def _grant(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    command: cmd.ApprovalResponse | cmd.CheckpointResponse,
) -> list[ev.Event]:
    """Grant exactly the requested permissions, with the scope of the command."""
    task_id = hold.task_id or ""
    task, need = ctx.revision.plan.by_id[task_id], state.tasks[task_id].escalation
    _check_scope(command, task)
    if need is None:
        raise Refused("no_escalation", f"{task_id} does not ask for a permission any more.")
    granted = PermissionSet.model_validate(need.requested).difference(
        PermissionSet.model_validate(need.current)
    )
    changes = {
        "grant": granted.model_dump(mode="json"),
        "grant_scope": command.grant_scope,
        "grant_seconds": command.grant_seconds,
        "operation": need.operation,
        "resource": need.resource,
    }
    decided = _approval(state, hold, ctx, command).model_copy(update=changes)
    if command.grant_scope != "capability" or not isinstance(task, CapabilityTask):
        return [decided]
    raised = ev.CapabilityPermissionUpdated(
        capability=task.capability,
        task_id=task_id,
        hold_id=hold.id,
        granted=granted.model_dump(mode="json"),
    )
    return [decided, raised]


def _check_scope(command: cmd.ApprovalResponse | cmd.CheckpointResponse, task: object) -> None:
    scope, is_timed = command.grant_scope, command.grant_seconds is not None
    if scope == "capability" and not isinstance(task, CapabilityTask):
        raise Refused("bad_scope", "Only a capability's own permission can be raised.")
    if is_timed != (scope == "until"):
        words = "needs its length in grant_seconds" if scope == "until" else "has no length"
        raise Refused("bad_scope", f"A grant with the scope {scope!r} {words}.")


def _decided(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    *,
    decision: ev.Verdict,
    comment: str = "",
    by_timeout: bool = False,
    goes_on: bool = True,
) -> ev.HoldDecided:
    return ev.HoldDecided(
        hold_id=hold.id,
        reason=hold.reason,
        decision=decision,
        task_id=hold.task_id,
        phase=hold.phase,
        comment=comment,
        by_timeout=by_timeout,
        resumed=goes_on and len(state.holds) == 1,
        is_leaf=hold.task_id in ctx.revision.plan.leaves if hold.task_id else False,
        on_reject=hold.on_reject,
    )


def _rejection(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    *,
    comment: str,
    by_timeout: bool = False,
) -> list[ev.Event]:
    aborts = _aborts(hold)
    decided = _decided(
        state,
        hold,
        ctx,
        decision="REJECT",
        comment=comment,
        by_timeout=by_timeout,
        goes_on=not aborts,
    )
    if not aborts:
        return [decided]
    what = hold.task_id or hold.reason.value.replace("_", " ")
    return [decided, ev.ExecutionAborted(reason=comment or f"{what} was rejected")]


def _aborts(hold: Hold) -> bool:
    if hold.reason is HoldReason.NODE_REVIEW:
        return hold.on_reject == "abort"
    return hold.reason not in (HoldReason.ESCALATION, HoldReason.REPLAN_REVIEW)


# --- time ---------------------------------------------------------------------------------------


@_decide.register
def _(command: cmd.ExpireHold, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    hold = _open_hold(state, command.hold)
    expired = ev.HoldExpired(
        hold_id=hold.id, task_id=hold.task_id, phase=hold.phase, on_timeout=hold.on_timeout
    )
    comment = "nobody decided in time"
    match hold.on_timeout:
        case "keep_waiting":
            raise Refused("keeps_waiting", "This hold has no end.")
        case "approve" if hold.reason is HoldReason.REPLAN_REVIEW:
            return [expired, *_plan_change_by_timeout(state, hold, ctx, comment)]
        case "approve":
            return [expired, _approval_by_timeout(state, hold, ctx, comment)]
        case "continue":
            agent = ctx.policy.ail.agent
            late = ev.AgentFailed(agent=agent, error=comment, hold_id=hold.id)
            return [late, _approval_by_timeout(state, hold, ctx, comment)]
        case "reject":
            return [expired, *_rejection(state, hold, ctx, comment=comment, by_timeout=True)]
        case "abort":
            return [expired, ev.ExecutionAborted(reason=comment)]


def _approval_by_timeout(
    state: ExecutionState, hold: Hold, ctx: DecisionContext, comment: str
) -> ev.HoldDecided:
    event = _decided(state, hold, ctx, decision="APPROVE", comment=comment, by_timeout=True)
    if hold.reason is HoldReason.ESCALATION:  # pragma: no cover - never opened with that default
        raise Refused("no_silent_grant", "Time alone grants no permission.")
    return event


@_decide.register
def _(command: cmd.ExtendHold, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    hold = _open_hold(state, command.hold)
    extended = ev.HoldExtended(
        hold_id=hold.id, task_id=hold.task_id, phase=hold.phase, seconds=command.seconds
    )
    return [extended]


@_decide.register
def _(command: cmd.EscalateHold, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    hold = _open_hold(state, command.hold)
    if command.step != hold.escalated:
        raise Refused("step_taken", f"Step {command.step + 1} is not the next of this hold.")
    return [
        ev.HoldEscalated(
            hold_id=hold.id,
            task_id=hold.task_id,
            phase=hold.phase,
            step=command.step,
            groups=command.groups,
            told=command.tell,
        )
    ]


# --- changes of the plan ------------------------------------------------------------------------


@_decide.register
def _(command: cmd.Replan, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    """Checked before the planner is asked; its answer comes back as RevisePlan."""
    check_replan(state, ctx)
    return []


@_decide.register
def _(command: cmd.RevisePlan, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    check_replan(state, ctx)
    if command.plan is None:
        return [ev.ReplanFailed(requirement=command.requirement, error=command.error)]
    if change_between(ctx.revision.plan, command.plan).is_empty:
        return [ev.ReplanFailed(requirement=command.requirement, error=NOTHING_NEW)]
    revised = revise(
        state,
        ctx,
        command.plan,
        cause="replan",
        requirement=command.requirement,
        why=command.why,
    )
    events: list[ev.Event]
    if ctx.policy.replan_review.enabled:
        events = [
            propose(
                ctx,
                revised,
                requirement=command.requirement,
                context=command.available_context,
            )
        ]
    else:
        events = [*context_events(command.available_context), revised]
    hold = _agent_hold(state)
    if hold is not None:
        comment = f"replan: {command.requirement}"
        events.append(_decided(state, hold, ctx, decision="APPROVE", comment=comment))
    return events


def _accept_plan_change(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    edits: Any,
    *,
    comment: str,
    by_timeout: bool = False,
) -> list[ev.Event]:
    """Apply the proposed change, without the tasks that the reviewer dropped."""
    dropped, events = accept_proposal(state, ctx, hold.id, edits)
    decided = _decided(state, hold, ctx, decision="APPROVE", comment=comment, by_timeout=by_timeout)
    if dropped:
        changes = {"edits": {"drop": sorted(dropped)}, "edited": True}
        decided = decided.model_copy(update=changes)
    return [decided, *events]


def _plan_change_by_timeout(
    state: ExecutionState, hold: Hold, ctx: DecisionContext, comment: str
) -> list[ev.Event]:
    """Accept the plan change at its timeout; reject it if it no longer fits the plan."""
    try:
        return _accept_plan_change(state, hold, ctx, None, comment=comment, by_timeout=True)
    except Refused as refusal:
        reason = f"{comment}; the change no longer fits: {refusal.message}"
        return _rejection(state, hold, ctx, comment=reason, by_timeout=True)


@_decide.register
def _(command: cmd.InjectTask, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    plan = ctx.revision.plan
    if command.task.id in plan.by_id:
        raise Refused("duplicate_task", f"There is a task {command.task.id} already.")
    grown = Plan(tasks=(*plan.tasks, command.task))
    return _change_plan(state, ctx, grown, "inject_task", f"add the task {command.task.id}")


@_decide.register
def _(command: cmd.ModifyArgs, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    plan = ctx.revision.plan
    task = plan.by_id.get(command.task_id)
    if task is None:
        raise Refused("no_such_task", f"The plan has no task {command.task_id}.")
    begun = {name for layer in ctx.revision.layers[: state.layer + 1] for name in layer}
    if command.task_id in begun:
        raise Refused("begun", f"{command.task_id} has run, or its layer has begun.")
    changed = with_values(
        plan, task, command.arguments, ended=ctx.finished_tasks(sorted(task.needs)).keys()
    )
    tasks = tuple(changed if each.id == task.id else each for each in plan.tasks)
    return _change_plan(
        state, ctx, Plan(tasks=tasks), "modify_args", f"change the inputs of {task.id}"
    )


def _change_plan(
    state: ExecutionState,
    ctx: DecisionContext,
    plan: Plan,
    cause: Literal["inject_task", "modify_args"],
    requirement: str,
) -> list[ev.Event]:
    """Change the plan by a command: record a revision, or a proposal if the policy reviews plans.

    `replan_review` covers every change of the plan.  Otherwise an agent could avoid the review of
    its replan with `inject_task`.
    """
    if state.proposal is not None:
        raise Refused("replan_open", OPEN_PROPOSAL)
    revised = revise(state, ctx, plan, cause=cause, requirement=requirement)
    if not ctx.policy.replan_review.enabled:
        return [revised]
    return [propose(ctx, revised, requirement=requirement, context={})]
