"""The risk of tasks: one measure for task reviews, layers, plan changes and outside actions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from .dag import AnyTask, ExternalActionTask
from .moves import is_critical

Risk = Literal["low", "medium", "high"]

#: From low to high.
RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high")


def task_risk(task: AnyTask) -> Risk:
    """Return the risk of running the task.

    High: its permission set goes beyond reading, or its review is marked `always`, as plan
    validation marks tools that can destroy data and capabilities that ask before each use.  An
    external action has the risk that its agent, policy and catalogue give it together.
    """
    if isinstance(task, ExternalActionTask):
        return task.risk
    review = task.human_review
    always = review is not None and review.always
    return "high" if always or is_critical(task) else "low"


def highest_risk(risks: Iterable[Risk]) -> Risk:
    """Return the highest risk; low for none."""
    return max(risks, key=RISKS.index, default="low")


def risk_of_tasks(tasks: Iterable[AnyTask]) -> Risk:
    """Return the risk of tasks that are approved together: that of the riskiest."""
    return highest_risk(map(task_risk, tasks))
