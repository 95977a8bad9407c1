"""The clients and the examples against a running product, with one reviewer.

The examples of all frameworks run with the Python of `make test-adapters`
(HOLDPOINT_ADAPTERS_PYTHON); without it only that of pydantic-ai, which the product uses too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import httpx
import pytest
from deno import find_deno_bin

from tests.support.processes import ROOT
from tests.support.running_product import Reviewer, finished, start
from tests.support.running_product import (
    agent_environment as agent_environment,
)
from tests.support.running_product import reviewer as reviewer
from tests.support.running_product import server as server
from workflows.approvals.client import holdpoint
from workflows.models import Approval

pytestmark = pytest.mark.django_db(transaction=True)

ADAPTERS_PYTHON = os.environ.get("HOLDPOINT_ADAPTERS_PYTHON")
EXAMPLES = sorted((ROOT / "docs/examples").glob("approve_*.py"))
if not ADAPTERS_PYTHON:
    EXAMPLES = [path for path in EXAMPLES if path.stem == "approve_pydantic_ai"]
#: Examples of frameworks in which a reviewer cannot change the arguments.
FIXED = {"acp", "agent_framework", "google_adk", "openai_agents"}


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
