"""`permission_ceiling` binds every kind of task: code, built-in tools, tools of MCP servers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrag.models import Tool
from tests.integration.workflows.tools import mcp_client as mcp_tests
from tests.support.catalogue import stock_catalogue
from tests.support.tool_servers import copied
from workflows.engine.policy.permissions import NAMED
from workflows.executions.validation import InvalidRequest
from workflows.models import McpServer
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool
from workflows.tools.registry import _registry, tool

from .conftest import Desk, code

CEILINGS = sorted(NAMED)


@pytest.fixture
def fruit(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServer]:
    """A real MCP server on stdio; its tools are entered as `mcp-standard`."""
    folder = tmp_path_factory.mktemp("fruit")
    (folder / "tools").write_text("apples")
    program = copied(Path(mcp_tests.__file__).with_name("changing.py"), folder)
    row = McpServer.objects.create(
        name="fruit",
        command=sys.executable,
        args=[program],
        env={"TOOLS": str(folder / "tools")},
        read_paths=[str(folder)],
    )
    assert catalogue_sync.sync_server(row).error == ""
    yield row
    close_pool()


def mcp_task(**more: Any) -> dict[str, Any]:
    return {"id": "one", "type": "tool", "tool": "fruit.apples", "arguments": {}, **more}


@pytest.mark.parametrize("own", ["readonly", "mcp-standard"])
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_a_tool_of_an_mcp_server_runs_below_its_ceiling_only(
    desk: Desk, fruit: McpServer, ceiling: str, own: str
) -> None:
    Tool.objects.filter(name="fruit.apples").update(permission_set=own)
    execution = desk.run(mcp_task(), policy={"permission_ceiling": ceiling})
    if NAMED[ceiling].covers(NAMED[own]):
        assert desk.output(execution, "one") == {"word": "apples"}
        return
    assert execution.status == "FAILED"
    assert desk.error(execution, "one") == (
        f"fruit.apples runs with the permission set {own}, which is above the ceiling of this "
        f"run ({ceiling})"
    )


def test_an_unconfinable_tool_is_refused_under_a_ceiling(desk: Desk, fruit: McpServer) -> None:
    """A plan that names a smaller set would pass the ceiling, and the tool do as it likes."""
    with pytest.raises(InvalidRequest) as caught:
        desk.run(mcp_task(permission_set="minimal"), policy={"permission_ceiling": "minimal"})
    (problem,) = caught.value.problems
    assert (problem.path, problem.code) == ("plan.tasks[0].permission_set", "not_confined")


@pytest.mark.parametrize("ceiling", CEILINGS)
def test_a_python_tool_without_context_runs_below_its_ceiling_only(
    desk: Desk, ceiling: str
) -> None:
    @tool(server="blunt", name="act", permission_set="filesystem")
    def act() -> str:
        """Do something that takes the permission set filesystem."""
        return "done"

    try:
        stock_catalogue()
        task = {"id": "one", "type": "tool", "tool": "blunt.act", "arguments": {}}
        execution = desk.run(task, policy={"permission_ceiling": ceiling})
    finally:
        _registry._tools.pop("blunt.act")
    covered = NAMED[ceiling].covers(NAMED["filesystem"])
    assert (execution.status == "COMPLETED") is covered
    if not covered:
        assert "above the ceiling of this run" in desk.error(execution, "one")


@pytest.mark.parametrize(
    "task",
    [
        code("one", "open('x', 'w').write('x')"),
        code("one", "Deno.writeTextFileSync('x', 'x')", "typescript"),
        {
            "id": "one",
            "type": "tool",
            "tool": "builtin.write_file",
            "arguments": {"path": "x.txt", "content": "x"},
        },
        {
            "id": "one",
            "type": "tool",
            "tool": "builtin.http_request",
            "arguments": {"url": "https://api.example.com/"},
        },
    ],
    ids=["python", "typescript", "write_file", "http_request"],
)
def test_code_and_built_in_tools_ask_for_nothing_above_the_ceiling(
    desk: Desk, task: dict[str, Any], settings: Any, tmp_path: Path
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": tmp_path}
    execution = desk.run(task, policy={"permission_ceiling": "readonly"})
    assert execution.status == "FAILED"
    assert "above the ceiling of this run (readonly)" in desk.error(execution, "one")
    assert not execution.holds.exists()
