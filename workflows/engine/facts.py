"""What a decision looks at besides the state, and how it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .dag import Revision
from .policy import Policy
from .structure import Problem


class Refused(Exception):
    """The command does not apply.  `code` is stable, `message` says what to do.

    `problems` names fields, where fields are at fault.
    """

    def __init__(self, code: str, message: str, problems: Iterable[Problem] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a decision may look at besides the state.  `actor` is who commands, as text."""

    revision: Revision
    policy: Policy
    actor: str
    max_replans: int = 3
