"""The examples of docs/howto/connect-an-agent.md, run as written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.integration.workflows.mcp_server.conftest import Tokens
from tests.integration.workflows.mcp_server.web import Web
from tests.support.processes import ROOT, environment
from workflows.mcp_server.tools import TOOLS
from workflows.mcp_server.waiting import MAX_WAIT_SECONDS

TEXT = (ROOT / "docs" / "howto" / "connect-an-agent.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)[number]


def run(*command: str, **more: str) -> str:
    env = {**os.environ, **more}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("workers")
def test_the_examples_complete_a_run_and_list_pending_reviews(web: Web, token: Tokens) -> None:
    given = {
        "HOLDPOINT_TOKEN": token("operator"),
        "HOLDPOINT_URL": web.url.removesuffix("/mcp"),
    }
    first, last = run(sys.executable, "-c", block("python"), **given).splitlines()
    assert first.startswith("Layer 1 of 2 is complete. Call continue, replan or abort.")
    assert last == "complete hello"
    listed = run("sh", "-c", block("sh", 1), **given)
    assert '"pending":[]' in listed.replace("\\", "")


@pytest.mark.django_db(transaction=True)
def test_the_configured_command_lists_tools(token: Tokens) -> None:
    server = json.loads(block("json", 1))["mcpServers"]["holdpoint"]
    arguments = [each.removeprefix("/path/to/holdpoint/") for each in server["args"]]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(**dict.fromkeys(server["env"], token("operator"))),
        input=b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}\n',
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["id"] == 1


def test_the_page_names_every_tool_and_the_longest_wait() -> None:
    table = TEXT[TEXT.index("## Tools") :]
    assert set(TOOLS) <= set(re.findall(r"`(\w+)`", table))
    assert f"up to {MAX_WAIT_SECONDS}" in table
