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


#: The scores of embedders mean different things; every model counts as ``semantic``. Those of
#: ``hashing`` are of an earlier fit: one with more plans was not better on held-out servers.
_BY_EMBEDDER = {
    "hashing": Weights((-4.29, 2.44, 1.62, 1.74), (1.95, 1.05, 0.78, -0.04, 0.00, -0.11, -0.40)),
    "semantic": Weights((-2.85, 1.86, 0.88, 2.33), (1.82, 0.88, 0.58, -0.08, 0.00, 0.00, -0.45)),
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
