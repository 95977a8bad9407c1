"""The git repository that the demo reads, and the base of its diff.

The demo reads a copy below the product's home: a git server reads every file of its repository, and
a checkout of the product may have its settings and data.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.conf import settings

from workflows import conf

#: Larger diffs are hard to review, and near the limit of one task's output.
_MAX_DIFF_BYTES = 200_000
_MAX_COMMITS = 10
#: The id of the empty tree in git, the base of the diff of a first commit.
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class NoRepository(Exception):
    """Raised without a git repository for the demo; the message says what to do."""


#: Settings with which git runs no command that a repository, an account or the host configures.
SAFE_CONFIGURATION: Final = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "protocol.ext.allow": "never",
}


def git_environment(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return variables that give git this configuration, and none of the account or the host."""
    variables = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(configuration)),
    }
    for number, (key, value) in enumerate(configuration.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def demo_repository(path: str = "") -> Path:
    """Return the copy of a repository, which it updates: `path`, the setting, or Holdpoint's own.

    The copy has the commits and none of the files that are not committed. Raises NoRepository.
    """
    chosen = path or settings.HOLDPOINT["demo_repository"]
    source = Path(chosen).expanduser().resolve()
    name = hashlib.sha256(os.fsencode(source)).hexdigest()[:8]
    folder = conf.demo_folder() / f"{source.name}-{name}"
    try:
        _git(source, "rev-parse", "--verify", "HEAD")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _git(folder, "init", "--quiet")
            _git(folder, "fetch", "--quiet", "--no-tags", str(source), "HEAD")
            _git(folder, "reset", "--quiet", "--hard", "FETCH_HEAD")
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoRepository(
            f"{source} is no git repository with a commit; name one with --repo PATH or with "
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
        env=os.environ | git_environment(SAFE_CONFIGURATION),
        timeout=30,
    )
    return done.stdout.decode("utf-8", "replace")
