"""The product behind PgBouncer in transaction mode, with two connections to PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client as Browser
from django.urls import reverse

from config.devserver.embedded.layout import Layout
from tests.support import pgbouncer
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.ports import free_port
from tests.support.processes import ROOT, end, engine_processes, environment, wait_for
from workflows.api.client import Client
from workflows.permissions.tokens import create_token

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(pgbouncer.PROGRAM is None, reason=pgbouncer.MISSING),
]

RUNS = 6
PLAN = {
    "tasks": [
        {"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {"value": "first"}},
        {
            "id": "b",
            "type": "tool",
            "tool": "builtin.echo",
            "arguments": {"value": {"$from": "a"}},
            "human_review": {"trigger_phase": "BEFORE_EXECUTION"},
        },
    ]
}


@pytest.fixture
def pooled() -> Iterator[dict[str, str]]:
    """Variables of processes whose statements go through PgBouncer."""
    values = connection.settings_dict
    account = Layout.of(os.environ["HOLDPOINT_TEST_HOME"]).account
    folder = Path(tempfile.mkdtemp(prefix="holdpoint-pgbouncer-"))
    os.chown(folder, account.uid, account.gid)
    server = f"host={values['HOST']} port={values['PORT'] or 5432} user={values['USER']}"
    server += f" password={values['PASSWORD']} dbname={values['NAME']}"
    try:
        with pgbouncer.pgbouncer(
            folder, account, database="holdpoint", server=server, size=2
        ) as port:
            yield {
                "DATABASE_URL": f"postgres://holdpoint@127.0.0.1:{port}/holdpoint",
                "HOLDPOINT_DB_TRANSACTION_POOLING": "1",
                "HOLDPOINT_REQUESTS_PER_MINUTE": "0",
            }
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def address(pooled: dict[str, str]) -> Iterator[str]:
    """A web process, workers and a sweeper."""
    port = free_port()
    web = subprocess.Popen(
        [sys.executable, "-m", "daphne", "-p", str(port), "config.asgi:application"],
        cwd=ROOT,
        env=environment(**pooled, HOLDPOINT_ROLE="web"),
        start_new_session=True,
    )
    try:
        with engine_processes(1, **pooled):
            found = f"http://127.0.0.1:{port}"
            wait_for(lambda: answers(f"{found}/readyz"), what="the web process is ready")
            yield found
    finally:
        end(web)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def member(name: str, role: str, *scopes: str) -> tuple[User, str]:
    user = User.objects.create_user(name)
    user.groups.add(group_of(role))
    return user, create_token(user=user, name="t", scopes=scopes)[1]


def test_runs_decisions_exports_and_checks(pooled: dict[str, str], address: str) -> None:
    stock_catalogue()
    _, starter = member("starter", "operator", "read", "run")
    _, decider = member("decider", "reviewer", "read", "decide")
    auditor, _ = member("auditor", "auditor", "read")
    with Client(address, starter) as starts, Client(address, decider) as reviews:

        def complete(_: int) -> Any:
            run = starts.wait(starts.start(plan=PLAN).id, timeout=60)
            reviews.decide(reviews.get(run.id), run.open_holds[0]["id"], "APPROVE")
            return starts.wait(run.id, timeout=60).output("b")

        with ThreadPoolExecutor(RUNS) as threads:
            assert list(threads.map(complete, range(RUNS))) == ["first"] * RUNS

    browser = Browser()
    browser.force_login(auditor)
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME].value
    exported = httpx.get(
        f"{address}{reverse('reviews:export_history')}",
        cookies={settings.SESSION_COOKIE_NAME: cookie},
    )
    lines = [json.loads(line) for line in exported.text.splitlines()]
    assert [len(lines), lines[0]["rows"], lines[0]["receipts"]] == [2 + 2 * RUNS, RUNS, RUNS]

    verified = subprocess.run(
        [sys.executable, "manage.py", "verify_audit"],
        cwd=ROOT,
        env=environment(**pooled),
        capture_output=True,
        text=True,
    )
    assert f"{RUNS} records are whole" in verified.stdout, verified.stdout + verified.stderr
