"""How a task says that it did not succeed."""

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
    """What was tried, for people: "connect to api.example:443", "write working folder/x"."""
    inside = resource.removeprefix(SCRATCH)
    named = resource if inside == resource else f"working folder{inside}"
    is_folder = operation in ("read", "write") and resource.startswith("/") and resource[-1] == "/"
    below = " and everything below" if is_folder else ""
    return f"{_TRIED.get(operation, operation)} {named}{below}"


class TaskFailed(Exception):
    """The task ran and did not succeed; `retryable` lets its retry policy try again.

    `logs` is what it printed before, where that is known.
    """

    logs = ""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable


class PermissionEscalationNeeded(Exception):
    """The task needs more permission than it has; a person decides at the boundary.

    `operation` is a verb such as "net" or "write", `resource` the exact thing ("api.example:443",
    "/srv/x"), `line` the 1-based line of the user's code where it happened, if known.  `logs` is
    what the task printed before.
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
