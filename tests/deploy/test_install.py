"""The steps of the image in a clean folder: packages, product, static files."""

from __future__ import annotations

import os
import string
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "install.sh"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    env = {**os.environ, "PYTHON": sys.executable}
    for step in (("dependencies", str(folder), "otel"), ("product", str(folder))):
        subprocess.run(["sh", SCRIPT, *step], check=True, env=env)
    return folder


def environment(folder: Path, home: Path) -> dict[str, str]:
    return {
        "PATH": f"{folder}/venv/bin:/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DJANGO_SETTINGS_MODULE": "config.settings.base",
        "HOLDPOINT_HOME": str(home),
        "STATIC_ROOT": str(folder / "static"),
        "SECRET_KEY": string.ascii_letters,
        "HOLDPOINT_AUDIT_KEY": "a" * 60,
        "ALLOWED_HOSTS": "holdpoint.example.com",
        "HOLDPOINT_SITE_URL": "https://holdpoint.example.com",
        "DATABASE_URL": "postgres://app@127.0.0.1:1/holdpoint",
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_the_installed_product_passes_its_checks(installed: Path, tmp_path: Path) -> None:
    """Nothing is written next to the code, which is read-only in the image."""
    before = files_of(installed)
    done = subprocess.run(
        ["python", "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=installed / "app",
        env=environment(installed, tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert files_of(installed) == before


def test_the_extra_is_installed_and_static_files_are_named_by_their_content(
    installed: Path,
) -> None:
    subprocess.run([installed / "venv/bin/python", "-c", "import opentelemetry.sdk"], check=True)
    assert (installed / "static" / "staticfiles.json").is_file()
    assert not (installed / "app" / "tests").exists()


def test_the_health_check_of_the_image_runs(installed: Path, tmp_path: Path) -> None:
    """It needs no Django; while Redis is away, workers count as alive."""
    done = subprocess.run(
        ["python", "-m", "config.observability.alive"],
        cwd=installed / "app",
        env={**environment(installed, tmp_path), "HOLDPOINT_ROLE": "worker"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
