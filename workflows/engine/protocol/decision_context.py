"""Input of `decide` besides the state, and the exception that refuses a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workflows.engine.plans.dag import Revision
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.policies import Policy
from workflows.engine.values.reasons import Reason

from .actors import Actor
from .ports import FinishedTask, PlanCheck, unchanged_plan


class Refused(Exception):
    """The command does not apply.  `code` is stable, `message` says in English what to do.

    `reason` is the same message for pages, which translate it.  It is a text where a tool or a
    library wrote the message.  `problems` lists the invalid fields, if any.
    """

    def __init__(self, code: str, reason: Reason | str, problems: Iterable[Problem] = ()) -> None:
        self.code = code
        self.reason = reason
        self.message = reason.text if isinstance(reason, Reason) else reason
        super().__init__(self.message)
        self.problems = tuple(problems)


def no_finished_tasks(task_ids: Sequence[str]) -> Mapping[str, FinishedTask]:
    """Return the results of a run in which no task has ended yet."""
    return {}


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The input of `decide` besides the state and the command.

    `actor` is the sender of the command.  `finished_tasks` returns how the named tasks ended;
    tasks that have not ended are left out.  `now` is the time in epoch seconds.
    """

    revision: Revision
    policy: Policy
    actor: Actor
    max_replans: int = 3
    max_failed_replans: int = 10
    now: float = 0.0
    finished_tasks: Callable[[Sequence[str]], Mapping[str, FinishedTask]] = no_finished_tasks
    with_required_reviews: PlanCheck = unchanged_plan
