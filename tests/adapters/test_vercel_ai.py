"""The adapter of the Vercel AI SDK, in Deno; the example runs with the package from npm."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.adapters.test_codecs import ARGUMENTS, DENIED, decision
from tests.support import approvals_server

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "workflows/approvals/client"
ADAPTER = CLIENT / "adapters/holdpoint_vercel_ai.ts"
DENO = os.environ.get("DENO") or shutil.which("deno")
KINDS = ["approved", "approved", "edited", *DENIED, "pending", "missing"]

pytestmark = pytest.mark.skipif(DENO is None, reason="Deno is not installed")


def deno(folder: Path, script: Path, **more: Any) -> str:
    for path in (CLIENT / "holdpoint.ts", ADAPTER, script):
        shutil.copy(path, folder)
    flags = ["--quiet", "--no-config", "--no-lock", "--allow-all"]
    command = [str(DENO), "run", *flags, str(folder / script.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@settings(max_examples=20, deadline=None, phases=[Phase.generate])  # each example starts Deno
@given(st.lists(st.tuples(ARGUMENTS, st.sampled_from(KINDS), ARGUMENTS), min_size=1, max_size=10))
def test_only_an_approval_of_the_same_input_permits_it(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[Any, str, Any]]
) -> None:
    cases = [{"input": each, "decision": made(kind, each, other)} for each, kind, other in drawn]
    driver = Path(__file__).with_name("vercel_ai_driver.ts")
    folder = tmp_path_factory.mktemp("vercel")
    outcomes = json.loads(deno(folder, driver, input=json.dumps(cases)))
    for (arguments, kind, other), outcome in zip(drawn, outcomes, strict=True):
        action = {"name": "pay", "arguments": arguments}
        assert outcome["asked"] == {"a": {"action": action, "editable": False}}
        if kind in ("pending", "missing"):
            assert "not decided" in outcome["error"]
            continue
        (answer,) = outcome["answer"]["content"]
        assert (answer["type"], answer["approvalId"]) == ("tool-approval-response", "a")
        assert answer["approved"] is (kind == "approved")
        assert answer.get("reason", "") != "" or kind == "approved"
        if kind == "edited":
            assert json.loads(answer["reason"].partition(": ")[2]) == other


def made(kind: str, arguments: Any, other: Any) -> dict[str, Any] | None:
    """The decision of this kind about a call with these arguments; `other` are the edited ones."""
    if kind == "missing":
        return None
    if kind == "edited":
        return decision("approved", other, edited=True)
    return decision(kind, arguments)


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
