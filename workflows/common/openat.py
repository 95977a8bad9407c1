"""File operations relative to directory descriptors (openat), which never follow a link.

Paths are absolute, and the caller has resolved and checked them. Each is opened again from the
root, one component at a time; the kernel refuses a directory that was swapped for a link between
check and use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PATH_COMPONENT: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_parent(path: Path) -> Iterator[tuple[int, str]]:
    """Open the parent directory of `path`; yield its descriptor and the entry's name.

    The name is "." for the root. Raises OSError, NotADirectoryError where a component is a link.
    """
    descriptor = os.open("/", _PATH_COMPONENT)
    try:
        for name in path.parts[1:-1]:
            inner = os.open(name, _PATH_COMPONENT, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, path.name or "."
    finally:
        os.close(descriptor)


def lstat(path: Path) -> os.stat_result:
    """Return the status of `path` itself, even if it is a link."""
    with open_parent(path) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)


def open_file(path: Path, flags: int) -> int:
    """Open the file at `path`; return its descriptor."""
    safe = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    with open_parent(path) as (parent, name):
        return os.open(name, safe, 0o600, dir_fd=parent)


@contextmanager
def scandir(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Iterate over the directory at `path` as `os.scandir` does."""
    with open_parent(path) as (parent, name):
        handle = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        with os.scandir(handle) as entries:
            yield entries
    finally:
        os.close(handle)


def mkdir(path: Path) -> None:
    """Create the directory `path`; its parent must exist."""
    with open_parent(path) as (parent, name):
        os.mkdir(name, dir_fd=parent)


def unlink(path: Path) -> None:
    """Remove the file or link at `path`."""
    with open_parent(path) as (parent, name):
        os.unlink(name, dir_fd=parent)


def rmdir(path: Path) -> None:
    """Remove the empty directory at `path`."""
    with open_parent(path) as (parent, name):
        os.rmdir(name, dir_fd=parent)


def rename(source: Path, target: Path) -> None:
    """Rename `source` to `target`."""
    with open_parent(source) as (parent, name), open_parent(target) as (other, new):
        os.rename(name, new, src_dir_fd=parent, dst_dir_fd=other)
