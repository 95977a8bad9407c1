"""The examples of README.md and docs/howto/integrate.md, run as written; and more of the client."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deno import find_deno_bin
from django.contrib.auth.models import User

from tests.integration.workflows.api.conftest import plain_plan, reviewed_plan
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.ports import free_port
from tests.support.processes import ROOT, end, engine_processes, environment, wait_for
from workflows.api.client import Client, Problem
from workflows.models import Execution, Workflow
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db(transaction=True)

FENCED = re.compile(r"^```(sh|js|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def token(transactional_db: None) -> str:
    """A token of a person who may start a run, loosen its policy and approve in it."""
    user = User.objects.create_user("reviewer")
    user.groups.add(group_of("reviewer"), group_of("admin"))
    stock_catalogue()
    scopes = ["read", "run", "decide", "loosen"]
    return create_token(user=user, name="t", scopes=scopes)[1]


@pytest.fixture
def server(token: str) -> Iterator[str]:
    """Address of a web process with a worker and a sweeper."""
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


def blocks() -> list[tuple[str, str]]:
    text = (ROOT / "docs/howto/integrate.md").read_text()
    return [(match[1], match[2]) for match in FENCED.finditer(text)]


def run_block(kind: str, text: str, folder: Path, **more: str) -> str:
    if kind == "sh":
        command = ["bash", "-euo", "pipefail", "-c", text]
    elif kind == "js":
        (folder / "example.mjs").write_text(text)
        command = [find_deno_bin(), "run", "--no-config", "-A", str(folder / "example.mjs")]
    else:
        command = [sys.executable, "-c", text]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DENO_NO_UPDATE_CHECK": "1", **more}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, cwd=folder)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


EXPECTED = [
    ("sh", '"status":"PENDING"'),
    ("js", "COMPLETED hello"),
    ("python", "COMPLETED {'text': 'hello, world'}"),
    ("sh", "event: workflow_complete"),
    ("js", "workflow_complete"),
    ("js", "workflow_complete"),
    ("python", "workflow_complete"),
]


def test_every_example_prints_its_expected_output(server: str, token: str, tmp_path: Path) -> None:
    examples = blocks()
    assert [kind for kind, _ in examples] == [kind for kind, _ in EXPECTED]
    for (kind, text), (_, expected) in zip(examples, EXPECTED, strict=True):
        output = run_block(kind, text, tmp_path, HOLDPOINT_URL=server, HOLDPOINT_TOKEN=token)
        assert expected in output, f"{text}\n{output}"
    check_the_client(server, token)


def test_the_example_of_the_readme_approves_a_review(server: str, token: str) -> None:
    """Only the address and the Python interpreter are replaced."""
    Workflow.objects.create(name="release-notes", title="Release notes", plan=reviewed_plan())
    with Client(server, token) as client:
        run = client.start(workflow="release-notes", policy={"four_eyes": False})
        run = client.wait(run.id, timeout=60)
    ((_, text),) = [match.groups() for match in FENCED.finditer((ROOT / "README.md").read_text())]
    text = text.replace("http://127.0.0.1:8000", server).replace(".venv/bin/python", sys.executable)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    decision = json.loads(done.stdout)
    assert decision["hold_id"] == run.open_holds[0]["id"]
    assert decision["decision"] == "APPROVE"


def check_the_client(server: str, token: str) -> None:
    """Check the client beyond the examples, against the running processes."""
    with Client(server, token) as client:
        one = client.start(plan=reviewed_plan(), policy={"four_eyes": False}, key="start-1")
        assert client.start(plan=reviewed_plan(), policy={"four_eyes": False}, key="start-1") == one
        with pytest.raises(Problem, match="idempotency_mismatch"):
            client.start(plan=plain_plan(), key="start-1")
        with pytest.raises(Problem) as refused:
            client.start(workflow="nowhere")
        assert refused.value.errors[0]["path"] == "workflow"
        paused = client.wait(one.id, timeout=60)
        assert [hold["hold_id"] for hold in client.pending()] == [paused.open_holds[0]["id"]]
        with pytest.raises(TimeoutError):
            client.wait(one.id, timeout=0.3, for_end=True)
        check_one_winner(client, paused)
        assert client.wait(one.id, timeout=60, for_end=True).status == "COMPLETED"
        seqs = [event.seq for event in client.events(one.id) if event.seq is not None]
        assert seqs == list(range(1, client.get(one.id).version + 1))
        with pytest.raises(Problem, match="refused"):
            client.command(one.id, "abort", reason="late")
        assert Execution.objects.filter(pk=one.id, status="COMPLETED").exists()
    with Client(server, "hp_wrong") as stranger, pytest.raises(Problem) as refused:
        stranger.get(one.id)
    assert (refused.value.status, refused.value.code) == (401, "unauthenticated")


def check_one_winner(client: Client, paused: Any) -> None:
    hold = paused.open_holds[0]["id"]
    codes: list[str] = []

    def decide() -> None:
        try:
            client.decide(paused, hold, "APPROVE")
            codes.append("won")
        except Problem as problem:
            codes.append(problem.code)

    threads = [threading.Thread(target=decide) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == ["stale_version"] * 3 + ["won"]
