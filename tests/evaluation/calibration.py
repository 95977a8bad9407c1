"""`python -m tests.evaluation.calibration`: fit and print the weights of the planner.

The weights of tool choice belong to a conditional logit: the probability of a tool among the
candidates of a step. Those of the stated probabilities are logistic regressions (Platt scaling).
Both are fitted on the half of the servers that is fitted, with a ridge towards a prior: the present
weights of tool choice, and the base rate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.surroundings import bench
from tests.evaluation import servers

Vector = NDArray[np.float64]
_ROUNDS = 50
_TASK_RIDGE, _PLAN_RIDGE = 0.5, 3.0
#: Features of plans: missing, unsure and unused values, and tasks.
_FALLING = (2, 3, 4, 5)
_RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0)
EMBEDDERS = ("hashing", "semantic")


def fit(
    features: Sequence[Sequence[float]],
    right: Sequence[bool],
    ridge: float = _TASK_RIDGE,
    falling: Sequence[int] = (),
) -> Vector:
    """Return the intercept and the weights; a ridge keeps them finite.

    More of a ``falling`` feature never raises the probability: its weight is 0 where it would.
    """
    weights = _regression(features, right, ridge)
    wrong = [at for at in falling if weights[at + 1] > 0]
    if not wrong:
        return weights
    without = [[0.0 if at in wrong else x for at, x in enumerate(row)] for row in features]
    return fit(without, right, ridge, falling)


def _regression(features: Sequence[Sequence[float]], right: Sequence[bool], ridge: float) -> Vector:
    x = np.column_stack([np.ones(len(features)), np.asarray(features, dtype=float)])
    y = np.asarray(right, dtype=float)
    # Platt's targets: a probability of exactly 0 or 1 is never stated.
    hits, misses = y.sum(), len(y) - y.sum()
    y = np.where(y > 0, (hits + 1) / (hits + 2), 1 / (misses + 2))
    penalty = ridge * np.eye(x.shape[1])
    penalty[0, 0] = 0.0
    weights = np.zeros(x.shape[1])
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-x @ weights))
        gradient = x.T @ (y - p) - penalty @ weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x + penalty
        weights = weights + np.linalg.solve(hessian, gradient)
    return weights


@dataclass(frozen=True, slots=True)
class Choosing:
    """One step: the signals of its candidates, which of them are right, and the server of those."""

    server: str
    signals: Vector
    right: NDArray[np.bool_]


def fit_choices(steps: Sequence[Choosing], prior: Vector, ridge: float) -> Vector:
    """Return the weights with the highest likelihood, less the ridge towards the prior."""
    from scipy.optimize import minimize

    def loss(weights: Vector) -> tuple[float, Vector]:
        difference = weights - prior
        value, gradient = ridge / 2 * difference @ difference, ridge * difference
        for each in steps:
            likelihood, slope = _log_likelihood(each, weights)
            value, gradient = value - likelihood, gradient - slope
        return float(value), gradient

    found: Vector = minimize(loss, prior, jac=True, method="L-BFGS-B").x
    return found


def _log_likelihood(step: Choosing, weights: Vector) -> tuple[float, Vector]:
    scores = step.signals @ weights
    odds = np.exp(scores - scores.max())
    among_all, among_right = odds / odds.sum(), odds * step.right / (odds * step.right).sum()
    value = np.log((odds * step.right).sum() / odds.sum())
    return float(value), step.signals.T @ (among_right - among_all)


def _left_out(
    steps: Sequence[Choosing], weights_without: Callable[[list[Choosing]], Vector]
) -> tuple[float, float]:
    """Return mean log-likelihood and hit@1 of each server by weights fitted without it."""
    likelihoods, hits = [], []
    for server in sorted({each.server for each in steps}):
        weights = weights_without([each for each in steps if each.server != server])
        for each in steps:
            if each.server == server:
                likelihoods.append(_log_likelihood(each, weights)[0])
                hits.append(bool(each.right[int(np.argmax(each.signals @ weights))]))
    return float(np.mean(likelihoods)), float(np.mean(hits))


def choice_lines(steps: Sequence[Choosing], present: Sequence[float]) -> Iterator[str]:
    """Yield how the present weights and fitted ones do on servers left out, and the best ones."""
    hand = np.asarray(present)
    scale = max(
        np.linspace(1, 20, 39), key=lambda s: sum(_log_likelihood(e, s * hand)[0] for e in steps)
    )
    prior = scale * hand
    likelihood, hit = _left_out(steps, lambda _: prior)
    yield f"# {len(steps)} steps; present weights: log-likelihood {likelihood:.3f}, hit@1 {hit:.3f}"
    results = {}
    for ridge in _RIDGES:
        likelihood, hit = _left_out(steps, lambda rest, r=ridge: fit_choices(rest, prior, r))  # type: ignore[misc]
        results[ridge] = likelihood
        yield f"# ridge {ridge}: log-likelihood {likelihood:.3f}, hit@1 {hit:.3f}"
    best = max(results, key=results.__getitem__)
    weights = fit_choices(steps, prior, best)
    # Scores are shares of the best search result: score and match weigh 1 together.
    yield f"_WEIGHTS = {_tuple(weights / (weights[0] + weights[1]))}"


def _tuple(weights: Sequence[float] | Vector) -> str:
    return f"({', '.join(f'{weight:.2f}' for weight in weights)})"


def main() -> None:
    """Fill a catalogue of its own, plan the fitting half with each embedder, fit, print."""
    lists = servers.tool_lists()
    with bench(quick=True):
        from tests.evaluation import catalogue

        catalogue.fill(lists)
        fit_all()


def fit_all(embedders: Sequence[str] = EMBEDDERS) -> None:
    """Fit on the catalogue as it is, and print."""
    from django.conf import settings
    from django.test import override_settings

    from graphrag.catalogue import ingest
    from graphrag.planning import tool_choice
    from tests.evaluation import plans

    steps: list[Choosing] = []
    for name in embedders:
        with override_settings(HOLDPOINT={**settings.HOLDPOINT, "embedder": name}):
            ingest.reembed()
            rows, single = plans.halves()["fitting half"], single_intents()
            steps += plans.observed_choices([*rows, *single])
            tasks = fit(*plans.observed_tasks([*rows, *single]))
            observed = plans.observed_plans([*rows, *single], list(map(float, tasks)))
            whole = fit(*observed, ridge=_PLAN_RIDGE, falling=_FALLING)
            print(f'"{name}": Weights({_tuple(tasks)}, {_tuple(whole)}),')
    print("\n".join(choice_lines(steps, tool_choice.WEIGHTS)))


def single_intents() -> list[Mapping[str, Any]]:
    """Return the intents of one step for the servers of the fitting half, as rows of plans."""
    from tests.evaluation.__main__ import INTENTS

    rows = json.loads(INTENTS.read_text())["single"]
    step: dict[str, Any] = {"args": {}, "from": {}, "after": []}
    return [{"intent": row["intent"], "steps": [{"tools": row["tools"], **step}]} for row in rows]


if __name__ == "__main__":
    main()
