"""What goes into the sandbox and what comes out."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from workflows.common import real_paths
from workflows.common.outbound_http import NetLimits, Resolver, system_resolver
from workflows.engine.bounded_json import JSON
from workflows.engine.permissions import SCRATCH, Operation, PermissionSet, is_folder_path
from workflows.permissions import deny_list

Language = Literal["python", "typescript", "javascript"]

NEVER_PATHS: Final = ("/proc", "/sys", "/dev")
"""Denied before any link is resolved: links in there mean the worker, not the program."""

LandlockMode = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class SandboxConfig:
    """Bounds and places that belong to the installation, not to one request.

    `temp_root` holds the folder of each run (the system's default when None). Output beyond
    `max_output_bytes` is dropped; a program that goes on to `flood_bytes` is ended. A program
    writes `max_file_bytes` to disk, over all its files, and has `max_files` in its working folder.

    `landlock` says when code is refused for want of Landlock: "auto" where the kernel has it and
    this process may not use it, "on" everywhere, "off" never. Nothing runs as root unless
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

    `env` holds the values behind `permissions.env_names`; nothing of the worker's own environment
    is passed on. `scratch_dir` is the working folder, what `$SCRATCH` stands for; without one the
    run gets an empty folder that is deleted afterwards.
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
    """A finished program: its JSON value, what it printed, seconds it took by the wall clock."""

    value: JSON
    stdout: str
    stderr: str
    duration: float

    @property
    def logs(self) -> str:
        """Both streams in one text."""
        return one_text(self.stdout, self.stderr)


def one_text(stdout: str, stderr: str) -> str:
    """What a program printed, the way a log keeps it."""
    return "\n".join(part for part in (stdout, stderr) if part)


@dataclass(frozen=True)
class Surroundings:
    """A request's permissions on this machine, for this run.

    `$SCRATCH` is bound to the working folder. A granted path counts only while it is the place
    that was granted: not denied, not a symbolic link or below one, and no folder or hard link
    where one file was granted.
    """

    request: CodeRequest
    scratch: Path
    permissions: PermissionSet
    keeps_scratch: bool

    @classmethod
    def of(cls, request: CodeRequest, run_dir: Path) -> Surroundings:
        """Resolve `request` for the run whose own folder is `run_dir`; makes the working folder."""
        keeps = request.scratch_dir is not None
        scratch = (request.scratch_dir or run_dir / "scratch").resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        bound = deny_list.without_denied(request.permissions.bound(str(scratch)), scratch=scratch)
        real = PermissionSet(
            hosts=bound.hosts,
            read_paths=tuple(filter(_is_as_granted, bound.read_paths)),
            write_paths=tuple(filter(_is_as_granted, bound.write_paths)),
            env_names=bound.env_names,
        )
        return cls(request, scratch, real, keeps)

    def resource(self, path: Path) -> str:
        """How to name the resolved `path` to a person, and in a grant that a rerun understands."""
        if not self.keeps_scratch and path.is_relative_to(self.scratch):
            inside = path.relative_to(self.scratch)
            return SCRATCH if str(inside) == "." else f"{SCRATCH}/{inside}"
        return entry_of(path)

    def problem(self, operation: Operation, path: Path) -> str:
        """Why no grant reaches `path` for "read" or "write", in words; "" when one does."""
        return deny_list.path_problem(str(path), operation, scratch=self.scratch)

    def allows(self, operation: Operation, path: Path) -> bool:
        """Whether the program may use the resolved `path`: granted, and not denied."""
        granted = self.permissions.allows(operation, entry_of(path))
        return granted and not self.problem(operation, path)

    def granted_env(self) -> dict[str, str]:
        """The environment the code may see."""
        env = self.request.env
        return {name: env[name] for name in self.permissions.env_names if name in env}


def entry_of(path: Path) -> str:
    """How a permission names the resolved `path`: a folder that is there ends in "/"."""
    try:
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        is_folder = False
    return f"{path}/" if is_folder and path != path.parent else str(path)


def _is_as_granted(entry: str) -> bool:
    path = Path(entry)
    try:
        if real_paths.resolve(path) != path:
            return False
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, RuntimeError):
        return False
    if is_folder_path(entry):
        return True
    # Deno opens files itself, so that a hard link granted by name is refused here.
    return not stat.S_ISDIR(found.st_mode) and (
        not stat.S_ISREG(found.st_mode) or found.st_nlink == 1
    )
