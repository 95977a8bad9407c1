"""The scripts of deploy/compose: passwords are made once, and roles fit the addresses."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import subprocess
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from config.devserver.embedded.layout import (
    POSTGRES_MAJOR,
    POSTGRES_PACKAGE,
    SUPERUSER,
    package_folder,
)
from tests.support.processes import ROOT
from tests.support.servers import database_url

COMPOSE = ROOT / "deploy" / "compose"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The folder of the secrets that the script made."""
    shutil.copy(COMPOSE / "secrets.sh", tmp_path)
    subprocess.run(["sh", tmp_path / "secrets.sh"], check=True)
    return tmp_path / "secrets"


def test_secrets_are_made_once_and_hidden(made: Path) -> None:
    values = {path.name: path.read_text() for path in made.iterdir()}
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    keys = ("secret_key", "audit_key", "metrics_token", "postgres_password")
    assert all(len(values[name]) == 64 for name in keys)
    assert len({values[name] for name in keys}) == 4
    for role in ("owner", "app"):
        address = urlsplit(values[f"{role}_database_url"])
        assert address.password == values[f"{role}_password"]
        assert (address.username, address.path) == (f"holdpoint_{role}", "/holdpoint")
    again = subprocess.run(["sh", made.parent / "secrets.sh"], capture_output=True)
    assert again.returncode != 0
    assert values == {path.name: path.read_text() for path in made.iterdir()}


def test_the_roles_of_the_addresses_are_created(
    made: Path, django_db_setup: None, tmp_path: Path
) -> None:
    """Under other names: the server is that of all tests."""
    if settings.DATABASES["default"]["USER"] != SUPERUSER:
        pytest.skip("needs the embedded server, whose superuser is known")
    host, name = connection.settings_dict["HOST"], f"compose{secrets.token_hex(4)}"
    script = tmp_path / "roles.sh"
    script.write_text((COMPOSE / "roles.sh").read_text().replace("holdpoint", name))
    tools = package_folder(POSTGRES_PACKAGE) / f"pginstall{POSTGRES_MAJOR}" / "bin"
    env = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PGHOST": host,
        "POSTGRES_USER": SUPERUSER,
        "PGPASSWORD": connection.settings_dict["PASSWORD"],
        "SECRETS": str(made),
    }
    try:
        subprocess.run(["sh", script], check=True, env=env)
        base = f"@{quote(host, safe='')}/{name}"
        for role in ("owner", "app"):
            password = (made / f"{role}_password").read_text()
            with psycopg.connect(f"postgres://{name}_{role}:{password}{base}") as session:
                found = session.execute("SELECT extname FROM pg_extension WHERE extname = 'vector'")
                assert found.fetchone() == ("vector",)
    finally:
        with psycopg.connect(database_url(SUPERUSER, "postgres"), autocommit=True) as session:
            session.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            for role in ("owner", "app"):
                session.execute(f'DROP ROLE IF EXISTS "{name}_{role}"')
