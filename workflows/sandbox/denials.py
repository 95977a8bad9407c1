"""From "the code was refused this" to the exception that says so."""

from __future__ import annotations

from pathlib import Path

from workflows.engine.permissions import Operation, smallest_cover
from workflows.engine.ports import PermissionEscalationNeeded, TaskFailed
from workflows.permissions import deny_list

from .contract import NEVER_PATHS, Surroundings

_IMPOSSIBLE = {
    "run": "Programs cannot be started from the sandbox",
    "ffi": "Native libraries cannot be loaded in the sandbox",
    "sys": "Facts about the machine cannot be read in the sandbox",
    "import": "Code cannot be imported from the network",
}


def failed(message: str, line: int | None = None) -> TaskFailed:
    """A failure of the user's program; running it again would change nothing."""
    told = storable(message)
    return TaskFailed(told if line is None else f"{told} (line {line})", retryable=False)


def storable(text: str) -> str:
    """`text` without what a database text cannot hold: NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def is_never(path: Path) -> bool:
    """Whether `path` (without `..`) lies where no link may be resolved for a program."""
    return any(path.is_relative_to(root) for root in NEVER_PATHS)


def denied_path(
    around: Surroundings, operation: Operation, path: Path, line: int | None
) -> Exception:
    """The exception for a refused "read" or "write" of the resolved `path`."""
    problem = around.problem(operation, path)
    if problem:
        return failed(f"It may not {operation} {path}: {problem}", line)
    return denied(around, operation, around.resource(path), line)


def denied(
    around: Surroundings, operation: str, resource: str | None, line: int | None
) -> Exception:
    """The exception for a refused operation: a need a person can grant, or a plain failure.

    What the deny list covers is a failure: no decision could help.

    `resource` is None when the runtime asked for all of a kind at once.
    """
    current = around.request.permissions
    if operation in _IMPOSSIBLE:
        told = f": {resource}" if resource else ""
        return failed(f"{_IMPOSSIBLE[operation]}{told}", line)
    if resource is None:
        return failed(f"Unlimited {operation} access is never given in the sandbox", line)
    try:
        need = smallest_cover(operation, resource)  # type: ignore[arg-type]
    except ValueError as error:
        return failed(f"No permission can be given for {operation}: {error}", line)
    problem = deny_list.problem_of(need, scratch=around.scratch)
    if problem:
        return failed(f"It may not use {resource}: {problem}", line)
    if current.bound(str(around.scratch)).covers(need.bound(str(around.scratch))):
        return failed(f"{operation} of {resource} is granted but not possible this way", line)
    return PermissionEscalationNeeded(
        operation=operation,
        resource=resource,
        current=current,
        requested=current.union(need),
        line=line,
    )
