"""What skip conditions would have done on the newest reviews: a small backtest without a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reviews.models import Backtest
from workflows.engine.policy.policies import ReviewPolicy, ReviewRules
from workflows.engine.protocol.review_rules import Verdict, evaluate_rules
from workflows.models import Workflow

from . import past_reviews
from .past_reviews import ReviewCase

#: Reviews that a preview evaluates, and the number of reviews searched for them.
REVIEWS: Final = 20
_LOOKED_THROUGH: Final = 100


@dataclass(frozen=True, slots=True)
class Preview:
    """The number of evaluated reviews, and how many of them would have been skipped."""

    reviews: int
    skipped: int


def newest_reviews(workflow: Workflow) -> Iterator[ReviewCase]:
    """Return the newest reviews of a workflow that have the data of rules, newest first."""
    probe = Backtest(workflow=workflow, newest=past_reviews.newest_record())
    for each in past_reviews.batch(probe, cursor=0, limit=_LOOKED_THROUGH):
        if not each.unknown:
            yield each


def of_rules(workflow: Workflow, rules: ReviewRules) -> list[tuple[ReviewCase, Verdict]]:
    """Evaluate one draft rule for the newest reviews that it is for."""
    [rule] = rules.rules
    found = []
    for each in newest_reviews(workflow):
        if rule.is_for(task_id=each.past.node, target=each.past.target, phase=each.phase):
            verdict = evaluate_rules(each.task, each.phase, rules, each.document, run=each.run)
            found.append((each, verdict))
            if len(found) == REVIEWS:
                break
    return found


def of_review(workflow: Workflow, task_id: str, review: ReviewPolicy) -> Preview:
    """Evaluate the conditions of a task's review for the newest reviews of the task."""
    verdicts = []
    for each in newest_reviews(workflow):
        if each.past.node != task_id or each.phase is not review.trigger_phase:
            continue
        task = each.task.model_copy(update={"human_review": review})
        verdicts.append(
            evaluate_rules(task, each.phase, ReviewRules(), each.document, run=each.run)
        )
        if len(verdicts) == REVIEWS:
            break
    return Preview(len(verdicts), sum(verdict.skips_review for verdict in verdicts))
