"""The adapter of the Vercel AI SDK, in Deno; the example runs with the package from npm."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.test_codecs import DENIED, decision
from tests.support import approvals_server

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "workflows/approvals/client"
ADAPTER = CLIENT / "adapters/holdpoint_vercel_ai.ts"
DENO = os.environ.get("DENO") or shutil.which("deno")
INPUTS: list[dict[str, Any]] = [{}, {"amount": 2.5, "to": ["ä", None]}, {"": {"": True}}]

pytestmark = pytest.mark.skipif(DENO is None, reason="Deno is not installed")


def deno(folder: Path, script: Path, **more: Any) -> str:
    for path in (CLIENT / "holdpoint.ts", ADAPTER, script):
        shutil.copy(path, folder)
    flags = ["--quiet", "--no-config", "--no-lock", "--allow-all"]
    command = [str(DENO), "run", *flags, str(folder / script.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_an_approval_of_the_same_input_permits_it(tmp_path: Path) -> None:
    decisions = [decision("approved", each) for each in INPUTS]
    decisions += [decision("approved", {"other": 1}, edited=True)] * 3
    decisions += [decision(status, {}) for status in DENIED] + [decision("pending", {}), None]
    cases = [{"input": INPUTS[index % 3], "decision": each} for index, each in enumerate(decisions)]
    driver = Path(__file__).with_name("vercel_ai_driver.ts")
    outcomes = json.loads(deno(tmp_path, driver, input=json.dumps(cases)))
    for case, outcome in zip(cases, outcomes, strict=True):
        action = {"name": "pay", "arguments": case["input"]}
        assert outcome["asked"] == {"a": {"action": action, "editable": False}}
    assert all("not decided" in each["error"] for each in outcomes[-2:])
    answers = [each["answer"]["content"] for each in outcomes[:-2]]
    approved = {"type": "tool-approval-response", "approvalId": "a", "approved": True}
    assert answers[:3] == [[approved]] * 3
    assert all(each[0]["approved"] is False and each[0]["reason"] for each in answers[3:])
    assert '{"other":1}' in answers[3][0]["reason"]


@pytest.mark.parametrize(
    ("reviewer", "printed"),
    [
        ({"status": "approved"}, "transferred 250 to DE02"),
        ({"status": "rejected", "comment": "too much"}, "too much"),
    ],
)
def test_the_example(tmp_path: Path, reviewer: dict[str, Any], printed: str) -> None:
    with approvals_server.running() as server:
        server.reviewer = reviewer
        env = {
            **os.environ,
            "HOLDPOINT_URL": server.url,
            "HOLDPOINT_TOKEN": approvals_server.TOKEN,
        }
        output = deno(tmp_path, ROOT / "docs/examples/approve_vercel_ai.ts", env=env)
    assert output.strip() == printed
