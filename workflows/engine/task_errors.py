"""Exceptions with which a task ends without success."""

from __future__ import annotations

from typing import Final

from .permissions import SCRATCH, PermissionSet

_TRIED: Final = {
    "net": "connect to",
    "read": "read",
    "write": "write",
    "env": "read the environment variable",
    "run": "start the program",
}


def attempt_words(operation: str, resource: str) -> str:
    """Describe an operation for people: "connect to api.example:443", "write working folder/x"."""
    inside = resource.removeprefix(SCRATCH)
    named = resource if inside == resource else f"working folder{inside}"
    is_folder = operation in ("read", "write") and resource.startswith("/") and resource[-1] == "/"
    below = " and everything below" if is_folder else ""
    return f"{_TRIED.get(operation, operation)} {named}{below}"


class TaskFailed(Exception):
    """The task failed; with `retryable` its retry policy may run it again.

    `logs` is the output that it printed before, if known.
    """

    logs = ""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable


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
