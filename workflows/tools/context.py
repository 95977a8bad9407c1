"""What a tool may know about the task that calls it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from workflows.engine.permissions import PermissionSet


class CancelFlag(Protocol):
    """Set when the execution is being aborted; `threading.Event` fits."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Handed to a tool that declares a parameter of this type.

    `idempotency_key` is stable for (execution, plan revision, task, attempt): a tool with an
    effect outside passes it on, so that an attempt that is repeated has its effect once.
    `deadline` is a `time.monotonic()` instant or None.  `permissions` is what the task may touch
    with its grants; None when nobody keeps grants for it, and the tool's own set holds.
    `feedback` is what reviewers asked to be changed in the task's output so far, oldest first.
    """

    idempotency_key: str = ""
    execution_id: str = ""
    task_id: str = ""
    deadline: float | None = None
    cancelled: CancelFlag = field(default_factory=threading.Event)
    permissions: PermissionSet | None = None
    feedback: tuple[str, ...] = ()

    def remaining(self) -> float | None:
        """Seconds until the deadline, never negative; None without one."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.monotonic())
