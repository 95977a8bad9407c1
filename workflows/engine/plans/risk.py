"""The risk of tasks: one measure for task reviews, layers, plan changes and outside actions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from workflows.engine.policy.permissions import NAMED

from .dag import AnyTask, ExternalActionTask, ToolTask

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


def is_critical(task: object) -> bool:
    """Return whether a task's permission set goes beyond reading.

    A tool has the set that the catalogue assigned when the plan was validated; an unknown set
    counts as critical.  An external action is critical if its risk is high.
    """
    if isinstance(task, ExternalActionTask):
        return task.risk == "high"
    name = getattr(task, "permission_set", None)
    if name is None:
        return isinstance(task, ToolTask)
    known = NAMED.get(name)
    return known is None or known.is_beyond_reading
