"""Public MCP servers fill the catalogue, answer a suggested plan and are learned from."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphrag.models import Tool, ToolDependency
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.models import McpServer
from workflows.planning.learning import learn_from
from workflows.planning.planner import suggest
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def public(repo: Path) -> Iterator[None]:
    for name, *args in (
        ("git", "-m", "mcp_server_git", "--repository", str(repo)),
        ("time", "-m", "mcp_server_time", "--local-timezone", "UTC"),
        ("fetch", "-m", "mcp_server_fetch"),
    ):
        paths = [str(repo)] if name == "git" else []
        McpServer.objects.create(name=name, command=sys.executable, args=args, read_paths=paths)
    yield
    close_pool()


def test_public_servers_are_listed_planned_run_and_learned_from(public: None, repo: Path) -> None:
    synced = {each.server: each for each in catalogue_sync.sync_all()}
    assert {name: synced[name].error for name in ("git", "time", "fetch")} == {
        "git": "", "time": "", "fetch": "",
    }  # fmt: skip
    for name in ("git.git_log", "time.get_current_time", "time.convert_time", "fetch.fetch"):
        tool = Tool.objects.get(name=name)
        assert (tool.kind, tool.enabled) == ("mcp", True)
        assert tool.description
        assert tool.input_schema["properties"]

    inputs = {"timezone": "Europe/Vienna", "repo_path": str(repo)}
    found = suggest("get the current time in a timezone, then show the commit log", inputs)
    assert found.plan is not None
    tools = [task["tool"] for task in found.plan["tasks"]]
    assert tools == ["time.get_current_time", "git.git_log"]
    execution = run_to_rest(start_execution(actor=None, plan=found.plan, inputs=inputs).pk)
    assert execution.status == "COMPLETED"
    outputs = dict(execution.attempts.values_list("task_id", "output"))
    assert "Europe/Vienna" in str(outputs["get_current_time"])
    assert "feat: start" in str(outputs["git_log"])
    learn_from(execution.pk)
    edge = ToolDependency.objects.get(to_tool__name="git.git_log")
    assert edge.from_tool.name == "time.get_current_time"
