"""docs/examples with the real packages: every agent goes on with exactly what was decided."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import approvals_server

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "workflows/approvals/client"
EXAMPLES = sorted((ROOT / "docs/examples").glob("approve_*.py"))
#: Examples of frameworks in which a reviewer cannot change the arguments.
FIXED = {"acp", "agent_framework", "google_adk", "openai_agents"}
#: What the agent of an example says after a rejection, where that is not the comment.
DENIED = {
    "acp": "not transferred",
    "agent_framework": "rejected by user",
    "google_adk": "call is rejected",
}


def kind(example: Path) -> str:
    return example.stem.removeprefix("approve_")


def run(example: Path, reviewer: dict[str, Any]) -> tuple[str, approvals_server.Server]:
    with approvals_server.running() as server:
        server.reviewer = reviewer
        env = {
            **os.environ,
            "PYTHONPATH": f"{CLIENT}{os.pathsep}{CLIENT / 'adapters'}",
            "HOLDPOINT_URL": server.url,
            "HOLDPOINT_TOKEN": approvals_server.TOKEN,
        }
        command = [sys.executable, str(example)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        return done.stdout, server


@pytest.mark.parametrize("example", EXAMPLES, ids=kind)
def test_an_approved_call_runs_as_decided(example: Path) -> None:
    decided = {"account": "DE02", "amount": 250 if kind(example) in FIXED else 100}
    edited = decided["amount"] == 100
    output, server = run(example, {"status": "approved", "arguments": decided, "edited": edited})
    assert f"transferred {decided['amount']} to DE02" in output
    (request,) = server.requests
    assert request["action"]["arguments"] == {"account": "DE02", "amount": 250}
    assert request.get("editable", True) is (kind(example) not in FIXED)


@pytest.mark.parametrize("example", EXAMPLES, ids=kind)
def test_a_rejected_call_does_not_run(example: Path) -> None:
    output, _ = run(example, {"status": "rejected", "comment": "too much"})
    assert DENIED.get(kind(example), "too much") in output
    assert "transferred 250" not in output
