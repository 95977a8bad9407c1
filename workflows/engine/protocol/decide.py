"""`decide(state, command, ctx)`: returns the events of a command, or refuses it with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch
from typing import Any, Literal

from workflows.engine.plans.dag import CapabilityTask, ExternalActionTask, Plan, reads_context
from workflows.engine.plans.diff import change_between
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.policy.policies import ReviewPolicy, TriggerPhase
from workflows.engine.values.bounded_json import digest
from workflows.engine.values.reasons import Reason, reason_fields

from . import commands as cmd
from . import events as ev
from .decision_context import DecisionContext, Refused
from .replanning import (
    accept_proposal,
    check_replan,
    context_events,
    propose,
    revise,
)
from .required_reviews import gates_of_layer, takes_changes, with_values
from .state import ExecutionState, Hold, HoldAnswer, HoldReason, TaskState
from .status import ExecutionStatus

__all__ = ["DecisionContext", "Refused", "check_replan", "decide"]


def decide(state: ExecutionState, command: object, ctx: DecisionContext) -> tuple[ev.Event, ...]:
    """Return the events of `command`.

    Raises:
        Refused: the command does not apply in this state.
    """
    if state.status.is_final and not isinstance(command, cmd.ReportResult):
        raise Refused("final", Reason("run_has_ended", {"status": state.status.value}))
    return tuple(_decide(command, state, ctx))


@singledispatch
def _decide(command: object, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    raise TypeError(f"not a command: {command!r}")


@_decide.register
def _(command: cmd.Continue, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    hold = _agent_hold(state)
    if hold is None:
        raise Refused("not_waiting", Reason("not_waiting_for_continue"))
    return [_decided(state, hold, ctx, decision="APPROVE", comment=command.reason)]


def _agent_hold(state: ExecutionState) -> Hold | None:
    return next((hold for hold in state.holds if hold.decider == "agent"), None)


@_decide.register
def _(command: cmd.Abort, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    return [ev.ExecutionAborted(**reason_fields("reason", command.reason or Reason("aborted")))]


@_decide.register
def _(
    command: cmd.FailExecution, state: ExecutionState, ctx: DecisionContext
) -> Iterable[ev.Event]:
    if state.status is ExecutionStatus.PENDING:
        layers = ctx.revision.layers
        total = sum(len(layer) for layer in layers)
        yield ev.ExecutionStarted(total_layers=len(layers), total_tasks=total)
    yield ev.ExecutionFailed(**reason_fields("error", _abandonment_reason(command, state)))


def _abandonment_reason(command: cmd.FailExecution, state: ExecutionState) -> Reason:
    """Return why the run is abandoned, with the tasks that were running."""
    reason = Reason("workers_lost", {"lost": command.lost})
    running = [name for name, task in state.tasks.items() if not task.status.is_final]
    if running:
        names = ", ".join(running)
        reason = Reason("workers_lost_running", {"reason": reason, "tasks": names})
    if command.error:
        return Reason("workers_lost_error", {"reason": reason, "error": command.error})
    return reason


@_decide.register
def _(command: cmd.UpdateState, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    following = state.layer + 1
    reads = following < len(ctx.revision.layers) and any(
        reads_context(task) for task in ctx.revision.tasks(following)
    )
    return [ev.ContextUpdated(updates=command.updates, unsigns=reads)]


@_decide.register
def _(command: cmd.AddMessage, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    author = command.author or ctx.actor.name
    said = ev.MessageAdded(role=command.role, content=command.content, author=author)
    if not command.ask_agent:
        return [said]
    if not ctx.policy.ail.enabled:
        raise Refused("no_agent", Reason("no_agent_decides"))
    return [said, ev.AgentRequested()]


@_decide.register
def _(command: cmd.SkipLayer, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    wanted = state.layer + 1 if command.layer is None else command.layer
    if not state.layer < wanted < state.total_layers:
        raise Refused("begun", Reason("layer_has_begun", {"layer": wanted}))
    tasks = ctx.revision.layers[wanted]
    if state.skipped_tasks.issuperset(tasks):
        raise Refused("skipped", Reason("layer_is_skipped", {"layer": wanted}))
    gates = gates_of_layer(ctx.revision, wanted, ctx.policy)
    if gates:
        raise Refused("gated", Reason("layer_needs_decision", {"layer": wanted, "gates": gates}))
    return [ev.LayerSkipRequested(layer=wanted, tasks=tasks)]


# --- decisions on holds -------------------------------------------------------------------------


@_decide.register(cmd.ApprovalResponse)
@_decide.register(cmd.CheckpointResponse)
def _(
    command: cmd.ApprovalResponse | cmd.CheckpointResponse,
    state: ExecutionState,
    ctx: DecisionContext,
) -> Iterable[ev.Event]:
    hold = _open_hold(state, command.hold)
    if command.standing is not None:
        _check_standing(command, hold, ctx)
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
        reason = Reason("null_output_only")
        raise Refused("no_edits", reason, (Problem("set_output_null", "no_output", reason.text),))
    if edited and hold.reason not in _EDITABLE:
        raise Refused("no_edits", Reason("edits_not_taken"))
    if command.request_changes:
        return _changes_requested(state, hold, ctx, command)
    if not command.approved:
        return _rejection(state, hold, ctx, comment=command.feedback)
    if ctx.actor.id in hold.approver_ids:
        raise Refused("already_voted", Reason("quorum_needs_others"))
    if edited and hold.quorum > 1:
        # Earlier approvals would count for an edited payload that their authors never saw.
        raise Refused("no_edits", Reason("quorum_takes_no_edits"))
    if len(hold.approvals) + 1 < hold.quorum:
        vote = ev.HoldVoted(
            hold_id=hold.id,
            voter=ctx.actor.name,
            voter_id=ctx.actor.id,
            task_id=hold.task_id,
            phase=hold.phase,
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
        raise Refused("no_edits", Reason("changes_without_edits"))
    if not command.feedback.strip():
        raise Refused("no_feedback", Reason("feedback_missing"))
    decided = _decided(state, hold, ctx, decision="REQUEST_CHANGES", comment=command.feedback)
    task = ctx.revision.plan.by_id[hold.task_id or ""]
    if isinstance(task, ExternalActionTask):
        # The caller has as long as the reviewers had.
        seconds = task.human_review.seconds_to_deadline if task.human_review else None
        until = None if seconds is None else ctx.now + seconds
        return [decided.model_copy(update={"waits_for_caller": True, "waits_until": until})]
    content = f"Changes requested for {hold.task_id}: {command.feedback}"
    return [decided, ev.MessageAdded(role="user", content=content, author=ctx.actor.name)]


def changes_problem(
    state: ExecutionState, hold: Hold, ctx: DecisionContext
) -> tuple[str, Reason] | None:
    """Return why changes cannot be requested at this hold, as a code and a reason, or None."""
    task = ctx.revision.plan.by_id.get(hold.task_id or "")
    review = task.human_review if task else None
    if hold.phase is None or task is None or review is None or not takes_changes(task):
        return "no_changes", Reason("changes_of_output_only")
    known = state.tasks.get(task.id)
    asked = len(known.feedback) if known else 0
    if asked >= review.max_change_requests:
        if asked == 1:
            return "no_more_changes", Reason("no_more_changes_once")
        return "no_more_changes", Reason("no_more_changes", {"times": asked})
    return None


def _check_standing(
    command: cmd.ApprovalResponse | cmd.CheckpointResponse, hold: Hold, ctx: DecisionContext
) -> None:
    """Raise Refused unless the approval of this hold may cover later actions.

    The policy of the action's name is checked outside, when it is given and at each use.
    """
    task = ctx.revision.plan.by_id.get(hold.task_id or "")
    if not isinstance(task, ExternalActionTask) or hold.phase is not TriggerPhase.BEFORE_EXECUTION:
        raise Refused("no_standing_answer", Reason("standing_before_actions"))
    if not command.approved:
        raise Refused("no_standing_answer", Reason("standing_needs_approval"))
    if hold.quorum > 1:
        # Each approver of a quorum would have to state the same terms.
        raise Refused("no_standing_answer", Reason("standing_without_quorum"))


_EDITABLE = (HoldReason.NODE_REVIEW, HoldReason.REPLAN_REVIEW)


def _open_hold(state: ExecutionState, hold_id: str) -> Hold:
    hold = state.hold(hold_id)
    if hold is None:
        raise Refused("no_such_hold", Reason("hold_not_open", {"hold": hold_id}))
    if hold.answer is not None:
        params = {"actor": hold.answer.actor, "hold": hold_id}
        raise Refused("no_such_hold", Reason("hold_just_decided", params))
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
        answer=HoldAnswer(ctx.actor.name, data, ctx.actor.id, ctx.actor.token),
    )
    return [noted]


@_decide.register
def _(command: cmd.SettleAnswer, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    hold = state.hold(command.hold)
    if hold is None or hold.answer is None:
        raise Refused("not_answered", Reason("no_answer_waits", {"hold": command.hold}))
    given = cmd.ApprovalResponse.model_validate(hold.answer.command)
    events = _response(given, state, hold, replace(ctx, actor=hold.answer.by))
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
        raise Refused("gone_on", Reason("decision_took_effect"))
    what: Literal["decision", "vote"] = "decision" if hold.answer else "vote"
    if hold.answer is not None:
        names = {hold.answer.actor_id: hold.answer.actor}
    else:
        names = dict(zip(hold.approver_ids, hold.approvals, strict=True))
    if command.of not in names:
        raise Refused("nothing_to_withdraw", Reason("nothing_said"))
    withdrawn = ev.HoldWithdrawn(
        hold_id=hold.id,
        task_id=hold.task_id,
        phase=hold.phase,
        voter=names[command.of],
        voter_id=command.of,
        what=what,
    )
    return [withdrawn]


def _approval(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    command: cmd.ApprovalResponse | cmd.CheckpointResponse,
) -> ev.HoldDecided:
    event = _decided(state, hold, ctx, decision="APPROVE", comment=command.feedback)
    if command.standing is not None:
        event = event.model_copy(update={"standing": command.standing})
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
        raise Refused("no_escalation", Reason("no_escalation", {"task": task_id}))
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
        raise Refused("bad_scope", Reason("scope_needs_capability"))
    if is_timed != (scope == "until"):
        code = "scope_needs_length" if scope == "until" else "scope_takes_no_length"
        raise Refused("bad_scope", Reason(code, {"scope": scope}))


def _decided(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    *,
    decision: ev.Verdict,
    comment: Reason | str = "",
    by_timeout: bool = False,
    goes_on: bool = True,
) -> ev.HoldDecided:
    return ev.HoldDecided(
        hold_id=hold.id,
        reason=hold.reason,
        decision=decision,
        task_id=hold.task_id,
        phase=hold.phase,
        **reason_fields("comment", comment),
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
    comment: Reason | str,
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
    reason = comment or _rejection_reason(hold)
    return [decided, ev.ExecutionAborted(**reason_fields("reason", reason))]


def _rejection_reason(hold: Hold) -> Reason:
    if hold.task_id:
        return Reason("task_rejected", {"task": hold.task_id})
    return _REJECTED[hold.reason]


#: Kind of hold → the reason of the end that its rejection causes.
_REJECTED = {
    HoldReason.LAYER_APPROVAL: Reason("layer_approval_rejected"),
    HoldReason.LAYER_VALIDATION: Reason("layer_validation_rejected"),
    HoldReason.AGENT_DECISION: Reason("agent_decision_rejected"),
}


def _aborts(hold: Hold) -> bool:
    if hold.reason is HoldReason.NODE_REVIEW:
        return hold.on_reject == "abort"
    return hold.reason not in (HoldReason.ESCALATION, HoldReason.REPLAN_REVIEW)


# --- external actions ---------------------------------------------------------------------------


@_decide.register
def _(
    command: cmd.ResubmitAction, state: ExecutionState, ctx: DecisionContext
) -> Iterable[ev.Event]:
    task = _external_action(ctx)
    if not state.tasks.get(task.id, TaskState()).waits_for_caller:
        raise Refused("not_waiting", Reason("no_changes_requested"))
    arguments = {"arguments": command.arguments}
    values = {"output": command.output} if task.is_executed else arguments
    return [ev.TaskResubmitted(task_id=task.id, resubmitted=values)]


@_decide.register
def _(command: cmd.ReportResult, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    task = _external_action(ctx)
    finished = ctx.finished_tasks([task.id]).get(task.id)
    if state.status is not ExecutionStatus.COMPLETED or finished is None:
        raise Refused("not_approved", Reason("action_not_approved"))
    if state.result_reported:
        raise Refused("reported", Reason("result_is_reported"))
    executed = command.executed_digest
    review = task.human_review or ReviewPolicy()
    reported = ev.ResultReported(
        task_id=task.id,
        phase=review.trigger_phase,
        ok=command.ok,
        error=command.error,
        mismatch=bool(executed) and executed != digest(finished.inputs),
        executed_digest=executed,
    )
    return [reported]


def _external_action(ctx: DecisionContext) -> ExternalActionTask:
    """Return the external action of the run, which is its only task.

    Raises:
        Refused: the run has none.
    """
    task = ctx.revision.plan.tasks[0]
    if not isinstance(task, ExternalActionTask):
        raise Refused("no_action", Reason("no_external_action"))
    return task


# --- time ---------------------------------------------------------------------------------------


@_decide.register
def _(command: cmd.ExpireHold, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    hold = _open_hold(state, command.hold)
    expired = ev.HoldExpired(
        hold_id=hold.id, task_id=hold.task_id, phase=hold.phase, on_timeout=hold.on_timeout
    )
    comment = Reason("nobody_decided")
    match hold.on_timeout:
        case "keep_waiting":
            raise Refused("keeps_waiting", Reason("hold_has_no_end"))
        case "approve" if hold.reason is HoldReason.REPLAN_REVIEW:
            return [expired, *_plan_change_by_timeout(state, hold, ctx, comment)]
        case "approve":
            return [expired, _approval_by_timeout(state, hold, ctx, comment)]
        case "continue":
            agent = ctx.policy.ail.agent
            late = ev.AgentFailed(agent=agent, **reason_fields("error", comment), hold_id=hold.id)
            return [late, _approval_by_timeout(state, hold, ctx, comment)]
        case "reject":
            return [expired, *_rejection(state, hold, ctx, comment=comment, by_timeout=True)]
        case "abort":
            return [expired, ev.ExecutionAborted(**reason_fields("reason", comment))]


def _approval_by_timeout(
    state: ExecutionState, hold: Hold, ctx: DecisionContext, comment: Reason
) -> ev.HoldDecided:
    event = _decided(state, hold, ctx, decision="APPROVE", comment=comment, by_timeout=True)
    if hold.reason is HoldReason.ESCALATION:  # pragma: no cover - never opened with that default
        raise Refused("no_silent_grant", Reason("no_grant_by_timeout"))
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
        raise Refused("step_taken", Reason("not_the_next_step", {"step": command.step + 1}))
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
        return [
            ev.ReplanFailed(
                requirement=command.requirement,
                error=command.error,
                error_code=command.error_code,
                error_params=command.error_params,
            )
        ]
    if change_between(ctx.revision.plan, command.plan).is_empty:
        return [
            ev.ReplanFailed(
                requirement=command.requirement, **reason_fields("error", Reason("plan_unchanged"))
            )
        ]
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
        comment = Reason("replanned", {"requirement": command.requirement})
        events.append(_decided(state, hold, ctx, decision="APPROVE", comment=comment))
    return events


def _accept_plan_change(
    state: ExecutionState,
    hold: Hold,
    ctx: DecisionContext,
    edits: Any,
    *,
    comment: Reason | str,
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
    state: ExecutionState, hold: Hold, ctx: DecisionContext, comment: Reason
) -> list[ev.Event]:
    """Accept the plan change at its timeout; reject it if it no longer fits the plan."""
    try:
        return _accept_plan_change(state, hold, ctx, None, comment=comment, by_timeout=True)
    except Refused as refusal:
        problem = refusal.reason
        reason = Reason("change_does_not_fit", {"timeout": comment, "problem": problem})
        return _rejection(state, hold, ctx, comment=reason, by_timeout=True)


@_decide.register
def _(command: cmd.InjectTask, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    plan = ctx.revision.plan
    if command.task.id in plan.by_id:
        raise Refused("duplicate_task", Reason("task_exists", {"task": command.task.id}))
    grown = Plan(tasks=(*plan.tasks, command.task))
    requirement = Reason("adds_task", {"task": command.task.id})
    return _change_plan(state, ctx, grown, "inject_task", requirement.text)


@_decide.register
def _(command: cmd.ModifyArgs, state: ExecutionState, ctx: DecisionContext) -> Iterable[ev.Event]:
    plan = ctx.revision.plan
    task = plan.by_id.get(command.task_id)
    if task is None:
        raise Refused("no_such_task", Reason("no_such_task", {"task": command.task_id}))
    begun = {name for layer in ctx.revision.layers[: state.layer + 1] for name in layer}
    if command.task_id in begun:
        raise Refused("begun", Reason("task_has_begun", {"task": command.task_id}))
    changed = with_values(
        plan, task, command.arguments, ended=ctx.finished_tasks(sorted(task.needs)).keys()
    )
    tasks = tuple(changed if each.id == task.id else each for each in plan.tasks)
    requirement = Reason("changes_inputs", {"task": task.id})
    return _change_plan(state, ctx, Plan(tasks=tasks), "modify_args", requirement.text)


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
        raise Refused("replan_open", Reason("plan_change_open"))
    revised = revise(state, ctx, plan, cause=cause, requirement=requirement)
    if not ctx.policy.replan_review.enabled:
        return [revised]
    return [propose(ctx, revised, requirement=requirement, context={})]
