"""Review rules: decide once whether a due review can be skipped, and record why.

The first rule that applies to a review decides: the task's own rule, then the published rules in
their order.  If a rule cannot be evaluated, a person reviews.  Rules never skip escalations, layer
approvals and plan reviews (other kinds of holds), a task beyond reading before it runs, a task that
a reviewer sent back, or a review marked `always`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from .bounded_json import digest
from .events import ReviewSpared
from .expressions import Budget, ExpressionError, evaluate
from .moves import Gate, is_critical
from .policy import ReviewPolicy, ReviewRules, SkipConditions, TriggerPhase
from .ports import Run
from .state import HoldReason
from .task_inputs import task_inputs

#: Why a review is spared (the first two) or not.
Code = Literal[
    "condition", "sampled_out", "sampled_in", "error", "high_risk", "always", "sent_back", "no_rule"
]
_EXCLUSION_REASONS = {
    "high_risk": "it goes beyond reading and has not run",
    "always": "it asks each time",
    "sent_back": "a reviewer sent it back",
}
#: Number of equidistant floats from 0 to 1.
_STEPS = 2**53


@dataclass(frozen=True, slots=True)
class Verdict:
    """What rules say about one review.  `rule` is the one that decided, "" when none did.

    `share` is where the run and the task fall, when the rule samples; `why` are plain words.
    """

    code: Code
    why: str = ""
    rule: str = ""
    version: int = 0
    skip_when: str | None = None
    sample: float | None = None
    share: float | None = None

    @property
    def skips_review(self) -> bool:
        return self.code in ("condition", "sampled_out")

    def in_words(self) -> str:
        """What a hold adds to why it opened; "" when no rule had a say."""
        return f"; {self.why}" if self.why and not self.skips_review else ""


def sample_position(run: str, task_id: str) -> float:
    """Where a task of a run falls, at least 0 and below 1; the same for ever.

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

    `run` is the id that samples go by.  All conditions share one budget.  Never raises: when a
    condition cannot be evaluated, a person reviews.
    """
    review = task.human_review or ReviewPolicy()
    applicable = list(_for_task(review, task, phase, rules))
    if not applicable and not review.always:
        return Verdict("no_rule")
    excluded = _exclusion(task, review, phase, sent_back=sent_back)
    if excluded is not None:
        return Verdict(
            excluded, f"no rule spares it: {_EXCLUSION_REASONS[excluded]}" if applicable else ""
        )
    share = sample_position(run, task.id)
    budget = Budget()
    for name, version, rule in applicable:
        verdict = _by_rule(_RuleName(name, version), rule, document, share, budget)
        if verdict is not None:
            return verdict
    return Verdict("no_rule")


def _for_task(
    review: ReviewPolicy, task: Any, phase: TriggerPhase, rules: ReviewRules
) -> Iterator[tuple[str, int, SkipConditions]]:
    if review.spares:
        yield "", 0, review
    for rule in rules.rules:
        if rule.is_for(task_id=task.id, target=task.target, phase=phase):
            yield rule.name, rules.version, rule


def _exclusion(
    task: Any, review: ReviewPolicy, phase: TriggerPhase, *, sent_back: bool
) -> Literal["high_risk", "always", "sent_back"] | None:
    if review.always:
        return "always"
    if sent_back:
        return "sent_back"
    return "high_risk" if phase is TriggerPhase.BEFORE_EXECUTION and is_critical(task) else None


@dataclass(frozen=True, slots=True)
class _RuleName:
    name: str
    version: int

    def __str__(self) -> str:
        if not self.name:
            return "the task's own rule"
        # A draft rule has no version.
        return f"rule {self.name} v{self.version}" if self.version else f"rule {self.name}"


def _by_rule(
    named: _RuleName,
    rule: SkipConditions,
    document: Mapping[str, Any],
    share: float,
    budget: Budget,
) -> Verdict | None:
    """Return None if the rule does not apply to this review."""
    rule_fields: dict[str, Any] = {
        "rule": named.name,
        "version": named.version,
        "skip_when": rule.skip_when,
        "sample": rule.sample,
    }
    if rule.skip_when is not None:
        try:
            holds = _condition(rule.skip_when, document, budget)
        except ExpressionError as error:
            return Verdict(
                "error", f"{named} could not be worked out: {error}"[:500], **rule_fields
            )
        if not holds:
            return None
    if rule.sample is None:
        return Verdict("condition", f"the condition of {named} holds", **rule_fields)
    fraction = f"hash {share:.4g} {'<' if share < rule.sample else '≥'} {rule.sample:g}"
    if share < rule.sample:
        return Verdict("sampled_in", f"picked by {named} ({fraction})", share=share, **rule_fields)
    return Verdict(
        "sampled_out", f"sampled out by {named} ({fraction})", share=share, **rule_fields
    )


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
    rules = run.policy.review_rules
    if not rules.rules and not (task.human_review and task.human_review.spares):
        return Verdict("no_rule")
    try:
        document = _document(run, gate.task_id, gate.phase)
    except Exception as error:  # the hold opens, and says what it can
        return Verdict("error", f"no rule could be asked: {error}"[:500])
    return evaluate_rules(
        task,
        gate.phase,
        rules,
        document,
        run=run.state.origin or run.execution_id,
        sent_back=bool(run.state.tasks[gate.task_id].feedback),
    )


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
        why=verdict.why,
        skip_when=verdict.skip_when,
        sample=verdict.sample,
        share=verdict.share,
        digest=digest(_document(run, task_id, phase)),
    )
