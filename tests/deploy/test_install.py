"""The steps of the image in a clean folder: packages, product, static files.

The extra `otel` stands for the extras of the image, which take minutes: HOLDPOINT_TEST_LONG=1
installs them all.
"""

from __future__ import annotations

import os
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "install.sh"
#: A module of each extra.
MODULES = {
    "llm": "pydantic_ai",
    "mfa": "fido2",
    "oidc": "allauth",
    "otel": "opentelemetry.sdk",
    "sentry": "sentry_sdk",
}


def extras() -> list[str]:
    """Return the extras to install."""
    text = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    (of_image,) = re.findall(r'^ARG EXTRAS="(.*)"$', text, re.MULTILINE)
    return str(of_image).split() if os.environ.get("HOLDPOINT_TEST_LONG") else ["otel"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    # The image has no compiler: every package must have a wheel.
    env = {**os.environ, "PYTHON": sys.executable, "UV_NO_BUILD": "1"}
    for step in (("dependencies", str(folder), *extras()), ("product", str(folder))):
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


def test_extras_are_installed_and_static_files_are_named_by_their_content(
    installed: Path,
) -> None:
    names = [MODULES[extra] for extra in extras()]
    python = installed / "venv/bin/python"
    subprocess.run([python, "-c", f"import {', '.join(names)}"], check=True)
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
