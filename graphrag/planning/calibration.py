"""Probabilities that a task and a plan are right, from the scores of the planner.

Logistic regressions (Platt scaling), fitted on the first half of the servers of
tests/evaluation by `python -m tests.evaluation.calibration`, which prints the weights below.
"""

from collections.abc import Sequence
from math import exp, log

_TASK = (-1.36, 1.93, 0.42, 2.23)
_PLAN = (1.38, 2.28, -0.15)
#: Counts for a step without a task; there is none in the fitted half.
_LEFT_OUT = 0.25
_LOWEST = 1e-6


def task_features(similarity: float, score: float, second: float) -> tuple[float, ...]:
    """Return the features of a chosen tool: its match, its score, and the lead over the second."""
    return similarity, score, score - second


def plan_features(
    confidences: Sequence[float], unanswered: int, left_out: int
) -> tuple[float, ...]:
    """Return the features of a plan: its tasks as a whole, and the arguments to ask for."""
    each = [*confidences, *[_LEFT_OUT] * left_out]
    return sum(log(max(confidence, _LOWEST)) for confidence in each), unanswered


def of_task(features: Sequence[float]) -> float:
    """Return the probability that a tool is right for its step."""
    return probability(_TASK, features)


def of_plan(features: Sequence[float]) -> float:
    """Return the probability that a plan is right in everything."""
    return probability(_PLAN, features)


def probability(weights: Sequence[float], features: Sequence[float]) -> float:
    """Return the logistic function of the weighted features; the first weight is the intercept."""
    total = weights[0] + sum(w * x for w, x in zip(weights[1:], features, strict=True))
    return 1.0 / (1.0 + exp(-max(-30.0, min(30.0, total))))
