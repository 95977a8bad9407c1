"""Resolve the links of a path while another process may be replacing them."""

import errno
import os
from pathlib import Path
from typing import Final

_TRIES: Final = 100
_REPLACED_MEANWHILE: Final = (errno.ENOENT, errno.EINVAL)


def resolve(path: Path | str) -> Path:
    """Return `path` as an absolute path without links; its last parts need not exist.

    `os.path.realpath` looks at an entry and then reads it as a link. When the link is removed in
    between, the operating system reports ENOENT; when a folder or file took its place, EINVAL.
    The resolution then starts again.

    Raises:
        OSError: for a path that keeps changing, or a loop of links.
        RuntimeError: for a loop of links, as `Path.resolve` does.
        ValueError: for a path with a null byte.
    """
    for _ in range(_TRIES):
        try:
            return Path(path).resolve()
        except OSError as error:
            if error.errno not in _REPLACED_MEANWHILE:
                raise
    raise OSError(f"{os.fspath(path)!r} changes while it is resolved")
