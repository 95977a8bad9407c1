"""The clients, the examples and the hook script against a running product, with one reviewer.

The examples of all frameworks run with the Python of `make test-adapters`
(HOLDPOINT_ADAPTERS_PYTHON); without it only that of pydantic-ai, which the product uses too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from deno import find_deno_bin
from django.contrib.auth.models import User

from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.ports import free_port
from tests.support.processes import ROOT, end, engine_processes, environment, wait_for
from tests.unit.workflows.approvals.test_hook_script import EVENTS
from workflows.api.client import Client as Integrator
from workflows.approvals.client import holdpoint, hook
from workflows.approvals.selectors import with_status
from workflows.models import Approval, HookCall
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db(transaction=True)

CLIENT = ROOT / "workflows/approvals/client"
ADAPTERS_PYTHON = os.environ.get("HOLDPOINT_ADAPTERS_PYTHON")
EXAMPLES = sorted((ROOT / "docs/examples").glob("approve_*.py"))
if not ADAPTERS_PYTHON:
    EXAMPLES = [path for path in EXAMPLES if path.stem == "approve_pydantic_ai"]
#: Examples of frameworks in which a reviewer cannot change the arguments.
FIXED = {"acp", "agent_framework", "google_adk", "openai_agents"}


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


def test_every_agent_goes_on_with_what_was_decided(
    reviewer: Reviewer, agent_environment: dict[str, str]
) -> None:
    for example in EXAMPLES:
        command = [ADAPTERS_PYTHON or sys.executable, str(example)]
        fixed = example.stem.removeprefix("approve_") in FIXED
        process = start(command, agent_environment)
        edits = None if fixed else {"account": "DE02", "amount": 100}
        reviewer.decide("APPROVE", edits=edits)
        expected = "transferred 250 to DE02" if fixed else "transferred 100 to DE02"
        assert expected in finished(process), example.name
        process = start(command, agent_environment)
        reviewer.decide("REJECT", comment="too much")
        assert "transferred 250" not in finished(process), example.name


def test_the_typescript_client(
    server: str, reviewer: Reviewer, agent_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "holdpoint.ts").write_text(httpx.get(f"{server}/client/holdpoint.ts").text)
    program = tmp_path / "pay.ts"
    program.write_text(
        'import { Client, Rejected } from "./holdpoint.ts";\n'
        "const pay = new Client().requiresApproval(\n"
        '  { name: "payments.transfer", risk: "low", editable: ["/amount"] },\n'
        "  ({ account, amount }: any) => `transferred ${amount} to ${account}`,\n"
        ");\n"
        "try { console.log(await pay({ account: 'DE02', amount: 250 })); }\n"
        "catch (error) { if (!(error instanceof Rejected)) throw error;\n"
        "  console.log(error.reason); }\n"
    )
    flags = ["--quiet", "--no-config", "--allow-net", "--allow-env"]
    command = [find_deno_bin(), "run", *flags, str(program)]
    process = start(command, agent_environment)
    reviewer.decide("APPROVE", edits={"account": "DE02", "amount": 100})
    assert finished(process) == "transferred 100 to DE02\n"
    approval = Approval.objects.get()
    assert (approval.result_ok, approval.result_output) == (True, "transferred 100 to DE02")
    assert approval.result_mismatch is False
    process = start(command, agent_environment)
    reviewer.decide("REJECT", comment="too much")
    assert finished(process) == "too much\n"


def test_the_python_client(
    server: str, reviewer: Reviewer, agent_environment: dict[str, str]
) -> None:
    client = holdpoint.Client(server, agent_environment["HOLDPOINT_TOKEN"], agent="billing-bot")
    ran: list[float] = []

    @holdpoint.requires_approval(
        name="payments.transfer", risk="low", editable=["/amount"], client=client, timeout=60,
        key=lambda account, amount: "invoice-4711",
    )  # fmt: skip
    def transfer(account: str, amount: float) -> str:
        ran.append(amount)
        return f"{amount:g} to {account}"

    pending = client.ask("payments.transfer", {"account": "DE02", "amount": 250}, risk="low",
                         editable=["/amount"], key="invoice-4711")  # fmt: skip
    assert pending.status == "pending"
    reviewer.decide("APPROVE", edits={"account": "DE02", "amount": 100})
    assert transfer("DE02", 250) == "100 to DE02"
    with pytest.raises(holdpoint.AlreadyExecuted):
        transfer("DE02", 250)
    assert ran == [100]
    approval = Approval.objects.get()
    assert (approval.agent, approval.result_ok, approval.result_mismatch) == (
        "billing-bot",
        True,
        False,
    )


def test_the_hook_script(reviewer: Reviewer, agent_environment: dict[str, str]) -> None:
    for name, event in EVENTS.items():
        command = [sys.executable, hook.__file__, name, "--timeout", "60"]
        process = start(command, agent_environment)
        assert process.stdin is not None
        process.stdin.write(json.dumps(event))
        process.stdin.close()
        process.stdin = None
        reviewer.decide("APPROVE")
        assert '"allow"' in finished(process)


def statuses() -> list[str]:
    rows = with_status(Approval.objects.order_by("pk"))
    return [row.status for row in rows]  # type: ignore[attr-defined]


def asking(env: Mapping[str, str], timeout: float = 60) -> subprocess.Popen[str]:
    """A hook process that has sent its event."""
    process = start([sys.executable, hook.__file__, "codex", "--timeout", str(timeout)], env)
    assert process.stdin is not None
    process.stdin.write(json.dumps(EVENTS["codex"]))
    process.stdin.close()
    process.stdin = None
    return process


def test_a_hook_that_ends_leaves_no_open_approval(agent_environment: dict[str, str]) -> None:
    late = asking(agent_environment, timeout=2)
    _, error = late.communicate(timeout=60)
    assert (late.returncode, "nobody decided in time" in error) == (2, True), error
    assert statuses() == ["cancelled"]
    for count, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), 2):
        process = asking(agent_environment)
        wait_for(lambda: statuses()[-1:] == ["pending"], what="an approval", seconds=60)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
        assert (process.returncode, "terminated" in error) == (2, True), error
        assert statuses() == ["cancelled"] * count, number


def test_a_retry_of_a_killed_hook_finds_the_open_approval(
    reviewer: Reviewer, agent_environment: dict[str, str]
) -> None:
    killed = asking(agent_environment)
    wait_for(lambda: statuses() == ["pending"], what="an approval", seconds=60)
    killed.kill()
    killed.communicate(timeout=60)
    both = [asking(agent_environment), asking(agent_environment)]
    wait_for(lambda: HookCall.objects.count() == 3, what="both retries wait", seconds=60)
    assert statuses() == ["pending"]
    assert Approval.objects.get().hook_calls.count() == 3
    reviewer.decide("APPROVE")
    answers = [json.loads(finished(process))["hookSpecificOutput"] for process in both]
    behaviors = sorted(answer["decision"]["behavior"] for answer in answers)
    assert behaviors == ["allow", "deny"], "one approval allows one call"
