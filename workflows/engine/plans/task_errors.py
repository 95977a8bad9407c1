"""Exceptions with which a task ends without success."""

from __future__ import annotations

from typing import Final

from workflows.engine.policy.permissions import SCRATCH, PermissionSet
from workflows.engine.values.reasons import Reason

#: Operation → code of the reason that says what was tried.
_ATTEMPTS: Final = {
    "net": "attempt_net",
    "read": "attempt_read",
    "write": "attempt_write",
    "env": "attempt_env",
    "run": "attempt_run",
}


def attempt_reason(operation: str, resource: str) -> Reason:
    """Return what was tried: "connect to api.example:443", "write working folder/x"."""
    inside = resource.removeprefix(SCRATCH)
    named: str | Reason = resource
    if inside != resource:
        named = Reason("working_folder", {"path": inside})
    elif operation in ("read", "write") and resource.startswith("/") and resource[-1] == "/":
        named = Reason("folder", {"path": resource})
    if operation not in _ATTEMPTS:
        return Reason("attempt_other", {"operation": operation, "resource": named})
    return Reason(_ATTEMPTS[operation], {"resource": named})


class TaskFailed(Exception):
    """The task failed; with `retryable` its retry policy may run it again.

    `reason` is the message as a code, where Holdpoint wrote it and not a tool.  `logs` is the
    output that the task printed before, if known.
    """

    logs = ""

    def __init__(self, reason: Reason | str, *, retryable: bool = True) -> None:
        self.reason = reason if isinstance(reason, Reason) else None
        self.message = reason.text if isinstance(reason, Reason) else reason
        self.retryable = retryable
        super().__init__(self.message)


class PermissionEscalationNeeded(Exception):
    """The task needs more permission than it has; a person decides at the layer boundary.

    `operation` is a verb such as "net" or "write", `resource` the exact target ("api.example:443",
    "/srv/x"), `line` the 1-based line of the user's code, if known.  `logs` is the output that the
    task printed before.
    """

    logs = ""

    def __init__(
        self,
        *,
        operation: str,
        resource: str,
        current: PermissionSet,
        requested: PermissionSet,
        line: int | None = None,
    ) -> None:
        super().__init__(f"{operation} needs permission for {resource}")
        self.operation = operation
        self.resource = resource
        self.current = current
        self.requested = requested
        self.line = line
