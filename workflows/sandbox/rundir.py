"""The temporary directory of a run, and cleanup of directories that killed workers left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "holdpoint-sandbox-"
_NAME: Final = re.compile(rf"{_PREFIX}(\d+-\d+)-[^-]+")
_CHILD_FILE: Final = "child"
_MAX_DEPTH: Final = 100


@contextlib.contextmanager
def run_directory(root: Path | None) -> Iterator[Path]:
    """Create a temporary directory that only this user can read; delete it at the end."""
    folder = Path(
        tempfile.mkdtemp(prefix=f"{_PREFIX}{_process_identity(os.getpid())}-", dir=root)
    ).resolve()
    try:
        yield folder
    finally:
        remove_folder(folder)


def record_child(folder: Path, pid: int) -> None:
    """Record the child that runs in `folder`, for `clear_leftovers`."""
    (folder / _CHILD_FILE).write_text(_process_identity(pid), encoding="ascii")


def clear_leftovers(root: Path | None = None) -> int:
    """Delete directories of dead workers and kill their children; return how many.

    `root` contains the directories of runs; None for the system's default.
    """
    cleared = 0
    for folder in Path(root or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        name = _NAME.fullmatch(folder.name)
        if name is None or folder.is_symlink() or _is_alive(name[1]):
            continue
        _kill_recorded_child(folder)
        remove_folder(folder)
        cleared += 1
    return cleared


def _kill_recorded_child(folder: Path) -> None:
    try:
        stamp = (folder / _CHILD_FILE).read_text(encoding="ascii")
    except (OSError, ValueError):
        return
    if _is_alive(stamp):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(int(stamp.partition("-")[0]), signal.SIGKILL)


def _process_identity(pid: int) -> str:
    """Return the id and start time of a process, which no later process can share."""
    try:
        # The command's name in parentheses may contain any character; the fields follow it.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return f"{pid}-{fields.rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return f"{pid}-0"


def _is_alive(stamp: str) -> bool:
    pid = stamp.partition("-")[0]
    return pid.isdigit() and Path(f"/proc/{pid}").exists() and _process_identity(int(pid)) == stamp


def exceeds_limits(folder: Path, most: int) -> bool:
    """Whether `folder` has more than `most` entries, or is nested too deeply.

    The program may change it meanwhile; entries that disappear are ignored.
    """
    pending, count = [(str(folder), 0)], 0
    while pending:
        path, depth = pending.pop()
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for each in entries:
                count += 1
                if count > most or depth > _MAX_DEPTH:
                    return True
                if each.is_dir(follow_symlinks=False):
                    pending.append((each.path, depth + 1))
    return False


_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(folder: Path) -> None:
    """Delete `folder` at any depth, even where a full path would be too long.

    No link is followed.  Another worker may delete it too; missing entries are ignored.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
            return
        folder.chmod(0o700)
        with _DirectoryCursor(folder) as cursor:
            _clear(cursor)
        folder.rmdir()


class _DirectoryCursor:
    """The open directory of a traversal."""

    def __init__(self, folder: Path) -> None:
        self.handle = os.open(folder, _FOLDER)

    def change_to(self, name: str) -> None:
        """Change to the subdirectory `name`, or to the parent for ".."."""
        inner = os.open(name, _FOLDER, dir_fd=self.handle)
        os.close(self.handle)
        self.handle = inner

    def __enter__(self) -> _DirectoryCursor:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)


def _clear(cursor: _DirectoryCursor) -> None:
    """Delete the contents of a directory, one step down or up at a time."""
    path: list[tuple[str, list[str]]] = []
    remaining = _unlink_files(cursor.handle)
    while remaining or path:
        if remaining:
            name = remaining.pop()
            with contextlib.suppress(FileNotFoundError):
                cursor.change_to(name)
                path.append((name, remaining))
                remaining = _unlink_files(cursor.handle)
        else:
            cursor.change_to("..")
            name, remaining = path.pop()
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=cursor.handle)


def _unlink_files(handle: int) -> list[str]:
    """Delete files; return the subdirectories, with all permissions for this user."""
    folders = []
    with os.scandir(handle) as entries:
        children = list(entries)
    for each in children:
        with contextlib.suppress(FileNotFoundError):
            if each.is_dir(follow_symlinks=False):
                # A directory without permissions can be neither read nor moved.
                os.chmod(each.name, 0o700, dir_fd=handle)
                folders.append(each.name)
            else:
                os.unlink(each.name, dir_fd=handle)
    return folders
