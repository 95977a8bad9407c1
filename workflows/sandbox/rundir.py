"""The folder of one run, and the folders that killed workers left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "holdpoint-sandbox-"
_NAME: Final = re.compile(rf"{_PREFIX}(\d+-\d+)-[^-]+")
_CHILD_FILE: Final = "child"


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


def _remove(folder: Path) -> None:
    def open_up(function: object, path: str, _: object) -> None:
        with contextlib.suppress(OSError):
            Path(path).parent.chmod(0o700)
            Path(path).chmod(0o700)
            shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink()

    shutil.rmtree(folder, onerror=open_up)
