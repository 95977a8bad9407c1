"""Resolve the links of a path while another process may be replacing them."""

import os
from pathlib import Path

_TRIES = 100


def resolve(path: Path | str) -> Path:
    """Return `path` as an absolute path without links; its last parts need not exist.

    `os.path.realpath` looks at an entry and then reads it as a link. It raises FileNotFoundError
    when the link is removed in between, so the resolution starts again.

    Raises:
        OSError: for a path that keeps changing, or a loop of links.
        RuntimeError: for a loop of links, as `Path.resolve` does.
        ValueError: for a path with a null byte.
    """
    for _ in range(_TRIES):
        try:
            return Path(path).resolve()
        except FileNotFoundError:
            continue
    raise OSError(f"{os.fspath(path)!r} changes while it is resolved")
