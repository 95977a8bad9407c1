"""Access to files below one root directory only.

A path is resolved first: a symbolic link inside the root works, and a link that leaves it is
refused. Then every component is opened relative to the previous one with O_NOFOLLOW, so that the
kernel refuses a directory that was swapped for a link between check and use. Paths on the deny list
(`workflows.permissions.deny_list`) are refused even below the root. A hard link is never read,
because its other name may be outside. Writing replaces the directory entry, not the file behind it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import posixpath
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from workflows.common import real_paths
from workflows.engine.policy.permissions import Operation
from workflows.engine.protocol.ports import TaskFailed
from workflows.permissions import deny_list

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_PATH = 4096
_RENAME_NOREPLACE = 1


def permanent_failure(message: str) -> TaskFailed:
    """Return a failure that is not retryable."""
    return TaskFailed(message, retryable=False)


class Root:
    """The directory that file tools can access; paths are relative to it and use "/"."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        try:
            self._real = Path(directory).resolve(strict=True)
        except OSError as error:
            raise permanent_failure(
                f"the file root {os.fspath(directory)!r} cannot be used: {error}"
            ) from None
        if not self._real.is_dir():
            raise permanent_failure("the file root is not a directory")

    @property
    def real(self) -> Path:
        """The resolved directory."""
        return self._real

    def parts(self, path: str) -> tuple[str, ...]:
        """Resolve `path` into components below the root; () is the root itself.

        Raises TaskFailed for a path that is empty, malformed or outside of the root.
        """
        self.check_spelling(path)
        try:
            real = real_paths.resolve(self._real / path)
        except (OSError, RuntimeError, UnicodeError, ValueError) as error:
            raise permanent_failure(f"path {path!r} cannot be resolved: {error}") from None
        if not real.is_relative_to(self._real):
            raise permanent_failure(f"path {path!r} lies outside the allowed root")
        parts = real.relative_to(self._real).parts
        self._check_denied(parts, "read")
        return parts

    @classmethod
    def check_spelling(cls, path: str) -> tuple[str, ...]:
        """Return the components of `path` without looking at any file.

        Raises TaskFailed for a path that is empty, malformed, absolute or above the root.
        """
        if not path or len(path) > _MAX_PATH or any(ord(char) < 32 for char in path):
            raise permanent_failure(
                f"path {path[:80]!r} is empty, too long or has control characters"
            )
        normal = PurePosixPath(posixpath.normpath(path))
        if normal.is_absolute() or normal.parts[:1] == ("..",):
            raise permanent_failure(f"path {path!r} lies outside the allowed root")
        return normal.parts

    def _check_denied(self, parts: tuple[str, ...], operation: Operation) -> None:
        """Raise TaskFailed for a path on the deny list: the root may contain the product itself."""
        path = str(self._real.joinpath(*parts))
        problem = deny_list.path_problem(path, operation, scratch=self._real, below=False)
        if problem:
            raise permanent_failure(f"{self.relative(parts)!r} is not for tools: {problem}")

    def relative(self, parts: tuple[str, ...]) -> str:
        """Format a resolved path for results."""
        return PurePosixPath(*parts).as_posix() if parts else "."

    @classmethod
    def check_writable(cls, parts: tuple[str, ...]) -> None:
        """Raise TaskFailed for paths that are never written: the root, and .git directories."""
        if not parts:
            raise permanent_failure("'.' is a directory, not a file")
        if ".git" in parts:
            shown = PurePosixPath(*parts).as_posix()
            raise permanent_failure(f"{shown!r} lies in a .git directory, which runs code")

    @contextmanager
    def directory(self, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
        """Open the directory `parts`; with `create`, create it and its parents."""
        shown = self.relative(parts)
        self._check_denied(parts, "write" if create else "read")
        descriptor = os.open(self._real, _DIRECTORY)
        try:
            for name in parts:
                inner = _enter(descriptor, name, shown, create=create)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def open_file(self, parts: tuple[str, ...]) -> Iterator[int]:
        """Open the regular file `parts` for reading."""
        shown = self.relative(parts)
        if not parts:
            raise permanent_failure(f"{shown!r} is a directory, not a file")
        self._check_denied(parts, "read")
        with self.directory(parts[:-1]) as parent:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                descriptor = os.open(parts[-1], flags, dir_fd=parent)
            except OSError as error:
                raise _failure_from(error, shown) from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
                raise permanent_failure(f"{shown!r} is {kind}")
            if status.st_nlink > 1:
                raise permanent_failure(
                    f"{shown!r} is a hard link: its other name may lie outside the root"
                )
            yield descriptor
        finally:
            os.close(descriptor)

    def put(self, parts: tuple[str, ...], data: bytes, *, overwrite: bool) -> None:
        """Write `data` to `parts` atomically: readers see the old file or the new one."""
        shown = self.relative(parts)
        self.check_writable(parts)
        self._check_denied(parts, "write")
        with self.directory(parts[:-1], create=True) as parent:
            mode = _mode_of(parent, parts[-1], shown)
            temporary = f".{secrets.token_hex(8)}.tmp"
            try:
                _write_new(parent, temporary, data, mode)
                publish = os.replace if overwrite else _rename_new
                publish(temporary, parts[-1], src_dir_fd=parent, dst_dir_fd=parent)
                os.fsync(parent)
            except FileExistsError:
                self._check_same(parts, data)
            except OSError as error:
                raise _failure_from(error, shown) from None
            finally:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)

    def _check_same(self, parts: tuple[str, ...], data: bytes) -> None:
        """Accept an existing file with equal content, which an earlier attempt has written."""
        with self.open_file(parts) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as old:
            if old.read(len(data) + 1) != data:
                raise permanent_failure(
                    f"{self.relative(parts)!r} exists already, with other content"
                )


def _enter(parent: int, name: str, shown: str, *, create: bool) -> int:
    try:
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=parent)
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _failure_from(error, shown) from None


def _mode_of(parent: int, name: str, shown: str) -> int | None:
    """Return the permission bits of the file to replace, or None."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failure_from(error, shown) from None
    if not stat.S_ISREG(mode):
        raise permanent_failure(f"{shown!r} exists and is not a regular file")
    return stat.S_IMODE(mode) & 0o777


def _write_new(parent: int, name: str, data: bytes, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o644, dir_fd=parent), "wb") as target:
        if mode is not None:
            os.fchmod(target.fileno(), mode)
        target.write(data)
        target.flush()
        os.fsync(target.fileno())


def _rename_new(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
    """Rename `source` to `target`; raise FileExistsError if `target` exists."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        names = os.fsencode(source), os.fsencode(target)
        if renameat2(src_dir_fd, names[0], dst_dir_fd, names[1], _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number), target)
    # Some network file systems lack it. The file has two names until the caller removes one.
    os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def _failure_from(error: OSError, shown: str) -> TaskFailed:
    """Convert an OSError into a failure without paths of the host."""
    if isinstance(error, FileNotFoundError):
        return permanent_failure(f"{shown!r} does not exist")
    if isinstance(error, NotADirectoryError):
        return permanent_failure(f"a part of {shown!r} is not a directory")
    if isinstance(error, PermissionError):
        return permanent_failure(f"no permission for {shown!r}")
    return TaskFailed(f"{shown!r}: {error.strerror or type(error).__name__}")
