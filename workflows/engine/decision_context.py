"""What a decision looks at besides the state, and how it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .dag import Revision
from .plan_validation import Problem
from .policy import Policy
from .ports import Settled


class Refused(Exception):
    """The command does not apply.  `code` is stable, `message` says what to do.

    `problems` names fields, where fields are at fault.
    """

    def __init__(self, code: str, message: str, problems: Iterable[Problem] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.problems = tuple(problems)


def nothing_settled(task_ids: Sequence[str]) -> Mapping[str, Settled]:
    """The results of a run in which no task has ended yet."""
    return {}


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a decision may look at besides the state.

    `actor` names the sender of the command.  `settled` returns how the named tasks ended; tasks
    that have not ended are left out.
    """

    revision: Revision
    policy: Policy
    actor: str
    max_replans: int = 3
    max_failed_replans: int = 10
    settled: Callable[[Sequence[str]], Mapping[str, Settled]] = nothing_settled
