"""Plan changes of a run: create a revision or a proposal, or refuse the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ValidationError

from workflows.engine.plans.dag import ExternalActionTask, Plan
from workflows.engine.plans.diff import (
    Change,
    Drop,
    change_between,
    changed_plan,
    dump_change,
    load_change,
    with_dependents,
    without_tasks,
)
from workflows.engine.plans.validation import (
    PlanInvalid,
    Problem,
    structure_problems,
    validation_problems,
)
from workflows.engine.values.reasons import Reason

from . import events as ev
from .decision_context import DecisionContext, Refused
from .required_reviews import lost_gate, with_reviews
from .state import ExecutionState, Proposal

Cause = Literal["replan", "inject_task", "modify_args"]


def requirement_reason(
    cause: str, requirement: str, *, added: Sequence[str], changed: Sequence[str]
) -> Reason | str:
    """Return what a plan change is for: a requester's words, or the change that a command makes."""
    if cause == "inject_task" and added:
        return Reason("adds_task", {"task": added[0]})
    if cause == "modify_args" and changed:
        return Reason("changes_inputs", {"task": changed[0]})
    return requirement


def check_replan(state: ExecutionState, ctx: DecisionContext) -> None:
    """Raise Refused unless a replan may be tried now."""
    if any(isinstance(task, ExternalActionTask) for task in ctx.revision.plan.tasks):
        raise Refused("external_action", Reason("external_action_planned"))
    if state.proposal is not None:
        raise Refused("replan_open", Reason("plan_change_open"))
    if state.replans >= ctx.max_replans:
        raise Refused("replan_limit", Reason("replan_limit", {"times": ctx.max_replans}))
    if state.failed_replans >= ctx.max_failed_replans:
        times = ctx.max_failed_replans
        raise Refused("replan_limit", Reason("failed_replan_limit", {"times": times}))
    if any(hold.decider == "human" for hold in state.holds):
        refuse_while_held(state)


def refuse_while_held(state: ExecutionState) -> None:
    if state.holds:
        names = ", ".join(hold.id for hold in state.holds)
        raise Refused("held", Reason("holds_open", {"holds": names}))


def context_events(context: dict[str, Any]) -> list[ev.Event]:
    return [ev.ContextUpdated(updates=context)] if context else []


def propose(
    ctx: DecisionContext, revised: ev.PlanRevised, *, requirement: str, context: dict[str, Any]
) -> ev.PlanProposed:
    """Return the change as a proposal; the plan changes only after a person accepts it."""
    change = change_between(ctx.revision.plan, revised.plan)
    proposal = Proposal(
        requirement=requirement,
        actor=ctx.actor.name,
        change=dump_change(change),
        context=context,
        why=revised.why,
        cause=revised.cause,
    )
    return ev.PlanProposed(
        requirement=requirement,
        cause=revised.cause,
        added=revised.added,
        removed=revised.removed,
        changed=revised.changed,
        why=revised.why,
        proposal=proposal,
    )


def accept_proposal(
    state: ExecutionState, ctx: DecisionContext, hold_id: str, edits: Any
) -> tuple[frozenset[str], list[ev.Event]]:
    """Return the dropped task ids, dependents included, and the events of the remaining change.

    Raises:
        Refused: nothing remains, or the remaining change does not fit the current plan.
    """
    proposal = state.proposal
    if proposal is None:
        raise Refused("no_proposal", Reason("plan_change_decided"))
    change = load_change(proposal.change)
    dropped = with_dependents(change, _dropped_ids(change, edits))
    left = without_tasks(change, dropped)
    if left.is_empty:
        raise Refused("nothing_left", Reason("plan_change_empty"))
    revised = revise(
        state,
        ctx,
        changed_plan(ctx.revision.plan, left),
        cause=proposal.cause,
        requirement=proposal.requirement,
        why={name: reasons for name, reasons in proposal.why.items() if name not in dropped},
        hold_id=hold_id,
    )
    return dropped, [*context_events(proposal.context), revised]


def _dropped_ids(change: Change, edits: Any) -> list[str]:
    """Return the task ids the reviewer drops.

    Raises:
        Refused: an id does not name an added task.
    """
    try:
        wanted = Drop.model_validate(edits or {}).drop
    except ValidationError as error:
        problems = validation_problems(error, "edits")
        raise Refused("bad_edits", Reason("plan_review_edits"), problems) from None
    known = {task.id for task in change.added}
    problems = tuple(
        Problem(f"edits.drop[{index}]", "no_such_task", f"the change adds no task {name!r}")
        for index, name in enumerate(wanted)
        if name not in known
    )
    if problems:
        raise Refused("bad_edits", problems[0].message, problems)
    return list(wanted)


def revise(
    state: ExecutionState,
    ctx: DecisionContext,
    plan: Plan,
    *,
    cause: Cause,
    requirement: str = "",
    why: dict[str, Any] | None = None,
    hold_id: str | None = None,
) -> ev.PlanRevised:
    """Return the event of the next revision.

    Raises:
        Refused: the plan is invalid, changes tasks that have begun, or would lose a review.
    """
    old = ctx.revision
    if any(isinstance(task, ExternalActionTask) for task in (*old.plan.tasks, *plan.tasks)):
        raise Refused("external_action", Reason("external_action_planned"))
    problems = structure_problems(plan)
    begun = [name for layer in old.layers[: state.layer + 1] for name in layer]
    lost = [name for name in begun if plan.by_id.get(name) != old.plan.by_id[name]]
    if lost:
        raise Refused("begun", Reason("plan_keeps_begun", {"tasks": ", ".join(lost)}))
    if problems:
        raise Refused("invalid_plan", problems[0].message, problems)
    plan = _with_reviews_of_similar(old.plan, plan)
    added = plan.by_id.keys() - old.plan.by_id.keys()
    try:
        # Also the tasks that the change leaves alone: a tool may have been marked since the plan,
        # or the proposal, was checked.
        plan = ctx.with_required_reviews(plan, begun, added)
    except PlanInvalid as invalid:
        raise Refused("invalid_plan", str(invalid), invalid.problems) from None
    gate = lost_gate(old.plan, plan, begun)
    if gate:
        raise Refused("gated", gate)
    revised = old.revised(plan, begun=state.layer + 1)
    before, after = old.plan.by_id, plan.by_id
    return ev.PlanRevised(
        revision=revised.number,
        total_layers=len(revised.layers),
        cause=cause,
        requirement=requirement,
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(k for k in before.keys() & after.keys() if before[k] != after[k])),
        why=why or {},
        hold_id=hold_id,
        failed_leaf=_uncovers_failure(ctx, plan, begun),
        plan=plan,
        layers=revised.layers,
    )


def _with_reviews_of_similar(old: Plan, plan: Plan) -> Plan:
    """Give new and changed tasks the reviews of similar tasks of the old plan."""
    known = old.by_id
    fresh = [task for task in plan.tasks if known.get(task.id) != task]
    becomes = {task.id: task for task in with_reviews(old, fresh)}
    return Plan(tasks=tuple(becomes.get(task.id, task) for task in plan.tasks))


def _uncovers_failure(ctx: DecisionContext, plan: Plan, begun: list[str]) -> bool:
    """Return whether a failed task becomes a leaf because its last reader is removed.

    Otherwise leaves are checked only when a task fails, and a run with such a failed leaf would
    end as COMPLETED.
    """
    uncovered = [name for name in begun if name in plan.leaves - ctx.revision.plan.leaves]
    if not uncovered:
        return False
    return any(each.is_failure for each in ctx.finished_tasks(uncovered).values())
