"""The health check of a container: which process it takes for stuck."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import django_rq
import pytest
from django.conf import settings

from config.observability import alive
from tests.support.processes import ROOT
from workflows.management.commands.send_webhooks import Command
from workflows.metrics.process_liveness import heartbeat, report_count

pytestmark = pytest.mark.usefixtures("servers")
NAME = socket.gethostname()


@pytest.fixture
def client() -> Any:
    connection = django_rq.get_connection("default")
    for key in ("holdpoint:count:workers", "holdpoint:count:webhooks", "holdpoint:beat:sweeper"):
        connection.delete(key)
    return connection


def test_workers_are_alive_while_their_pool_reports(client: Any) -> None:
    assert "has not reported" in alive.workers_problem(client)
    report_count("workers", "another-host:1", 2)
    assert alive.workers_problem(client)
    report_count("workers", f"{NAME}:1", 2)
    assert alive.workers_problem(client) == ""
    seconds, _ = client.time()
    client.hset("holdpoint:count:workers", f"{NAME}:1", f"2@{seconds - 61}")
    assert re.search(r"\b6\d s\b", alive.workers_problem(client))


def test_a_sender_of_webhooks_is_alive_while_it_has_rounds(client: Any) -> None:
    assert "has not reported" in alive.webhooks_problem(client)
    Command().report()
    assert alive.webhooks_problem(client) == ""
    command = [sys.executable, "-m", "config.observability.alive", "webhooks"]
    env = {**os.environ, "HOLDPOINT_ROLE": "sweeper", "REDIS_URL": settings.REDIS_URL}
    assert subprocess.run(command, cwd=ROOT, env=env, check=False).returncode == 0


def test_the_sweeper_is_alive_while_it_has_rounds(client: Any) -> None:
    assert "has not reported" in alive.sweeper_problem(client)
    heartbeat("sweeper")
    assert alive.sweeper_problem(client) == ""


def test_the_web_process_is_asked_with_an_allowed_host(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hosts.append(self.headers["Host"])
            self.send_response(200 if self.path == "/livez" else 500)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    monkeypatch.setenv("ALLOWED_HOSTS", "*,.example.com")
    server = HTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    assert alive.web_problem(f"{address}/livez") == ""
    assert "500" in alive.web_problem(f"{address}/other")
    server.shutdown()
    server.server_close()
    assert "does not answer" in alive.web_problem(f"{address}/livez")
    assert hosts == ["example.com", "example.com"]


@pytest.mark.parametrize(("address", "code"), [("", 1), ("redis://127.0.0.1:1/0", 0)])
def test_without_redis_nothing_is_restarted(client: Any, address: str, code: int) -> None:
    """The command as the image runs it; with Redis there, no sweeper has reported."""
    env = {**os.environ, "HOLDPOINT_ROLE": "sweeper", "REDIS_URL": address or settings.REDIS_URL}
    command = [sys.executable, "-m", "config.observability.alive"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
