"""`python -m tests.evaluation.calibration`: fit and print the weights of stated probabilities.

Logistic regression (Platt scaling) by Newton's method, on the half of the servers that is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.surroundings import bench
from tests.evaluation import servers

_ROUNDS = 50
_RIDGE = 0.5


def fit(features: Sequence[Sequence[float]], right: Sequence[bool]) -> NDArray[np.float64]:
    """Return the intercept and the weights; a ridge keeps them finite."""
    x = np.column_stack([np.ones(len(features)), np.asarray(features, dtype=float)])
    y = np.asarray(right, dtype=float)
    # Platt's targets: a probability of exactly 0 or 1 is never stated.
    hits, misses = y.sum(), len(y) - y.sum()
    y = np.where(y > 0, (hits + 1) / (hits + 2), 1 / (misses + 2))
    ridge = _RIDGE * np.eye(x.shape[1])
    ridge[0, 0] = 0.0
    weights = np.zeros(x.shape[1])
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-x @ weights))
        gradient = x.T @ (y - p) - ridge @ weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x + ridge
        weights = weights + np.linalg.solve(hessian, gradient)
    return weights


def main() -> None:
    """Fill a catalogue of its own, plan the fitting half, fit, print."""
    lists = servers.tool_lists()
    with bench(quick=True):
        _fit(lists)


def _fit(lists: dict[str, list[servers.ListedTool]]) -> None:
    from tests.evaluation import catalogue, plans

    catalogue.fill(lists)
    rows = plans.halves()["fitting half"]
    tasks = fit(*plans.observed_tasks(rows))
    whole = fit(*plans.observed_plans(rows, [float(weight) for weight in tasks]))
    for name, weights in (("_TASK", tasks), ("_PLAN", whole)):
        print(f"{name} = ({', '.join(f'{weight:.2f}' for weight in weights)})")


if __name__ == "__main__":
    main()
