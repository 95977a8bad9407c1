"""The files that belong to the project: what git tracks or would track."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("config", "workflows", "reviews", "graphrag")
GENERATED = {".git", ".venv", "var", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@cache
def project_files() -> tuple[Path, ...]:
    """Absolute paths, in a stable order; without git (an unpacked archive), all but generated."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        found = (path for path in ROOT.rglob("*") if not GENERATED & set(path.parts))
        return tuple(sorted(path for path in found if path.is_file()))
    names = sorted(name for name in listed.decode().split("\0") if name)
    return tuple(path for path in (ROOT / name for name in names) if path.is_file())


def files_with(*suffixes: str) -> Iterator[Path]:
    return (path for path in project_files() if path.suffix in suffixes)


def package_modules(*packages: str) -> Iterator[Path]:
    """Python files of our packages, migrations left out."""
    for path in files_with(".py"):
        parts = path.relative_to(ROOT).parts
        if parts[0] in (packages or PACKAGES) and "migrations" not in parts:
            yield path


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))
