"""A small git repository for screenshots, with the same commits every time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

PEOPLE = {"ada": "Ada Morel", "noor": "Noor Haddad", "tom": "Tom Brandt"}
#: Who, which file, what it says then, and the message of the commit.
COMMITS = (
    ("ada", "README.md", "# Orchard\n\nWhen to pick what.\n", "docs: what Orchard is for"),
    ("ada", "orchard/ripeness.py", "LIMIT = 12\n", "feat: ripeness from sugar"),
    ("noor", "orchard/weather.py", "HOURS = 24\n", "feat: frost warnings a day ahead"),
    ("tom", "tests/test_ripeness.py", "from orchard import ripeness\n", "test: ripe and unripe"),
    ("noor", "orchard/weather.py", "HOURS = 36\n", "fix: warn before the night, not in it"),
    ("ada", "orchard/ripeness.py", "LIMIT = 12.5\n", "fix: pears are picked later"),
    ("tom", "orchard/labels.py", "SIZE = (62, 29)\n", "feat: labels for crates"),
    ("noor", "README.md", "# Orchard\n\nWhen to pick what, and where.\n", "docs: where to pick"),
    ("ada", "orchard/cellar.py", "DEGREES = 3\n", "feat: how long the cellar keeps them"),
    ("tom", "orchard/labels.py", "SIZE = (62, 31)\n", "fix: labels are no longer cut off"),
    ("noor", "orchard/stations.py", "STATIONS = ('north', 'well')\n", "feat: a second station"),
    ("ada", "orchard/cellar.py", "DEGREES = 2.5\n", "perf: read the sensors once a minute"),
)


@contextmanager
def sample_repository() -> Iterator[str]:
    """Its folder, gone afterwards: `orchard` below the temporary files, for pages show its name."""
    place = Path(gettempdir()) / "orchard"
    try:
        place.mkdir()
    except FileExistsError:
        raise SystemExit(f"{place} is in the way; remove it first.") from None
    try:
        fill(place)
        yield str(place)
    finally:
        shutil.rmtree(place)


def fill(place: Path) -> None:
    """The commits, in an empty folder."""
    git(place, "init", "--quiet", "--initial-branch=main")
    for number, (who, path, text, message) in enumerate(COMMITS):
        file = place / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        git(place, "add", path)
        git(place, "commit", "--quiet", "-m", message, **author(who, f"2026-05-{number + 4:02}"))


def author(who: str, day: str) -> dict[str, str]:
    """The environment in which git commits as this person on this day."""
    found = {}
    for part in ("AUTHOR", "COMMITTER"):
        found[f"GIT_{part}_NAME"] = PEOPLE[who]
        found[f"GIT_{part}_EMAIL"] = f"{who}@orchard.example"
        found[f"GIT_{part}_DATE"] = f"{day}T09:30:00+00:00"
    return found


def git(folder: Path, *arguments: str, **env: str) -> None:
    """Runs git there; its own settings, and nobody's hooks or signatures."""
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-C", str(folder), *arguments]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | quiet | env)
