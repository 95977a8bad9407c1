"""Probabilities that a task and a plan are right, from the scores of the planner.

Logistic regressions (Platt scaling), fitted on the first half of the servers of
tests/evaluation by `python -m tests.evaluation.calibration`, which prints the weights below. A
ridge shrinks them towards the base rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from graphrag import conf


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of both regressions; the first of each is the intercept."""

    task: tuple[float, ...]
    plan: tuple[float, ...]


#: The scores of embedders mean different things; every model counts as ``semantic``.
_BY_EMBEDDER = {
    "hashing": Weights((-3.55, 2.48, 1.22, 1.60), (1.97, 1.23, 0.76, 0.00, 0.00, -0.30, -0.49)),
    "semantic": Weights((-3.27, 2.19, 0.89, 2.41), (2.08, 1.18, 0.75, -0.09, 0.00, 0.00, -0.49)),
}
#: Counts for a step without a task; there is none in the fitted half.
_LEFT_OUT = 0.25
_LOWEST = 1e-6


def task_features(similarity: float, score: float, second: float) -> tuple[float, ...]:
    """Return the features of a chosen tool: its match, its score, and the lead over the second."""
    return similarity, score, score - second


def plan_features(
    confidences: Sequence[float], *, missing: int, unsure: int, unused: int, left_out: int
) -> tuple[float, ...]:
    """Return the features of a plan: its tasks as a whole, the least certain, how many they are,
    and how many arguments are missing or unsure and values of the text unused.
    """
    each = [log(max(one, _LOWEST)) for one in (*confidences, *[_LEFT_OUT] * left_out)]
    return sum(each), min(each, default=0.0), missing, unsure, unused, len(each)


def of_task(features: Sequence[float]) -> float:
    """Return the probability that a tool is right for its step."""
    return probability(_weights().task, features)


def of_plan(features: Sequence[float]) -> float:
    """Return the probability that a plan is right in everything."""
    return probability(_weights().plan, features)


def _weights() -> Weights:
    return _BY_EMBEDDER["hashing" if conf.embedder() == "hashing" else "semantic"]


def probability(weights: Sequence[float], features: Sequence[float]) -> float:
    """Return the logistic function of the weighted features; the first weight is the intercept."""
    total = weights[0] + sum(w * x for w, x in zip(weights[1:], features, strict=True))
    return 1.0 / (1.0 + exp(-max(-30.0, min(30.0, total))))
