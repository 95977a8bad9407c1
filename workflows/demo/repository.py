"""The git repository that the demo reads, and the base of its diff."""

from __future__ import annotations

import subprocess
from pathlib import Path

from django.conf import settings

#: Larger diffs are hard to review, and near the limit of one task's output.
_MAX_DIFF_BYTES = 200_000
_MAX_COMMITS = 10
#: The id of the empty tree in git, the base of the diff of a first commit.
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class NoRepository(Exception):
    """Raised without a git repository for the demo; the message says what to do."""


def demo_repository(path: str = "") -> Path:
    """Return the directory of the repository: `path`, the setting, or Holdpoint's own."""
    chosen = path or settings.HOLDPOINT["demo_repository"]
    folder = Path(chosen).expanduser().resolve()
    try:
        _git(folder, "rev-parse", "--verify", "HEAD")
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoRepository(
            f"{folder} is no git repository with a commit; name one with --repo PATH or with "
            "HOLDPOINT_DEMO_REPOSITORY."
        ) from error
    return folder


def diff_base(folder: Path) -> str:
    """Return the oldest of the last commits whose diff to HEAD is small enough."""
    commits = int(_git(folder, "rev-list", "--count", "HEAD"))
    base = "HEAD"
    for back in range(1, min(commits - 1, _MAX_COMMITS) + 1):
        if _diff_size(folder, f"HEAD~{back}") > _MAX_DIFF_BYTES:
            break
        base = f"HEAD~{back}"
    if commits == 1 and _diff_size(folder, _EMPTY_TREE) <= _MAX_DIFF_BYTES:
        return _EMPTY_TREE
    return base


def _diff_size(folder: Path, base: str) -> int:
    return len(_git(folder, "diff", "--unified=0", base))


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - constant arguments; the user of the demo chose the directory
        ["git", "-C", str(folder), *arguments],  # noqa: S607 - git of the PATH
        check=True,
        capture_output=True,
        timeout=30,
    )
    return done.stdout.decode("utf-8", "replace")
