"""Files below one root and nowhere else.

A path is resolved first, so that a symbolic link inside the root works and one that leaves it is
refused.  Then every component is opened relative to the one before with O_NOFOLLOW: a directory
that is swapped for a link between the check and the use is refused by the kernel.  What the deny
list covers (`workflows.permissions.deny_list`) is refused even below the root.  A hard link is
never read: its other name may lie outside.  Writing replaces the name, not the file behind it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from workflows.common import real_paths
from workflows.engine.permissions import Operation
from workflows.engine.ports import TaskFailed
from workflows.permissions import deny_list

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_PATH = 4096
_RENAME_NOREPLACE = 1


def refuse(message: str) -> TaskFailed:
    """A failure that trying again does not mend."""
    return TaskFailed(message, retryable=False)


class Root:
    """The directory that file tools may see; paths go in and out relative to it, with "/"."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        try:
            self._real = Path(directory).resolve(strict=True)
        except OSError as error:
            raise refuse(
                f"the file root {os.fspath(directory)!r} cannot be used: {error}"
            ) from None
        if not self._real.is_dir():
            raise refuse("the file root is not a directory")

    @property
    def real(self) -> Path:
        """The directory itself, links resolved."""
        return self._real

    def parts(self, path: str) -> tuple[str, ...]:
        """The real components of `path` below the root, links resolved; () is the root itself.

        Raises TaskFailed for a path that is empty, malformed or outside.
        """
        if not path or len(path) > _MAX_PATH or any(ord(char) < 32 for char in path):
            raise refuse(f"path {path[:80]!r} is empty, too long or has control characters")
        try:
            real = real_paths.resolve(self._real / path)
        except (OSError, RuntimeError, UnicodeError, ValueError) as error:
            raise refuse(f"path {path!r} cannot be resolved: {error}") from None
        if not real.is_relative_to(self._real):
            raise refuse(f"path {path!r} lies outside the allowed root")
        parts = real.relative_to(self._real).parts
        self._check_denied(parts, "read")
        return parts

    def _check_denied(self, parts: tuple[str, ...], operation: Operation) -> None:
        """Raise TaskFailed for what the deny list covers: a root may be set around the product."""
        path = str(self._real.joinpath(*parts))
        problem = deny_list.path_problem(path, operation, below=False)
        if problem:
            raise refuse(f"{self.relative(parts)!r} is not for tools: {problem}")

    def relative(self, parts: tuple[str, ...]) -> str:
        """How a resolved path is written in results."""
        return PurePosixPath(*parts).as_posix() if parts else "."

    @classmethod
    def check_writable(cls, parts: tuple[str, ...]) -> None:
        """Raise TaskFailed where no file is ever written: the root, the inside of a repository."""
        if not parts:
            raise refuse("'.' is a directory, not a file")
        if ".git" in parts:
            shown = PurePosixPath(*parts).as_posix()
            raise refuse(f"{shown!r} lies in a .git directory, which runs code")

    @contextmanager
    def directory(self, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
        """An open descriptor of the directory `parts`, made with its parents if `create`."""
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
        """An open descriptor of the regular file `parts`, for reading."""
        shown = self.relative(parts)
        if not parts:
            raise refuse(f"{shown!r} is a directory, not a file")
        self._check_denied(parts, "read")
        with self.directory(parts[:-1]) as parent:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                descriptor = os.open(parts[-1], flags, dir_fd=parent)
            except OSError as error:
                raise _explained(error, shown) from None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
                raise refuse(f"{shown!r} is {kind}")
            if found.st_nlink > 1:
                raise refuse(f"{shown!r} is a hard link: its other name may lie outside the root")
            yield descriptor
        finally:
            os.close(descriptor)

    def put(self, parts: tuple[str, ...], data: bytes, *, overwrite: bool) -> None:
        """Put `data` at `parts` in one step: readers see the old file or the new one."""
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
                raise _explained(error, shown) from None
            finally:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)

    def _check_same(self, parts: tuple[str, ...], data: bytes) -> None:
        """Pass over an attempt that is repeated: its file is there already, byte for byte."""
        with self.open_file(parts) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as old:
            if old.read(len(data) + 1) != data:
                raise refuse(f"{self.relative(parts)!r} exists already, with other content")


def _enter(parent: int, name: str, shown: str, *, create: bool) -> int:
    try:
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=parent)
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _explained(error, shown) from None


def _mode_of(parent: int, name: str, shown: str) -> int | None:
    """Permission bits of the file that will be replaced, or None if there is none."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _explained(error, shown) from None
    if not stat.S_ISREG(found):
        raise refuse(f"{shown!r} exists and is not a regular file")
    return stat.S_IMODE(found) & 0o777


def _write_new(parent: int, name: str, data: bytes, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o644, dir_fd=parent), "wb") as target:
        if mode is not None:
            os.fchmod(target.fileno(), mode)
        target.write(data)
        target.flush()
        os.fsync(target.fileno())


def _rename_new(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
    """Rename `source` to `target`; FileExistsError where something stands there."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        names = os.fsencode(source), os.fsencode(target)
        if renameat2(src_dir_fd, names[0], dst_dir_fd, names[1], _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number), target)
    # Some network file systems cannot. The file has two names until the caller removes one.
    os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def _explained(error: OSError, shown: str) -> TaskFailed:
    """What went wrong, in words, without the machine's own paths."""
    if isinstance(error, FileNotFoundError):
        return refuse(f"{shown!r} does not exist")
    if isinstance(error, NotADirectoryError):
        return refuse(f"a part of {shown!r} is not a directory")
    if isinstance(error, PermissionError):
        return refuse(f"no permission for {shown!r}")
    return TaskFailed(f"{shown!r}: {error.strerror or type(error).__name__}")
