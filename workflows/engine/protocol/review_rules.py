"""Review rules: decide once whether a due review can be skipped, and record why.

The first rule that applies to a review decides: the task's own rule, then the published rules in
their order.  If a rule cannot be evaluated, a person reviews.  Rules never skip escalations, layer
approvals and plan reviews (other kinds of holds), a task beyond reading before it runs, an
external action of high risk, a task that a reviewer sent back, or a review marked `always`.

A standing answer that covers an external action skips its review before any rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from workflows.engine.plans.dag import ExternalActionTask
from workflows.engine.plans.risk import is_critical
from workflows.engine.policy.policies import ReviewPolicy, ReviewRules, SkipConditions, TriggerPhase
from workflows.engine.values.bounded_json import digest
from workflows.engine.values.expressions import Budget, ExpressionError, evaluate
from workflows.engine.values.reasons import Reason, reason_fields

from .events import ReviewSpared
from .moves import Gate
from .ports import Run
from .state import HoldReason
from .task_inputs import task_inputs

#: Why a review is skipped (the first three) or not.
Code = Literal[
    "condition",
    "sampled_out",
    "standing",
    "sampled_in",
    "error",
    "high_risk",
    "always",
    "sent_back",
    "no_rule",
]
_EXCLUSION_REASONS = {
    "high_risk": Reason("never_skipped_high_risk"),
    "always": Reason("never_skipped_always"),
    "sent_back": Reason("never_skipped_sent_back"),
}
#: Characters of an error in a reason.
_MAX_ERROR_LENGTH = 400
#: Number of equidistant floats from 0 to 1.
_STEPS = 2**53


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the rules for one review.

    `rule` is the name of the rule that decided, "" when none did or for the task's own rule.
    `reason` explains the result; None when no rule applies.  `share` is the position of the run and
    the task between 0 and 1, when the rule samples.  `grant` is the id of a standing answer.
    """

    code: Code
    reason: Reason | None = None
    rule: str = ""
    version: int = 0
    skip_when: str | None = None
    sample: float | None = None
    share: float | None = None
    grant: str = ""

    @property
    def skips_review(self) -> bool:
        """Whether the review is skipped."""
        return self.code in ("condition", "sampled_out", "standing")


def sample_position(run: str, task_id: str) -> float:
    """Return a constant position of a task of a run, at least 0 and below 1.

    Without the rule: raising a sample adds reviews and takes none away.
    """
    number = int.from_bytes(sha256(f"{run}:{task_id}".encode()).digest()[:8])
    return (number >> 11) / _STEPS


def evaluate_rules(
    task: Any,
    phase: TriggerPhase,
    rules: ReviewRules,
    document: Mapping[str, Any],
    *,
    run: str,
    sent_back: bool = False,
) -> Verdict:
    """What the rules say about a review of `task`, held against `document`.

    `run` is the id that samples go by: of a run, or of an external action.  All conditions share
    one budget.  Never raises: when a condition cannot be evaluated, a person reviews.
    """
    review = task.human_review or ReviewPolicy()
    applicable = list(rules_for(task, phase, rules))
    if not applicable and not review.always:
        return Verdict("no_rule")
    excluded = _exclusion(task, review, phase, sent_back=sent_back)
    if excluded is not None:
        return Verdict(excluded, _exclusion_reason(task, excluded) if applicable else None)
    share = sample_position(run, task.id)
    budget = Budget()
    for name, version, rule in applicable:
        verdict = _by_rule(name, version, rule, document, share, budget)
        if verdict is not None:
            return verdict
    return Verdict("no_rule")


def rules_for(
    task: Any, phase: TriggerPhase, rules: ReviewRules
) -> Iterator[tuple[str, int, SkipConditions]]:
    """Yield name, version and conditions of the rules for a review, in the order they are tried."""
    review = task.human_review or ReviewPolicy()
    if review.can_skip:
        yield "", 0, review
    # The id of an external action is its name with characters replaced, so several names share one.
    task_id = task.action if isinstance(task, ExternalActionTask) else task.id
    for rule in rules.rules:
        if rule.is_for(task_id=task_id, target=task.target, phase=phase):
            yield rule.name, rules.version, rule


def _exclusion(
    task: Any, review: ReviewPolicy, phase: TriggerPhase, *, sent_back: bool
) -> Literal["high_risk", "always", "sent_back"] | None:
    if review.always:
        return "always"
    if sent_back:
        return "sent_back"
    # The agent states the phase of an external action, so its high risk counts in both.
    counts = phase is TriggerPhase.BEFORE_EXECUTION or isinstance(task, ExternalActionTask)
    return "high_risk" if counts and is_critical(task) else None


def _exclusion_reason(task: Any, excluded: str) -> Reason:
    if excluded == "high_risk" and isinstance(task, ExternalActionTask):
        return Reason("never_skipped_risk_of_action")
    return _EXCLUSION_REASONS[excluded]


def _rule_reason(name: str, version: int) -> Reason:
    """Return the name of a rule, for the middle of a sentence."""
    if not name:
        return Reason("rule_of_task")
    # A draft rule has no version.
    if not version:
        return Reason("rule_draft", {"name": name})
    return Reason("rule_published", {"name": name, "version": version})


def _by_rule(
    name: str,
    version: int,
    rule: SkipConditions,
    document: Mapping[str, Any],
    share: float,
    budget: Budget,
) -> Verdict | None:
    """Return None if the rule does not apply to this review."""
    rule_fields: dict[str, Any] = {
        "rule": name,
        "version": version,
        "skip_when": rule.skip_when,
        "sample": rule.sample,
    }
    named = _rule_reason(name, version)
    if rule.skip_when is not None:
        try:
            holds = _condition(rule.skip_when, document, budget)
        except ExpressionError as error:
            failed = Reason("rule_failed", {"rule": named, "error": _shortened(error)})
            return Verdict("error", failed, **rule_fields)
        if not holds:
            return None
    if rule.sample is None:
        return Verdict("condition", Reason("rule_condition", {"rule": named}), **rule_fields)
    params: dict[str, str | int | Reason] = {
        "rule": named,
        "share": f"{share:.4g}",
        "sample": f"{rule.sample:g}",
    }
    if share < rule.sample:
        picked = Reason("rule_sampled_in", params)
        return Verdict("sampled_in", picked, share=share, **rule_fields)
    left_out = Reason("rule_sampled_out", params)
    return Verdict("sampled_out", left_out, share=share, **rule_fields)


def _shortened(error: Exception) -> str:
    return str(error)[:_MAX_ERROR_LENGTH]


def _condition(expression: str, document: Mapping[str, Any], budget: Budget) -> bool:
    """Return the condition's boolean; any other result is an error of the rule."""
    try:
        found = evaluate(expression, dict(document), budget)
    except ExpressionError:
        raise
    except Exception as error:  # whatever a library raises, a person looks
        raise ExpressionError(f"{type(error).__name__}: {error}") from error
    if found is None:
        return False
    if not isinstance(found, bool):
        raise ExpressionError("it gives neither true nor false")
    return found


# --- in a run -------------------------------------------------------------------------------------


def evaluate_gate(run: Run, gate: Gate) -> Verdict:
    """Evaluate this run's rules for a gate; never raises."""
    if gate.reason is not HoldReason.NODE_REVIEW or gate.task_id is None or gate.phase is None:
        return Verdict("no_rule")
    task = run.revision.plan.by_id[gate.task_id]
    standing = _by_standing_answer(run, gate, task)
    if standing is not None:
        return standing
    rules = run.policy.review_rules
    if not rules.rules and not (task.human_review and task.human_review.can_skip):
        return Verdict("no_rule")
    try:
        document = _document(run, gate.task_id, gate.phase)
    except Exception as error:  # the hold opens, and says what it can
        return Verdict("error", Reason("rules_failed", {"error": _shortened(error)}))
    return evaluate_rules(
        task,
        gate.phase,
        rules,
        document,
        run=_sampled_by(run, task),
        sent_back=bool(run.state.tasks[gate.task_id].feedback),
    )


def _sampled_by(run: Run, task: object) -> str:
    """Return the id that samples go by: of the first run, or of the external action."""
    if isinstance(task, ExternalActionTask) and task.sample_seed:
        return task.sample_seed
    return run.state.origin or run.execution_id


def _by_standing_answer(run: Run, gate: Gate, task: object) -> Verdict | None:
    """Return the verdict for an external action that a standing answer covers, or None.

    The answer covers the arguments with which the action was asked: not arguments of a later round,
    and not a fork, for which nobody checked that it is still in force.
    """
    if not isinstance(task, ExternalActionTask) or task.standing is None or run.state.origin:
        return None
    if gate.phase is not TriggerPhase.BEFORE_EXECUTION or run.state.tasks[task.id].feedback:
        return None
    use = task.standing
    reason = Reason("standing_answer", {"name": use.given_by, "grant": use.grant})
    return Verdict("standing", reason, grant=use.grant)


def _document(run: Run, task_id: str, phase: TriggerPhase) -> dict[str, Any]:
    if phase is TriggerPhase.BEFORE_EXECUTION:
        return {"inputs": task_inputs(run, task_id)}
    ended = run.finished_tasks([task_id])[task_id]
    return {"inputs": ended.inputs, "output": ended.output}


def skipped_reviews(run: Run, gates: Sequence[Gate]) -> tuple[ReviewSpared, ...]:
    """Return the events of the gates whose reviews are skipped."""
    found = []
    for gate in gates:
        verdict = evaluate_gate(run, gate)
        if verdict.skips_review and gate.task_id is not None and gate.phase is not None:
            found.append(_review_skipped(run, gate.task_id, gate.phase, verdict))
    return tuple(found)


def _review_skipped(run: Run, task_id: str, phase: TriggerPhase, verdict: Verdict) -> ReviewSpared:
    return ReviewSpared(
        task_id=task_id,
        phase=phase,
        rule=verdict.rule,
        rules_version=verdict.version,
        **reason_fields("why", verdict.reason),
        skip_when=verdict.skip_when,
        sample=verdict.sample,
        share=verdict.share,
        digest=digest(_document(run, task_id, phase)),
        grant=verdict.grant,
    )
