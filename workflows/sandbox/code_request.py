"""Requests to the sandbox, their results, and the environment of one run."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from workflows.common import real_paths
from workflows.common.outbound_http import NetLimits, Resolver, system_resolver
from workflows.engine.policy.permissions import SCRATCH, Operation, PermissionSet, is_folder_path
from workflows.engine.values.bounded_json import JSON
from workflows.engine.values.reasons import Reason
from workflows.permissions import deny_list

Language = Literal["python", "typescript", "javascript"]

UNRESOLVED_PATHS: Final = ("/proc", "/sys", "/dev")
"""Denied before links are resolved: links there refer to the worker, not to the program."""

LandlockMode = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class SandboxConfig:
    """Limits and directories that the installation sets for all requests.

    `temp_root` holds the directory of each run (the system's default when None). Output beyond
    `max_output_bytes` is dropped; a program whose output reaches `flood_bytes` is killed. A program
    may write `max_file_bytes` over all files, and have `max_files` in its working directory.

    `landlock` says when code is refused because Landlock is unavailable: "auto" if the kernel has
    it and this process may not use it, "on" always, "off" never. Code runs as root only with
    `allow_root`.
    """

    temp_root: Path | None = None
    max_code_bytes: int = 256 << 10
    max_output_bytes: int = 256 << 10
    flood_bytes: int = 32 << 20
    max_file_bytes: int = 64 << 20
    max_files: int = 10_000
    max_fetches: int = 200
    net: NetLimits = field(default_factory=NetLimits)
    resolver: Resolver = system_resolver
    landlock: LandlockMode = "auto"
    allow_root: bool = False


@dataclass(frozen=True)
class CodeRequest:
    """One program to run. See the package's docstring for what `code` may be.

    `env` holds the values of `permissions.env_names`; the worker's own environment is not passed
    on. `scratch_dir` is the working directory, named `$SCRATCH` in permissions; without one the run
    gets an empty directory that is deleted afterwards.
    """

    language: Language
    code: str
    inputs: Mapping[str, JSON] = field(default_factory=dict)
    permissions: PermissionSet = field(default_factory=PermissionSet)
    timeout_seconds: float = 30.0
    memory_mb: int = 128
    scratch_dir: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    config: SandboxConfig = field(default_factory=SandboxConfig)


@dataclass(frozen=True)
class CodeResult:
    """The result of a program: JSON value, output, and duration in seconds of wall-clock time."""

    value: JSON
    stdout: str
    stderr: str
    duration: float

    @property
    def logs(self) -> str:
        """Standard output and standard error in one text."""
        return combined_output(self.stdout, self.stderr)


def combined_output(stdout: str, stderr: str) -> str:
    """Join standard output and standard error for a log."""
    return "\n".join(part for part in (stdout, stderr) if part)


@dataclass(frozen=True)
class RunEnvironment:
    """The environment of one run: the request, its working directory and resolved permissions.

    `$SCRATCH` is bound to the working directory. A granted path is effective only while it refers
    to the file that was granted: not denied, not a symbolic link or below one, and no directory
    or hard link where one file was granted.
    """

    request: CodeRequest
    scratch: Path
    permissions: PermissionSet

    @classmethod
    def of(cls, request: CodeRequest, run_dir: Path) -> RunEnvironment:
        """Resolve `request` for a run in `run_dir`; create the working directory."""
        scratch = (request.scratch_dir or run_dir / "scratch").resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        bound = deny_list.without_denied(request.permissions.bound(str(scratch)), scratch=scratch)
        resolved = PermissionSet(
            hosts=bound.hosts,
            read_paths=tuple(filter(_is_unchanged, bound.read_paths)),
            write_paths=tuple(filter(_is_unchanged, bound.write_paths)),
            env_names=bound.env_names,
        )
        return cls(request, scratch, resolved)

    def resource(self, path: Path) -> str:
        """Return the name of the resolved `path` for people and for grants of later runs."""
        if path.is_relative_to(self.scratch):
            inside = path.relative_to(self.scratch)
            return SCRATCH if str(inside) == "." else f"{SCRATCH}/{inside}"
        return permission_entry(path)

    def problem(self, operation: Operation, path: Path) -> Reason | None:
        """Return why `path` cannot be granted for "read" or "write"; None when it can."""
        return deny_list.path_problem(str(path), operation, scratch=self.scratch)

    def allows(self, operation: Operation, path: Path) -> bool:
        """Whether the resolved `path` is granted and not denied."""
        granted = self.permissions.allows(operation, permission_entry(path))
        return granted and not self.problem(operation, path)

    def granted_env(self) -> dict[str, str]:
        """Return the granted environment variables."""
        env = self.request.env
        return {name: env[name] for name in self.permissions.env_names if name in env}


def permission_entry(path: Path) -> str:
    """Return the permission entry of the resolved `path`; an existing directory ends in "/"."""
    try:
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        is_folder = False
    return f"{path}/" if is_folder and path != path.parent else str(path)


def _is_unchanged(entry: str) -> bool:
    path = Path(entry)
    try:
        if real_paths.resolve(path) != path:
            return False
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, RuntimeError):
        return False
    if is_folder_path(entry):
        return True
    # Deno opens files itself; therefore a hard link that was granted by name is refused here.
    return not stat.S_ISDIR(status.st_mode) and (
        not stat.S_ISREG(status.st_mode) or status.st_nlink == 1
    )
