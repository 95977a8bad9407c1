"""The folder of one run, and the folders that killed workers left behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "holdpoint-sandbox-"
_NAME: Final = re.compile(rf"{_PREFIX}(\d+-\d+)-[^-]+")
_CHILD_FILE: Final = "child"
_DEEPEST: Final = 100


@contextlib.contextmanager
def run_folder(root: Path | None) -> Iterator[Path]:
    """A fresh folder, readable by this user alone, deleted at the end whatever was put there."""
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{_stamp(os.getpid())}-", dir=root)).resolve()
    try:
        yield folder
    finally:
        _remove(folder)


def note_child(folder: Path, pid: int) -> None:
    """Write down which child works in `folder`, for `clear_leftovers`."""
    (folder / _CHILD_FILE).write_text(_stamp(pid), encoding="ascii")


def clear_leftovers(root: Path | None = None) -> int:
    """Delete run folders whose worker is gone and kill what still runs there; returns how many.

    `root` is where runs have their folders, None for the system's default.
    """
    cleared = 0
    for folder in Path(root or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        name = _NAME.fullmatch(folder.name)
        if name is None or folder.is_symlink() or _is_alive(name[1]):
            continue
        _kill_noted(folder)
        _remove(folder)
        cleared += 1
    return cleared


def _kill_noted(folder: Path) -> None:
    try:
        stamp = (folder / _CHILD_FILE).read_text(encoding="ascii")
    except (OSError, ValueError):
        return
    if _is_alive(stamp):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(int(stamp.partition("-")[0]), signal.SIGKILL)


def _stamp(pid: int) -> str:
    """A process, told apart from a later one with the same id by when it started."""
    try:
        # The command's name is in parentheses and may hold anything; the fields follow it.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return f"{pid}-{fields.rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return f"{pid}-0"


def _is_alive(stamp: str) -> bool:
    pid = stamp.partition("-")[0]
    return pid.isdigit() and Path(f"/proc/{pid}").exists() and _stamp(int(pid)) == stamp


def is_overgrown(folder: Path, most: int) -> bool:
    """Whether more than `most` entries lie below `folder`, or some very deep inside.

    The program may be at work there: what vanishes meanwhile does not count.
    """
    pending, count = [(str(folder), 0)], 0
    while pending:
        path, depth = pending.pop()
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for each in entries:
                count += 1
                if count > most or depth > _DEEPEST:
                    return True
                if each.is_dir(follow_symlinks=False):
                    pending.append((each.path, depth + 1))
    return False


_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _remove(folder: Path) -> None:
    """Delete `folder`, however deep it is: there may be no path that names all of it.

    Another worker may be at the same: what is gone already is passed over.
    """
    with contextlib.suppress(FileNotFoundError):
        folder.chmod(0o700)
        with _Place(folder) as place:
            _clear(place)
        folder.rmdir()


class _Place:
    """The one folder that is open."""

    def __init__(self, folder: Path) -> None:
        self.handle = os.open(folder, _FOLDER)

    def go(self, name: str) -> None:
        """Be in the folder `name` of this one, ".." for the one above."""
        there = os.open(name, _FOLDER, dir_fd=self.handle)
        os.close(self.handle)
        self.handle = there

    def __enter__(self) -> _Place:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)


def _clear(place: _Place) -> None:
    """Delete all that is in a folder, one step down or up at a time."""
    way: list[tuple[str, list[str]]] = []
    left = _unlink_files(place.handle)
    while left or way:
        if left:
            name = left.pop()
            with contextlib.suppress(FileNotFoundError):
                place.go(name)
                way.append((name, left))
                left = _unlink_files(place.handle)
        else:
            place.go("..")
            name, left = way.pop()
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=place.handle)


def _unlink_files(handle: int) -> list[str]:
    """Delete what is no folder; returns the folders, now with every right for this user."""
    folders = []
    with os.scandir(handle) as entries:
        children = list(entries)
    for each in children:
        with contextlib.suppress(FileNotFoundError):
            if each.is_dir(follow_symlinks=False):
                # A folder without rights can be neither read nor moved.
                os.chmod(each.name, 0o700, dir_fd=handle)
                folders.append(each.name)
            else:
                os.unlink(each.name, dir_fd=handle)
    return folders
