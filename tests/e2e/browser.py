"""Finds a Chromium for the browser tests, or installs one.

`python -m tests.e2e.browser` prints its path. Without one it says what to do; with CI set a missing
browser is a failure, because tests that silently did not run prove nothing.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
APPLICATIONS = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
INSTALL_SECONDS = 420
ADVICE = (
    "No Chromium was found, and none could be installed. Install one (for example "
    "`apt-get install chromium` or `.venv/bin/playwright install chromium`), or set CHROMIUM to "
    "the path of a Chromium or Chrome."
)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def find() -> Path | None:
    """The first browser that answers `--version`."""
    return next((path for path in candidates() if works(path)), None)


def candidates() -> Iterator[Path]:
    if named := os.environ.get("CHROMIUM"):
        yield Path(named)
    for name in NAMES:
        if found := shutil.which(name):
            yield Path(found)
    yield from map(Path, APPLICATIONS)
    yield from playwrights_own()


def playwrights_own() -> Iterator[Path]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    yield path
    # The headless shell is a download of its own beside the full browser.
    yield from path.parents[2].glob("chromium_headless_shell-*/*/*headless*shell")


def works(path: Path) -> bool:
    """Whether it starts; a stub that only points to another package manager does not."""
    if not path.is_file():
        return False
    try:
        command = [str(path), "--version"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0 and "chrom" in result.stdout.lower()


def install() -> Path | None:
    """Tries the system's packages (as root), then Playwright's own download."""
    for commands in ways_to_install():
        print("Looking for a browser:", " && ".join(map(" ".join, commands)), flush=True)
        if all(run(command) for command in commands) and (path := find()):
            return path
    return find()


def ways_to_install() -> Iterator[list[list[str]]]:
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if root and shutil.which("apt-get"):
        yield [
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"],
        ]
    playwright = [sys.executable, "-m", "playwright", "install"]
    yield [[*playwright, "--with-deps", "chromium"] if root else [*playwright, "chromium"]]


def run(command: list[str]) -> bool:
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        result = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"  {error}")
        return False
    if result.returncode != 0:
        print("  " + "\n  ".join(result.stdout.splitlines()[-3:]))
    return result.returncode == 0


def main() -> int:
    path = find() or install()
    if path is not None:
        print(f"Browser for the tests: {path}")
        return 0
    print(f"\n{ADVICE}\n{'' if in_ci() else 'The browser tests are skipped.'}", file=sys.stderr)
    return 1 if in_ci() else 0


if __name__ == "__main__":
    sys.exit(main())
