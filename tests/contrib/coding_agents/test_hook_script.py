"""hook.py as an agent starts it: without a clear approval the exit status denies the call."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reviews.contrib.coding_agents import hook_formats
from reviews.contrib.coding_agents.client import hook
from tests.support import approvals_server as fake

CLAUDE, CODEX = hook_formats.AGENTS["claude-code"], hook_formats.AGENTS["codex"]
EVENTS: dict[str, dict[str, Any]] = {
    "claude-code": {
        "session_id": "s",
        "cwd": "/src",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "rm -r build", "description": "Remove the build"},
        "tool_use_id": "toolu_1",
    },
    "codex": {
        "session_id": "s",
        "turn_id": "t",
        "cwd": "/src",
        "hook_event_name": "PermissionRequest",
        "tool_name": "Bash",
        "tool_input": {"command": "rm -r build"},
    },
}
AGENTS = pytest.mark.parametrize("agent", list(EVENTS))


@pytest.fixture
def server() -> Iterator[fake.Server]:
    with fake.running() as server:
        yield server


def start(
    agent: str, url: str, timeout: float = 10, *, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, hook.__file__, agent, "--timeout", str(timeout)],
        env=env or {**os.environ, "HOLDPOINT_URL": url, "HOLDPOINT_TOKEN": fake.TOKEN},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(agent: str, url: str, timeout: float = 10, **more: Any) -> tuple[int, str, str]:
    with start(agent, url, timeout, **more) as process:
        out, error = process.communicate(json.dumps(EVENTS[agent]).encode(), timeout=60)
    return process.returncode, out.decode(), error.decode()


def envelope(agent: str, status: str, **changes: Any) -> Any:
    event = EVENTS[agent]
    approval = {"status": status, "arguments": event["tool_input"], "comment": "no", **changes}
    approval.setdefault("review_url", "http://host/review")
    output = hook_formats.answer(hook_formats.AGENTS[agent], event, approval)
    return fake.text(json.dumps({"status": status, "output": output}))


def denied(outcome: tuple[int, str, str]) -> str:
    status, out, error = outcome
    assert (status, out) == (2, "")
    assert error.startswith("Holdpoint: the call is not approved: ")
    return error


@AGENTS
def test_an_approval_allows(server: fake.Server, agent: str) -> None:
    server.faults = [envelope(agent, "pending"), envelope(agent, "approved")]
    status, out, _ = run(agent, server.url)
    specific = json.loads(out)["hookSpecificOutput"]
    assert status == 0
    if agent == "codex":
        decision = {"behavior": "allow"}
        assert specific == {"hookEventName": "PermissionRequest", "decision": decision}
    else:
        assert specific["permissionDecision"] == "allow"
        assert specific["updatedInput"] == EVENTS[agent]["tool_input"]
    assert server.seen[0].startswith(f"POST /api/v1/hooks/{agent}/?wait=")


@AGENTS
def test_a_rejection_denies_with_its_reason(server: fake.Server, agent: str) -> None:
    server.faults = [envelope(agent, "rejected")]
    status, out, _ = run(agent, server.url)
    assert status == 0
    assert "no (http://host/review)" in out
    assert "deny" in out
    assert "allow" not in out


@AGENTS
def test_a_passing_fault_is_retried(server: fake.Server, agent: str) -> None:
    server.faults = [fake.status(503), fake.cut, fake.text("<html>"), envelope(agent, "approved")]
    assert run(agent, server.url, timeout=30)[0] == 0


def test_the_token_may_be_in_a_file_that_only_its_owner_reads(
    server: fake.Server, tmp_path: Path
) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("HOLDPOINT_")}
    env["HOME"] = str(tmp_path)
    assert "cannot be read" in denied(run("codex", "", env=env))
    file = tmp_path / ".holdpoint" / "codex.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"url": server.url, "token": fake.TOKEN}))
    file.chmod(0o640)
    assert "chmod 600" in denied(run("codex", "", env=env))
    assert server.seen == []
    file.chmod(0o600)
    server.faults = [envelope("codex", "approved")]
    assert run("codex", "", env=env)[0] == 0
    for wrong in ("[]", "{}", '{"url": 1}', json.dumps({"url": server.url})):
        file.write_text(wrong)
        denied(run("codex", "", env=env))


WRONG = [
    fake.status(401),
    fake.status(403),
    fake.status(302, Location="http://127.0.0.1:9/"),
    fake.text("[]"),
    fake.text("{}"),
    fake.text('{"status": "approved"}'),
    fake.text('{"status": "approved", "output": {}}'),
    fake.text('{"status": "approved", "output": {"hookSpecificOutput": {}}}'),
]


@AGENTS
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_answer_denies(server: fake.Server, agent: str, number: int) -> None:
    server.faults = [WRONG[number]]
    denied(run(agent, server.url))


@AGENTS
def test_an_allow_without_approval_denies(server: fake.Server, agent: str) -> None:
    event = EVENTS[agent]
    approved = {"status": "approved", "arguments": event["tool_input"]}
    output = hook_formats.answer(hook_formats.AGENTS[agent], event, approved)
    server.faults = [fake.text(json.dumps({"status": "rejected", "output": output}))]
    assert "contradicts" in denied(run(agent, server.url))


@AGENTS
@pytest.mark.parametrize("fault", [fake.silent, fake.hang_up])
def test_no_answer_denies_at_the_timeout(server: fake.Server, agent: str, fault: Any) -> None:
    server.faults = [fault] * 30
    started = time.monotonic()
    denied(run(agent, server.url, timeout=1))
    assert time.monotonic() - started < 15


@AGENTS
@pytest.mark.parametrize("url", ["", "ftp://host", "http://127.0.0.1:9", "http://"])
def test_no_server_denies(agent: str, url: str) -> None:
    denied(run(agent, url, timeout=0.5))


@AGENTS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_denies(server: fake.Server, agent: str, number: signal.Signals) -> None:
    server.faults = [fake.silent]
    with start(agent, server.url) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(EVENTS[agent]).encode())
        process.stdin.close()
        process.stdin = None
        end = time.monotonic() + 10
        while not server.seen and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(number)
        out, error = process.communicate(timeout=20)
    denied((process.returncode, out.decode(), error.decode()))


def test_a_pending_approval_denies_at_the_timeout(server: fake.Server) -> None:
    server.faults = [envelope("codex", "pending")] * 100_000
    assert "in time" in denied(run("codex", server.url, timeout=0.6))


def test_it_is_standard_library_only() -> None:
    text = Path(hook.__file__).read_text()
    names = {line.split()[1].split(".")[0] for line in text.split("\n") if line[:7] == "import "}
    assert names <= sys.stdlib_module_names
