"""Statuses of executions and tasks, and the table of permitted transitions."""

from __future__ import annotations

from enum import StrEnum


class ExecutionStatus(StrEnum):
    """Status of an execution; the database stores these values."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED_FOR_REVIEW = "PAUSED_FOR_REVIEW"
    AWAITING_AGENT = "AWAITING_AGENT"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    ABORTED = "ABORTED"

    @property
    def is_final(self) -> bool:
        return not TRANSITIONS[self]

    @property
    def is_resting(self) -> bool:
        """Whether the execution waits for a person or an agent, so that workers have no work."""
        return self in (ExecutionStatus.PAUSED_FOR_REVIEW, ExecutionStatus.AWAITING_AGENT)


_S = ExecutionStatus

#: The permitted next statuses of each status.  The guard of the model checks the same pairs.
TRANSITIONS: dict[ExecutionStatus, frozenset[ExecutionStatus]] = {
    _S.PENDING: frozenset({_S.RUNNING, _S.ABORTED}),
    _S.RUNNING: frozenset(
        {_S.PAUSED_FOR_REVIEW, _S.AWAITING_AGENT, _S.COMPLETED, _S.FAILED, _S.ABORTED}
    ),
    _S.PAUSED_FOR_REVIEW: frozenset({_S.RUNNING, _S.FAILED, _S.ABORTED}),
    _S.AWAITING_AGENT: frozenset({_S.RUNNING, _S.FAILED, _S.ABORTED}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.ABORTED: frozenset(),
}


class TaskStatus(StrEnum):
    """Status of one task of the current layer."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    REJECTED = "REJECTED"

    @property
    def is_final(self) -> bool:
        return self not in (TaskStatus.PENDING, TaskStatus.RUNNING)


class IllegalTransition(Exception):
    """An event asked for a status change that TRANSITIONS does not permit."""

    def __init__(self, old: ExecutionStatus, new: ExecutionStatus) -> None:
        super().__init__(f"an execution cannot go from {old} to {new}")
        self.old = old
        self.new = new


def check_transition(old: ExecutionStatus, new: ExecutionStatus) -> None:
    """Raise IllegalTransition unless `old` → `new` is in TRANSITIONS."""
    if new not in TRANSITIONS[old]:
        raise IllegalTransition(old, new)
