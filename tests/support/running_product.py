"""The product as processes, with an agent that asks and a reviewer who decides over REST."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.ports import free_port
from tests.support.processes import ROOT, end, engine_processes, environment, wait_for
from workflows.api.client import Client as Integrator
from workflows.permissions.tokens import create_token

CLIENT = ROOT / "workflows/approvals/client"


class Reviewer:
    """Decides the next review over REST."""

    def __init__(self, url: str) -> None:
        user = User.objects.create_user("ana")
        user.groups.add(group_of("reviewer"))
        token = create_token(user=user, name="t", scopes=["read", "run", "decide"])[1]
        self.client = Integrator(url, token)

    def decide(self, decision: str, **fields: Any) -> None:
        wait_for(lambda: any(True for _ in self.client.pending()), what="a review", seconds=60)
        hold = next(self.client.pending())
        run = self.client.get(hold["execution_id"])
        self.client.decide(run, hold["hold_id"], decision, **fields)  # type: ignore[arg-type]


@pytest.fixture
def reviewer(server: str) -> Iterator[Reviewer]:
    reviewer = Reviewer(server)
    yield reviewer
    reviewer.client.close()


@pytest.fixture
def server(transactional_db: None) -> Iterator[str]:
    """Address of a web process with a worker."""
    stock_catalogue()
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = ["daphne", "-b", "127.0.0.1", "-p", str(port), "config.asgi:application"]
    web = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=environment())
    try:
        with engine_processes(workers=1):
            wait_for(lambda: is_up(address), what="the web process")
            yield address
    finally:
        end(web)


def is_up(address: str) -> bool:
    try:
        return httpx.get(f"{address}/livez").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def agent_environment(server: str) -> dict[str, str]:
    user = User.objects.create_user("bot-owner")
    user.groups.add(group_of("integrator"))
    token = create_token(user=user, name="bot", scopes=["ask"])[1]
    path = f"{CLIENT}{os.pathsep}{CLIENT / 'adapters'}"
    return {**os.environ, "PYTHONPATH": path, "HOLDPOINT_URL": server, "HOLDPOINT_TOKEN": token}


def start(command: list[str], env: Mapping[str, str], **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def finished(process: subprocess.Popen[str], text: str = "") -> str:
    out, error = process.communicate(text, timeout=90)
    assert process.returncode == 0, error
    return out
