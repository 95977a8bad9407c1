"""Files by descriptor: no folder on the way can be swapped for a link between check and use.

A path given here is absolute, resolved through every link and checked. It is walked once more from
the root, one component at a time, and a link that has come in meanwhile is refused by the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_STEP: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def parent_of(path: Path) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder `path` lies in, and its name there ("." for the root).

    Raises OSError, NotADirectoryError where something on the way is a link.
    """
    here = os.open("/", _STEP)
    try:
        for name in path.parts[1:-1]:
            inner = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = inner
        yield here, path.name or "."
    finally:
        os.close(here)


def entry(path: Path) -> os.stat_result:
    """What stands at `path` itself, a link included. OSError when nothing does."""
    with parent_of(path) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)


def opened(path: Path, flags: int) -> int:
    """A descriptor of the file at `path`, never through a link."""
    safe = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    with parent_of(path) as (parent, name):
        return os.open(name, safe, 0o600, dir_fd=parent)


@contextmanager
def listed(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of the folder at `path`, as `os.scandir` gives them."""
    with parent_of(path) as (parent, name):
        handle = os.open(name, _LISTED, dir_fd=parent)
    try:
        with os.scandir(handle) as entries:
            yield entries
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make the folder `path` in one that is there."""
    with parent_of(path) as (parent, name):
        os.mkdir(name, dir_fd=parent)


def remove_file(path: Path) -> None:
    """Remove the file or the link at `path`."""
    with parent_of(path) as (parent, name):
        os.unlink(name, dir_fd=parent)


def remove_folder(path: Path) -> None:
    """Remove the empty folder at `path`."""
    with parent_of(path) as (parent, name):
        os.rmdir(name, dir_fd=parent)


def move(source: Path, target: Path) -> None:
    """Give the entry at `source` the place `target`."""
    with parent_of(source) as (parent, name), parent_of(target) as (other, new):
        os.rename(name, new, src_dir_fd=parent, dst_dir_fd=other)
