"""Exceptions for operations that the sandbox denied."""

from __future__ import annotations

from pathlib import Path

from workflows.engine.policy.permissions import Operation, smallest_cover
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed
from workflows.permissions import deny_list

from .code_request import UNRESOLVED_PATHS, RunEnvironment

_IMPOSSIBLE = {
    "run": "Programs cannot be started from the sandbox",
    "ffi": "Native libraries cannot be loaded in the sandbox",
    "sys": "Facts about the machine cannot be read in the sandbox",
    "import": "Code cannot be imported from the network",
}


def task_failure(message: str, line: int | None = None) -> TaskFailed:
    """Return a failure of the user's program; it is not retryable."""
    text = storable(message)
    return TaskFailed(text if line is None else f"{text} (line {line})", retryable=False)


def storable(text: str) -> str:
    """Replace NUL and lone surrogates, which PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def is_unresolvable(path: Path) -> bool:
    """Whether `path` (without `..`) is below a directory whose links are never resolved."""
    return any(path.is_relative_to(root) for root in UNRESOLVED_PATHS)


def path_denial(
    environment: RunEnvironment, operation: Operation, path: Path, line: int | None
) -> Exception:
    """Return the exception for a denied "read" or "write" of the resolved `path`."""
    problem = environment.problem(operation, path)
    if problem:
        return task_failure(f"It may not {operation} {path}: {problem}", line)
    return denial(environment, operation, environment.resource(path), line)


def denial(
    environment: RunEnvironment, operation: str, resource: str | None, line: int | None
) -> Exception:
    """Return the exception for a denied operation: an escalation or a task failure.

    An operation on the deny list is a failure, because no grant can allow it. `resource` is None
    when the runtime requested unlimited access of a kind.
    """
    current = environment.request.permissions
    if operation in _IMPOSSIBLE:
        suffix = f": {resource}" if resource else ""
        return task_failure(f"{_IMPOSSIBLE[operation]}{suffix}", line)
    if resource is None:
        return task_failure(f"Unlimited {operation} access is never given in the sandbox", line)
    try:
        need = smallest_cover(operation, resource)  # type: ignore[arg-type]
    except ValueError as error:
        return task_failure(f"No permission can be given for {operation}: {error}", line)
    problem = deny_list.problem_of(need, scratch=environment.scratch)
    if problem:
        return task_failure(f"It may not use {resource}: {problem}", line)
    if current.bound(str(environment.scratch)).covers(need.bound(str(environment.scratch))):
        return task_failure(f"{operation} of {resource} is granted but not possible this way", line)
    return PermissionEscalationNeeded(
        operation=operation,
        resource=resource,
        current=current,
        requested=current.union(need),
        line=line,
    )
