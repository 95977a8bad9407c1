"""Public MCP servers behind a gate: git and time from PyPI, filesystem from npm.

The npm server is started by node; `make test-adapters` installs it and sets
HOLDPOINT_FILESYSTEM_SERVER to its script.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from tests.integration.workflows.mcp_gate.conftest import (
    Agent,
    decided,
    meanwhile,
    new_token,
    text_of,
)
from tests.support.catalogue import stock_catalogue
from workflows.models import Gate, GateCall, McpServer
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool

pytestmark = pytest.mark.django_db(transaction=True)

FILESYSTEM = os.environ.get("HOLDPOINT_FILESYSTEM_SERVER")


def gate_of(folder: Path, *servers: tuple[str, str, list[str]]) -> Agent:
    """An agent at a gate with these servers, which may write in a folder."""
    gate = Gate.objects.create(name="ops")
    for name, command, args in servers:
        row = McpServer.objects.create(
            name=name,
            command=command,
            args=args,
            write_paths=[str(folder)],
        )
        assert catalogue_sync.sync_server(row).error == ""
        gate.servers.add(row)
    return Agent(new_token())


@pytest.fixture(autouse=True)
def catalogue(transactional_db: None) -> Iterator[None]:
    stock_catalogue()
    yield
    close_pool()


def test_git_and_time(tmp_path: Path, reviewer: User) -> None:
    for command in (
        ["init", "-q"],
        ["config", "user.name", "Ada"],
        ["config", "user.email", "a@b"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "a.txt").write_text("one")
    agent = gate_of(
        tmp_path,
        ("git", sys.executable, ["-m", "mcp_server_git", "--repository", str(tmp_path)]),
        ("time", sys.executable, ["-m", "mcp_server_time", "--local-timezone", "UTC"]),
    )
    policies = {
        name: (tool.meta or {}).get("holdpoint/policy") for name, tool in agent.names().items()
    }
    assert policies["git__git_status"] == "allow"
    assert policies["git__git_commit"] == policies["git__git_add"] == "hold"
    repo = str(tmp_path)
    assert "a.txt" in text_of(agent.call("git__git_status", repo_path=repo))
    clock = agent.call("time__get_current_time", timezone="Europe/Vienna")
    assert "Europe/Vienna" in text_of(clock)

    deciding = meanwhile(lambda: decided(reviewer))
    assert not agent.call("git__git_add", repo_path=repo, files=["a.txt"]).is_error
    deciding.join()
    edited = {"repo_path": repo, "message": "feat: by a person"}
    deciding = meanwhile(lambda: decided(reviewer, edits=edited))
    result = agent.call("git__git_commit", repo_path=repo, message="wip")
    deciding.join()
    assert not result.is_error, text_of(result)
    log = subprocess.run(
        ["git", "log", "--format=%s"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert log.stdout.split("\n")[0] == "feat: by a person"
    outcomes = set(GateCall.objects.values_list("outcome", flat=True))
    assert outcomes == {"answered"}


@pytest.mark.skipif(not FILESYSTEM, reason="make test-adapters runs it")
def test_filesystem(tmp_path: Path, reviewer: User) -> None:
    assert FILESYSTEM is not None
    modules = Path(FILESYSTEM).parents[3]
    copy = shutil.copytree(modules, tmp_path / "node_modules", symlinks=True)
    script = str(copy / Path(FILESYSTEM).relative_to(modules))
    agent = gate_of(tmp_path, ("files", "node", [script, str(tmp_path)]))
    tools = agent.names()
    assert (tools["files__read_text_file"].meta or {})["holdpoint/policy"] == "allow"
    assert (tools["files__write_file"].meta or {})["holdpoint/policy"] == "hold"
    path = str(tmp_path / "note.txt")
    deciding = meanwhile(lambda: decided(reviewer, edits={"path": path, "content": "edited"}))
    written = agent.call("files__write_file", path=path, content="draft")
    deciding.join()
    assert not written.is_error, text_of(written)
    assert Path(path).read_text() == "edited"
    read = agent.call("files__read_text_file", path=path)
    assert text_of(read) == "edited"
    assert read.structured_content == {"content": "edited"}
    outside = agent.call("files__read_text_file", path="/etc/passwd")
    assert outside.is_error
    assert "denied" in text_of(outside).lower()
