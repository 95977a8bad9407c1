"""The file system as the Python sandbox sees it: real files, each call checked first.

The interpreter never opens anything; it asks for one operation at a time and the worker does it
here. A path is resolved through every link before it is checked, and the opened file is checked
again to be the one that was named.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic_monty import MontyFileHandle, ScanEntry, StatResult

from workflows.engine.permissions import Operation

from .contract import Surroundings
from .denials import denied_path, failed, is_never

_MAX_READ_BYTES: Final = 16 << 20
_MAX_SCAN: Final = 10_000


class HostFiles:
    """File operations of one run. OSErrors are the program's to handle; a denial ends the run."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._writable_bytes = around.request.config.max_file_bytes
        self.line: int | None = None
        self.operations: dict[str, Callable[..., Any]] = {
            "open": self._open,
            "Path.exists": lambda path: self._seen(path).exists(),
            "Path.is_file": lambda path: self._seen(path).is_file(),
            "Path.is_dir": lambda path: self._seen(path).is_dir(),
            "Path.is_symlink": lambda path: self._entry("read", path).is_symlink(),
            "Path.read_text": lambda path: self._read(path).decode("utf-8"),
            "Path.read_bytes": self._read,
            "Path.write_text": lambda path, text: self._write_text(path, text, os.O_TRUNC),
            "Path.write_bytes": lambda path, data: self._write(path, data, os.O_TRUNC),
            "Path.append_text": lambda path, text: self._write_text(path, text, os.O_APPEND),
            "Path.append_bytes": lambda path, data: self._write(path, data, os.O_APPEND),
            "Path.mkdir": self._mkdir,
            "Path.unlink": lambda path: self._entry("write", path).unlink(),
            "Path.rmdir": lambda path: self._entry("write", path).rmdir(),
            "Path.iterdir": self._iterdir,
            "Path.scan": self._scan,
            "Path.stat": self._stat,
            "Path.rename": self._rename,
            "Path.resolve": str,
            "Path.absolute": str,
        }

    def _check(self, operation: Operation, path: Path) -> Path:
        allowed = self._around.permissions.allows(operation, str(path))
        if not allowed or is_never(path):
            raise denied_path(self._around, operation, path, self.line)
        return path

    def _target(self, operation: Operation, path: PurePosixPath | MontyFileHandle) -> Path:
        """Where `path` leads, links followed, checked for `operation`."""
        text = path.path if isinstance(path, MontyFileHandle) else str(path)
        return self._check(operation, _resolved(Path(text)))

    def _entry(self, operation: Operation, path: PurePosixPath) -> Path:
        """The directory entry itself: links followed in its folder, not in its own name."""
        return self._check(operation, _resolved(Path(path.parent)) / path.name)

    def _seen(self, path: PurePosixPath) -> Path:
        return self._target("read", path)

    def _file(self, operation: Operation, path: Path, flags: int) -> int:
        """An open regular file that is surely `path` (resolved, checked)."""
        safe = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        # Truncation waits until the opened file is known to be the right one.
        handle = os.open(path, safe & ~os.O_TRUNC, 0o600)
        try:
            kind = os.fstat(handle).st_mode
            if stat.S_ISDIR(kind):
                raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
            if not stat.S_ISREG(kind):
                raise PermissionError(errno.EACCES, "Not a regular file", str(path))
            opened = Path(f"/proc/self/fd/{handle}")
            if opened.exists() and opened.readlink() != path:
                self._check(operation, opened.readlink())
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
            raise failed("The program wrote more to disk than it may", self.line)
        flags = os.O_WRONLY | os.O_CREAT | how
        with os.fdopen(self._file("write", self._target("write", path), flags), "wb") as file:
            return file.write(data)

    def _mkdir(self, path: PurePosixPath, *, parents: bool = False, exist_ok: bool = False) -> None:
        self._target("write", path).mkdir(parents=parents, exist_ok=exist_ok)

    def _iterdir(self, path: PurePosixPath) -> list[PurePosixPath]:
        return [path / child.name for child in self._seen(path).iterdir()]

    def _stat(self, path: PurePosixPath) -> StatResult:
        found = self._seen(path).stat()
        if stat.S_ISDIR(found.st_mode):
            return StatResult.dir_stat(found.st_mode, found.st_mtime)
        return StatResult.file_stat(found.st_size, found.st_mode, found.st_mtime)

    def _rename(self, source: PurePosixPath, target: PurePosixPath) -> None:
        # Moving a file into a readable folder reads it.
        self._entry("read", source)
        self._entry("write", source).rename(self._entry("write", target))

    def _scan(
        self,
        path: PurePosixPath,
        *,
        max_depth: int | None = None,
        follow_symlinks: bool = False,
        **_hints: object,
    ) -> list[ScanEntry]:
        """The folder and what lies below it; links inside are listed and never entered."""
        top = self._seen(path)
        if not top.exists():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        entries = [_scan_entry("", top)]
        pending = [(top, "", 0)] if top.is_dir() else []
        while pending:
            folder, prefix, depth = pending.pop()
            if max_depth is not None and depth >= max_depth:
                continue
            for child in sorted(folder.iterdir()):
                name = f"{prefix}/{child.name}" if prefix else child.name
                entries.append(_scan_entry(name, child))
                if len(entries) > _MAX_SCAN:
                    raise OSError(errno.E2BIG, f"More than {_MAX_SCAN} entries", str(path))
                if child.is_dir() and not child.is_symlink():
                    pending.append((child, name, depth + 1))
        return entries


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:
        raise OSError(errno.ELOOP, "Too many levels of symbolic links", str(path)) from None


def _scan_entry(name: str, path: Path) -> ScanEntry:
    is_link = path.is_symlink()
    is_dir = not is_link and path.is_dir()
    return ScanEntry(name, is_dir, not is_link and path.is_file(), is_link)
