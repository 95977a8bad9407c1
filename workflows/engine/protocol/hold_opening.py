"""Opens holds: the payload shown to the decider, the timeout, reminders and escalation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workflows.engine.plans.dag import CapabilityTask, CodeTask, ExternalActionTask, references
from workflows.engine.plans.diff import load_change, payload_of_change
from workflows.engine.plans.risk import risk_of_tasks, task_risk
from workflows.engine.plans.task_errors import attempt_reason
from workflows.engine.policy.policies import LayerApproval, PlanReview, ReviewPolicy, TriggerPhase
from workflows.engine.policy.reminder_schedule import schedule
from workflows.engine.values.reasons import Reason, reason_fields

from .events import HoldOpened
from .moves import Gate
from .ports import Ports, Run
from .replanning import requirement_reason
from .required_reviews import takes_changes
from .review_rules import evaluate_gate
from .state import HoldReason, TaskState
from .task_inputs import Spec, task_inputs

AGENT_OPTIONS = ("continue", "replan", "abort")
#: Characters of the reason in the event; the hold stores the whole reason.
_MAX_SUMMARY_LENGTH = 300


def hold_opened(run: Run, gate: Gate, ports: Ports) -> HoldOpened:
    """Return the event that opens the hold for `gate`; review rules are evaluated here, once."""
    hold_id = f"{run.execution_id}-{run.state.holds_opened + 1}"
    opened = _OPENERS[gate.reason](run, gate, hold_id, ports)
    opening = opened.opening
    summary = {
        "summary": opening["why"][:_MAX_SUMMARY_LENGTH],
        "summary_code": opening["why_code"],
        "summary_params": opening["why_params"],
    }
    return opened.model_copy(update=summary)


def _node_review(run: Run, gate: Gate, hold_id: str, ports: Ports) -> HoldOpened:
    task_id = gate.task_id or ""
    task = run.revision.plan.by_id[task_id]
    review = task.human_review or ReviewPolicy()
    if gate.phase is TriggerPhase.BEFORE_EXECUTION:
        payload: Any = task_inputs(run, task_id)
    else:
        payload = run.finished_tasks([task_id])[task_id].output
    known = run.state.tasks.get(task_id, TaskState())
    return HoldOpened(
        hold_id=hold_id,
        reason=gate.reason,
        task_id=task_id,
        phase=gate.phase,
        quorum=review.quorum,
        on_reject=review.on_reject,
        on_timeout=review.on_timeout,
        timeout_seconds=review.seconds_to_deadline,
        shown=payload if _inputs_may_change(task, gate) else None,
        opening={
            "payload": payload,
            "groups": list(review.groups),
            "instructions": review.instructions,
            **reason_fields("why", _review_reason(run, gate)),
            "target": task.target,
            "task_title": task.title,
            "layer": run.state.layer,
            "critical": task_risk(task) == "high",
            "stated_risk": task.risk if isinstance(task, ExternalActionTask) else "",
            **_timers(run, review, review.seconds_to_deadline),
            **_review_round(known, review, task),
        },
    )


def _review_reason(run: Run, gate: Gate) -> Reason:
    """Return why a review opens, with what the review rules say about it."""
    is_before = gate.phase is TriggerPhase.BEFORE_EXECUTION
    task = run.revision.plan.by_id[gate.task_id or ""]
    if isinstance(task, ExternalActionTask):
        code = "action_before" if is_before else "action_after"
        review = Reason(code, {"action": task.action})
    else:
        code = "review_before" if is_before else "review_after"
        review = Reason(code, {"task": task.id})
    rule = evaluate_gate(run, gate).reason
    return review if rule is None else Reason("review_with_rule", {"review": review, "rule": rule})


def _inputs_may_change(task: Spec, gate: Gate) -> bool:
    """Return whether commands could change the task's inputs while the hold is open."""
    is_before = gate.phase is TriggerPhase.BEFORE_EXECUTION
    is_external = isinstance(task, ExternalActionTask)
    return is_before and not is_external and "context" in references(task.values)


def _timers(
    run: Run, own: ReviewPolicy | LayerApproval | PlanReview, timeout: float | None
) -> dict[str, Any]:
    """Reminders and escalation of a hold that ends after `timeout` seconds."""
    return schedule(*run.policy.timers_of(own), timeout)


def _review_round(state: TaskState, review: ReviewPolicy, task: Spec) -> dict[str, Any]:
    """Return the review round, the previous hold and how many change requests remain."""
    if not takes_changes(task):
        return {}
    asked = len(state.feedback)
    return {
        "round": asked + 1,
        "previous_id": state.sent_back_by or None,
        "changes_left": max(0, review.max_change_requests - asked),
    }


def _escalation(run: Run, gate: Gate, hold_id: str, ports: Ports) -> HoldOpened:
    task_id = gate.task_id or ""
    task = run.revision.plan.by_id[task_id]
    need = run.state.tasks[task_id].escalation
    review = task.human_review or ReviewPolicy()
    if need is None:
        raise ValueError(f"{task_id} has no escalation")
    attempt = attempt_reason(need.operation, need.resource)
    payload = {
        "operation": need.operation,
        "resource": need.resource,
        "current": need.current,
        "requested": need.requested,
        "line": need.line,
        "capability": task.capability if isinstance(task, CapabilityTask) else None,
        **_code_payload(task, ports),
    }
    return HoldOpened(
        hold_id=hold_id,
        reason=gate.reason,
        task_id=task_id,
        on_reject="fail",
        # After the grant the task runs with these inputs, even if the context has changed.
        shown=task_inputs(run, task_id) if "context" in references(task.values) else None,
        opening={
            "payload": payload,
            "groups": list(review.groups),
            "instructions": review.instructions,
            **reason_fields(
                "why", Reason("permission_missing", {"task": task_id, "attempt": attempt})
            ),
            "target": task.target,
            "task_title": task.title,
            "layer": run.state.layer,
            "critical": True,
            **_timers(run, review, None),
        },
    )


def _code_payload(task: object, ports: Ports) -> dict[str, Any]:
    """Return the code of the task or its capability; a tool has none."""
    if isinstance(task, CodeTask):
        return {"language": task.language, "code": task.code}
    found = ports.capability_code(task.capability) if isinstance(task, CapabilityTask) else None
    return {
        "language": found.language if found else None,
        "code": found.code if found else None,
    }


def _layer_approval(run: Run, gate: Gate, hold_id: str, ports: Ports) -> HoldOpened:
    hil, layer = run.policy.hil, run.state.layer + 1
    tasks = run.revision.tasks(layer)
    signed = {"layer": layer + 1, "policy": hil.approval_required}
    return HoldOpened(
        hold_id=hold_id,
        reason=gate.reason,
        on_timeout=hil.on_timeout,
        timeout_seconds=hil.timeout_seconds,
        opening={
            "payload": {"summary": ports.summarise(run), "next_layer": _preview(run, layer)},
            "groups": list(hil.groups),
            "instructions": "",
            **reason_fields("why", Reason("layer_signature", signed)),
            "target": f"layer {layer + 1}",
            "layer": layer,
            "critical": risk_of_tasks(tasks) == "high",
            **_timers(run, hil, hil.timeout_seconds),
        },
    )


def _preview(run: Run, layer: int) -> list[dict[str, Any]]:
    """Return the tasks of a future layer as planned, without those that a command skips."""
    if layer >= len(run.revision.layers):
        return []
    return [
        {
            "id": task.id,
            "target": task.target,
            "inputs": dict(task.values),
            "permission_set": task.permission_set,
        }
        for task in run.revision.tasks(layer)
        if task.id not in run.state.skipped_tasks
    ]


def _agent_hold(run: Run, gate: Gate, hold_id: str, ports: Ports) -> HoldOpened:
    layer = run.state.layer
    agent = gate.reason is HoldReason.AGENT_DECISION
    results = run.finished_tasks(run.revision.layers[layer])
    payload = {
        "layer": layer,
        "results": {
            name: {"status": each.status, "output": each.output} for name, each in results.items()
        },
        "next_layer": _preview(run, layer + 1),
        "options": list(AGENT_OPTIONS),
    }
    ttl = run.policy.validation_timeout_seconds or ports.abandoned_ttl_seconds
    return HoldOpened(
        hold_id=hold_id,
        reason=gate.reason,
        decider="agent",
        on_timeout="continue" if agent else "abort",
        timeout_seconds=run.policy.ail.timeout_seconds if agent else ttl,
        opening={
            "payload": payload,
            "groups": [],
            "instructions": "",
            **reason_fields("why", Reason("agent_decides" if agent else "layer_validated")),
            "target": f"layer {layer + 1}",
            "layer": layer,
            "critical": False,
        },
    )


def _plan_review(run: Run, gate: Gate, hold_id: str, ports: Ports) -> HoldOpened:
    proposal, review = run.state.proposal, run.policy.replan_review
    if proposal is None:
        raise ValueError("no plan change is proposed")
    change = load_change(proposal.change)
    requirement = requirement_reason(
        proposal.cause,
        proposal.requirement[:300],
        added=[task.id for task in change.added],
        changed=[task.id for task in change.changed],
    )
    payload = {
        "requirement": proposal.requirement,
        "asked_by": proposal.actor,
        "revision": run.revision.number,
        **payload_of_change(run.revision.plan, change, proposal.why),
        "context": proposal.context,
    }
    return HoldOpened(
        hold_id=hold_id,
        reason=gate.reason,
        quorum=review.quorum,
        on_reject="skip",
        on_timeout=review.on_timeout if review.timeout_seconds else "keep_waiting",
        timeout_seconds=review.seconds_to_deadline,
        opening={
            "payload": payload,
            "groups": list(review.groups),
            "instructions": review.instructions,
            **reason_fields("why", Reason("plan_change", {"requirement": requirement})),
            "target": f"plan revision {run.revision.number + 1}",
            "layer": max(run.state.layer, 0),
            "critical": risk_of_tasks((*change.added, *change.changed)) == "high",
            **_timers(run, review, review.seconds_to_deadline),
        },
    )


_OPENERS: dict[HoldReason, Callable[[Run, Gate, str, Ports], HoldOpened]] = {
    HoldReason.NODE_REVIEW: _node_review,
    HoldReason.ESCALATION: _escalation,
    HoldReason.LAYER_APPROVAL: _layer_approval,
    HoldReason.LAYER_VALIDATION: _agent_hold,
    HoldReason.AGENT_DECISION: _agent_hold,
    HoldReason.REPLAN_REVIEW: _plan_review,
}
