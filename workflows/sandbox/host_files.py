"""File operations of the Python sandbox, on real files and checked against the permissions.

The interpreter opens no file itself; it requests one operation at a time, and the worker performs
it here. A path is checked after all links are resolved, and opened without following links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic_monty import MontyFileHandle, ScanEntry, StatResult

from workflows.common import openat, real_paths
from workflows.engine.policy.permissions import Operation

from .code_request import RunEnvironment
from .denials import is_unresolvable, path_denial, task_failure

_MAX_READ_BYTES: Final = 16 << 20
_MAX_ENTRIES: Final = 10_000


class HostFiles:
    """File operations of one run. The program can handle an OSError; a denial ends the run."""

    def __init__(self, environment: RunEnvironment) -> None:
        self._environment = environment
        self._writable_bytes = environment.request.config.max_file_bytes
        self.line: int | None = None
        self.operations: dict[str, Callable[..., Any]] = {
            "open": self._open,
            "Path.exists": lambda path: self._kind(path) is not None,
            "Path.is_file": lambda path: stat.S_ISREG(self._kind(path) or 0),
            "Path.is_dir": lambda path: stat.S_ISDIR(self._kind(path) or 0),
            "Path.is_symlink": self._is_symlink,
            "Path.read_text": lambda path: self._read(path).decode("utf-8"),
            "Path.read_bytes": self._read,
            "Path.write_text": lambda path, text: self._write_text(path, text, os.O_TRUNC),
            "Path.write_bytes": lambda path, data: self._write(path, data, os.O_TRUNC),
            "Path.append_text": lambda path, text: self._write_text(path, text, os.O_APPEND),
            "Path.append_bytes": lambda path, data: self._write(path, data, os.O_APPEND),
            "Path.mkdir": self._mkdir,
            "Path.unlink": lambda path: openat.unlink(self._entry("write", path)),
            "Path.rmdir": lambda path: openat.rmdir(self._entry("write", path)),
            "Path.iterdir": self._iterdir,
            "Path.scan": self._scan,
            "Path.stat": self._stat,
            "Path.rename": self._rename,
            "Path.resolve": str,
            "Path.absolute": str,
        }

    def _check(self, operation: Operation, path: Path) -> Path:
        if not self._environment.allows(operation, path):
            raise path_denial(self._environment, operation, path, self.line)
        return path

    def _resolved(self, operation: Operation, path: Path) -> Path:
        """Resolve all links of `path`, which is relative to the working directory."""
        named = Path(os.path.normpath(self._environment.scratch / path))
        if is_unresolvable(named):
            # Not resolved: links there refer to the worker.
            raise path_denial(self._environment, operation, named, self.line)
        try:
            return real_paths.resolve(self._environment.scratch / path)
        except RuntimeError:
            raise OSError(errno.ELOOP, "Too many levels of symbolic links", str(path)) from None

    def _target(self, operation: Operation, path: PurePosixPath | MontyFileHandle) -> Path:
        """Resolve `path` and check it for `operation`."""
        text = path.path if isinstance(path, MontyFileHandle) else str(path)
        return self._check(operation, self._resolved(operation, Path(text)))

    def _entry(self, operation: Operation, path: PurePosixPath) -> Path:
        """Resolve the directory of `path` but not its last component, and check the entry."""
        return self._check(operation, self._resolved(operation, Path(path.parent)) / path.name)

    def _kind(self, path: PurePosixPath) -> int | None:
        """Return the file mode of the target of `path`, or None."""
        target = self._target("read", path)
        try:
            return openat.lstat(target).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_symlink(self, path: PurePosixPath) -> bool:
        try:
            return stat.S_ISLNK(openat.lstat(self._entry("read", path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _file(self, operation: Operation, path: Path, flags: int) -> int:
        """Open the regular file at `path`, which is resolved and checked."""
        # Truncate only after the checks of the opened file.
        handle = openat.open_file(path, flags & ~os.O_TRUNC)
        try:
            status = os.fstat(handle)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
            if not stat.S_ISREG(status.st_mode):
                raise PermissionError(errno.EACCES, "Not a regular file", str(path))
            if status.st_nlink > 1:
                # The other name may be in a directory without a grant.
                raise PermissionError(errno.EACCES, "The file is a hard link", str(path))
            if flags & os.O_TRUNC:
                os.ftruncate(handle, 0)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _open(self, path: PurePosixPath, mode: str) -> MontyFileHandle:
        flags = {"r": os.O_RDONLY, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC}.get(
            mode[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )
        operation: Operation = "read" if mode[0] == "r" else "write"
        os.close(self._file(operation, self._target(operation, path), flags))
        return MontyFileHandle(str(path), mode)

    def _read(self, path: PurePosixPath | MontyFileHandle) -> bytes:
        handle = self._file("read", self._target("read", path), os.O_RDONLY)
        with os.fdopen(handle, "rb") as file:
            data = file.read(_MAX_READ_BYTES + 1)
        if len(data) > _MAX_READ_BYTES:
            raise OSError(errno.EFBIG, f"File is over {_MAX_READ_BYTES} bytes", str(path))
        return data

    def _write_text(self, path: PurePosixPath | MontyFileHandle, text: str, how: int) -> int:
        self._write(path, text.encode(), how)
        return len(text)

    def _write(self, path: PurePosixPath | MontyFileHandle, data: bytes, how: int) -> int:
        self._writable_bytes -= len(data)
        if self._writable_bytes < 0:
            raise task_failure("The program wrote more to disk than it may", self.line)
        flags = os.O_WRONLY | os.O_CREAT | how
        with os.fdopen(self._file("write", self._target("write", path), flags), "wb") as file:
            return file.write(data)

    def _mkdir(self, path: PurePosixPath, *, parents: bool = False, exist_ok: bool = False) -> None:
        target = self._target("write", path)
        try:
            if parents:
                self._make_parents(target)
            openat.mkdir(target)
        except FileExistsError:
            if not exist_ok or not stat.S_ISDIR(openat.lstat(target).st_mode):
                raise

    def _make_parents(self, target: Path) -> None:
        """Create missing parent directories; each is checked as a write."""
        for folder in reversed(target.parents):
            try:
                openat.lstat(folder)
            except FileNotFoundError:
                openat.mkdir(self._check("write", folder))

    def _iterdir(self, path: PurePosixPath) -> list[PurePosixPath]:
        with openat.scandir(self._target("read", path)) as entries:
            return [path / child.name for child in _bounded(entries, _MAX_ENTRIES, path)]

    def _stat(self, path: PurePosixPath) -> StatResult:
        status = openat.lstat(self._target("read", path))
        if stat.S_ISDIR(status.st_mode):
            return StatResult.dir_stat(status.st_mode, status.st_mtime)
        return StatResult.file_stat(status.st_size, status.st_mode, status.st_mtime)

    def _rename(self, source: PurePosixPath, target: PurePosixPath) -> None:
        # Moving a file into a readable directory makes it readable.
        self._entry("read", source)
        openat.rename(self._entry("write", source), self._entry("write", target))

    def _scan(
        self,
        path: PurePosixPath,
        *,
        max_depth: int | None = None,
        follow_symlinks: bool = False,
        **_hints: object,
    ) -> list[ScanEntry]:
        """List the directory recursively; links are listed and not followed."""
        top = self._target("read", path)
        mode = openat.lstat(top).st_mode
        result = [ScanEntry("", stat.S_ISDIR(mode), stat.S_ISREG(mode), stat.S_ISLNK(mode))]
        pending = [(top, "", 0)] if stat.S_ISDIR(mode) else []
        while pending:
            folder, prefix, depth = pending.pop()
            if max_depth is not None and depth >= max_depth:
                continue
            with openat.scandir(folder) as entries:
                children = list(_bounded(entries, _MAX_ENTRIES - len(result), path))
            for child in sorted(children, key=lambda each: each.name):
                name = f"{prefix}/{child.name}" if prefix else child.name
                is_dir = child.is_dir(follow_symlinks=False)
                is_file = child.is_file(follow_symlinks=False)
                result.append(ScanEntry(name, is_dir, is_file, child.is_symlink()))
                if is_dir:
                    pending.append((folder / child.name, name, depth + 1))
        return result


def _bounded(
    entries: Iterable[os.DirEntry[str]], most: int, path: PurePosixPath
) -> Iterator[os.DirEntry[str]]:
    for number, each in enumerate(entries):
        if number >= most:
            raise OSError(errno.E2BIG, f"More than {_MAX_ENTRIES} entries", str(path))
        yield each
