"""The context of a tool call: task, deadline, permissions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.ports import TaskFailed

if TYPE_CHECKING:
    from .approved_files import ApprovedFile


class CancelFlag(Protocol):
    """Set when the execution is being aborted, such as a `threading.Event`."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


def _not_shown(share: float) -> None:
    """Drop the progress of a task that a worker runs."""


def _no_folder() -> Path:
    raise TaskFailed("only a worker gives a tool the folder of its run", retryable=False)


def _no_approved_files() -> Mapping[str, ApprovedFile]:
    return {}


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The argument `ctx` of a tool that declares it.

    `idempotency_key` is stable for (execution, plan revision, task, attempt): a tool with external
    effects passes it on, so that a repeated attempt takes effect once. `deadline` is a
    `time.monotonic()` time or None. `permissions` is the permission set of the task with its
    grants; None for calls without grants, to which the tool's own set applies. `feedback` lists the
    changes that reviewers have requested for the task's output, oldest first. `on_progress`
    receives the shares of `report_progress`. `folder` returns the folder of the run's files, and
    `approved_files` the files in it that a person approved, by path; remote tools have neither.
    """

    idempotency_key: str = ""
    execution_id: str = ""
    task_id: str = ""
    deadline: float | None = None
    cancelled: CancelFlag = field(default_factory=threading.Event)
    permissions: PermissionSet | None = None
    feedback: tuple[str, ...] = ()
    on_progress: Callable[[float], None] = _not_shown
    folder: Callable[[], Path] = _no_folder
    approved_files: Callable[[], Mapping[str, ApprovedFile]] = _no_approved_files

    def remaining(self) -> float | None:
        """Return the seconds until the deadline, at least 0; None without a deadline."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.monotonic())

    def report_progress(self, share: float) -> None:
        """Report the share of the work that is done, from 0 to 1.

        The page of the run shows it while a remote runner runs the task; for other tasks it has no
        effect. Raises ValueError for any other number.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share is {share!r}: progress is a number from 0 to 1")
        self.on_progress(float(share))
