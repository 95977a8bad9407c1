"""Reviews that a plan requires, and checks that a plan change keeps them.

Every plan change passes `replanning.revise`, and every skipped layer passes `gates_of_layer`.  Both
use this module, so no command can remove or loosen a review, or let a task run without a decision
that the current plan requires.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce
from typing import Any

from workflows.engine.plans.dag import (
    AnyTask,
    ExternalActionTask,
    Plan,
    Revision,
    ToolTask,
    references,
)
from workflows.engine.plans.risk import is_critical
from workflows.engine.policy.policies import Policy, ReviewPolicy, TriggerPhase
from workflows.engine.values.reasons import Reason

from .moves import approval_due

Spec = AnyTask


def is_reviewed(task: Spec) -> bool:
    """Return whether a person reviews the task, before or after it runs."""
    return task.human_review is not None and task.human_review.enabled


def takes_changes(task: Spec) -> bool:
    """Return whether a reviewer may request changes: of an output, or of an external action."""
    review = task.human_review
    if review is None or isinstance(task, ExternalActionTask):
        return review is not None
    return review.trigger_phase is TriggerPhase.AFTER_EXECUTION


def gates_of_layer(revision: Revision, layer: int, policy: Policy) -> Reason | None:
    """Return the decisions of people that a layer needs, as a list; None if it needs none."""
    reviewed = [task.id for task in revision.tasks(layer) if is_reviewed(task)]
    required = [Reason("review_of", {"task": name}) for name in reviewed]
    if approval_due(revision, layer, policy):
        required.insert(0, Reason("approval_of_layer"))
    return reduce(_joined, required) if required else None


def _joined(first: Reason, second: Reason) -> Reason:
    return Reason("both", {"first": first, "second": second})


# --- plan changes ---------------------------------------------------------------------------------


def with_values(plan: Plan, task: Spec, values: dict[str, Any], ended: Collection[str]) -> Spec:
    """Return the task with `values` merged into its inputs.

    A replaced value may have been the only reference to another task.  The task still depends on
    that task, unless it is in `ended` and neither it nor its ancestors are reviewed.
    """
    name = "arguments" if isinstance(task, ToolTask) else "inputs"
    data = task.model_dump(mode="json", by_alias=True)
    data[name] = {**data[name], **values}
    lost = sorted(task.needs - type(task).model_validate(data).needs)
    kept = [need for need in lost if need not in ended or reviews_behind(plan, [need])]
    data["depends_on"] = [*data["depends_on"], *kept]
    return type(task).model_validate(data)


def with_reviews(plan: Plan, tasks: Iterable[Spec]) -> tuple[Spec, ...]:
    """Return new or changed tasks with the reviews that `plan` requires for tasks of their kind.

    A tool that goes beyond reading, code, or a capability takes over the review of a similar task
    in `plan`.  Otherwise a second task could do without a review what the first one needs a review
    for.  A task that `plan` reviews keeps its own review, which `lost_gate` protects.
    """
    reviewed = {each.id: each for each in plan.tasks if is_reviewed(each)}
    return tuple(
        task if task.id in reviewed else _with_review(task, reviewed.values()) for task in tasks
    )


def _same_kind(one: Spec, other: Spec) -> bool:
    """Return whether two tasks can have equal effects.

    Code tasks and capabilities count as one kind: any code can be stored as a capability, and a
    capability's code can be copied into a code task.
    """
    if isinstance(one, ToolTask) and isinstance(other, ToolTask):
        return one.tool == other.tool
    return not isinstance(one, ToolTask) and not isinstance(other, ToolTask)


def _with_review(task: Spec, reviewed: Collection[Spec]) -> Spec:
    if isinstance(task, ToolTask) and not is_critical(task):
        return task
    wanted = [
        each.human_review
        for each in reviewed
        if _same_kind(each, task) and each.human_review is not None
    ]
    if not wanted or task.human_review in wanted:
        return task
    review = max(wanted, key=_strictness)
    if task.human_review is not None:
        review = _asking_each_time(task.human_review, review)
    return task.model_copy(update={"human_review": review})


def _asking_each_time(own: ReviewPolicy, wanted: ReviewPolicy) -> ReviewPolicy:
    """Return the wanted review, made unconditional if the task's own review is.

    Groups, escalation and the rest stay as wanted: the author of the plan wrote the own review.
    """
    if not (own.enabled and own.always):
        return wanted
    always = {"always": True, "skip_when": None, "sample": None}
    if own.on_timeout == "approve":
        return wanted.model_copy(update=always)
    stricter: dict[str, object] = {"quorum": max(own.quorum, wanted.quorum)}
    if own.trigger_phase is TriggerPhase.BEFORE_EXECUTION:
        stricter["trigger_phase"] = own.trigger_phase
    if wanted.on_timeout == "approve":
        stricter["on_timeout"] = own.on_timeout
    return wanted.model_copy(update={**always, **stricter})


def _strictness(review: ReviewPolicy) -> tuple[bool, bool, bool, int]:
    """Return a sort key from the loosest to the strictest review."""
    return review.always, not review.can_skip, review.on_timeout != "approve", review.quorum


def lost_gate(old: Plan, new: Plan, begun: Collection[str]) -> Reason | None:
    """Return why the change from `old` to `new` would lose a review; None if it loses none.

    The caller has checked that tasks in `begun` do not change.
    """
    for task in old.tasks:
        after = new.by_id.get(task.id)
        if task.id in begun or after == task:
            continue
        problem = _removed(task) if after is None else _changed(old, new, task, after)
        if problem:
            return problem
    return None


def _removed(task: Spec) -> Reason | None:
    return Reason("reviewed_stays", {"task": task.id}) if is_reviewed(task) else None


def _changed(old: Plan, new: Plan, before: Spec, after: Spec) -> Reason | None:
    if is_reviewed(before) and _without_values(before) != _without_values(
        _with_looser_review(before, after)
    ):
        return Reason("reviewed_inputs_only", {"task": before.id})
    lost = reviews_behind(old, before.needs) - reviews_behind(new, after.needs)
    if lost:
        params = {"task": before.id, "reviewed": ", ".join(sorted(lost))}
        return Reason("review_wait_lost", params)
    for key, value in before.values.items():
        source = _approved_source(old, value)
        if source and after.values.get(key) != value:
            params = {"input": key, "task": before.id, "source": source}
            return Reason("reviewed_output_kept", params)
    return None


def _with_looser_review(before: Spec, after: Spec) -> Spec:
    """Return `after` with the review of `before` if the change only made it unconditional."""
    review = before.human_review
    if review is None or after.human_review != review.model_copy(update={"always": True}):
        return after
    return after.model_copy(update={"human_review": review})


def _without_values(task: Spec) -> dict[str, Any]:
    data = task.model_dump(mode="json", by_alias=True, exclude={"arguments", "inputs"})
    return {**data, "depends_on": sorted(data["depends_on"])}


def _behind(plan: Plan, names: Iterable[str]) -> set[str]:
    """Return these tasks and all tasks that they depend on, directly or indirectly."""
    found: set[str] = set()
    for name in names:
        if name not in found:
            found |= {name, *plan.ancestors(name)}
    return found


def reviews_behind(plan: Plan, names: Iterable[str]) -> set[str]:
    return {name for name in _behind(plan, names) if is_reviewed(plan.by_id[name])}


def _approved_source(plan: Plan, value: Any) -> str:
    """Return a task with a reviewed output that `value` is built from; "" if there is none."""
    direct = [name for name in references(value) if name in plan.by_id]
    for name in sorted(_behind(plan, direct)):
        review = plan.by_id[name].human_review
        if review and review.enabled and review.trigger_phase is TriggerPhase.AFTER_EXECUTION:
            return name
    return ""
