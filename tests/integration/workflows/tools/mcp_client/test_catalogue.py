"""The catalogue follows its servers: announced changes, removed servers, capabilities."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrag.models import Tool
from graphrag.retrieval import search
from tests.integration.workflows.tools.mcp_client.conftest import until
from tests.support.tool_servers import copied
from workflows.common import background_loop
from workflows.executions.layer_runner import spec_of
from workflows.executions.services import start_execution
from workflows.executions.validation import InvalidRequest
from workflows.models import McpServer
from workflows.planning.planner import suggest
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool, pool

pytestmark = pytest.mark.django_db(transaction=True)
SERVER = Path(__file__).with_name("changing.py")


@pytest.fixture
def offers(tmp_path: Path) -> Callable[..., None]:
    """Say which tools the server offers from its next look at the file."""

    def write(*names: str) -> None:
        (tmp_path / "tools").write_text(" ".join(names))

    return write


@pytest.fixture
def row(offers: Any, tmp_path: Path) -> Iterator[McpServer]:
    """The server, with two tools, connected and listened to."""
    offers("apples", "pears")
    catalogue_sync.listen()
    program = copied(SERVER, tmp_path / "program")
    made = McpServer.objects.create(
        name="fruit",
        command=sys.executable,
        args=[program],
        env={"TOOLS": str(tmp_path / "tools")},
        read_paths=[program, str(tmp_path / "tools")],
    )
    assert catalogue_sync.sync_server(made).error == ""
    yield made
    close_pool()


def enabled() -> set[str]:
    rows = Tool.objects.filter(server="fruit", enabled=True)
    return {name.removeprefix("fruit.") for name in rows.values_list("name", flat=True)}


def have_it_look_again(row: McpServer) -> None:
    told = background_loop.run(pool().call(spec_of(row), "read_file_again", {}), 30)
    assert told == {"told": True}


def start(tool: str) -> None:
    start_execution(actor=None, plan={"tasks": [{"id": "t", "type": "tool", "tool": tool}]})


def test_changes_of_a_connected_server_reach_the_catalogue(row: McpServer, offers: Any) -> None:
    assert enabled() == {"read_file_again", "apples", "pears"}
    offers("pears", "plums")
    have_it_look_again(row)
    until(lambda: enabled() == {"read_file_again", "pears", "plums"}, "the catalogue follows")
    gone = Tool.objects.get(name="fruit.apples")
    assert (gone.enabled, gone.vanished) == (False, True)
    assert gone.embedding is not None
    with pytest.raises(InvalidRequest, match=r"fruit\.apples"):
        start("fruit.apples")
    start("fruit.plums")

    offers("apples", "pears", "plums")
    have_it_look_again(row)
    until(lambda: "apples" in enabled(), "the tool is back")
    gone.refresh_from_db()
    assert not gone.vanished


def test_a_disabled_tool_is_neither_found_nor_planned(row: McpServer) -> None:
    Tool.objects.filter(name="fruit.pears").update(enabled=False)
    assert catalogue_sync.sync_server(row).tools == 3
    names = [found.tool.name for found in search.search("give the word pears back").found]
    assert "fruit.apples" in names
    assert "fruit.pears" not in names
    plan = suggest("give the word pears back", {}).plan
    assert plan is None or all(task["tool"] != "fruit.pears" for task in plan["tasks"])


def test_a_disabled_or_removed_server_disables_its_tools(row: McpServer) -> None:
    McpServer.objects.update(enabled=False)
    assert {each.server for each in catalogue_sync.sync_all()} == {"python"}
    assert enabled() == set()
    McpServer.objects.update(enabled=True)
    catalogue_sync.sync_all()
    assert "apples" in enabled()
    row.delete()
    assert "fruit.apples" in catalogue_sync.retire_servers()
    assert enabled() == set()
    assert Tool.objects.filter(server="fruit", vanished=True).count() == 3


def test_a_start_reads_only_servers_without_a_stored_list(row: McpServer) -> None:
    assert {each.server for each in catalogue_sync.sync_all(known_servers=False)} == {"python"}
    assert "apples" in enabled()
    McpServer.objects.update(synced_at=None)
    synced = {each.server for each in catalogue_sync.sync_all(known_servers=False)}
    assert synced == {"python", row.name}


def test_the_follower_synchronizes_new_and_changed_servers(
    row: McpServer, offers: Any, settings: Any
) -> None:
    close_pool()
    Tool.objects.all().delete()
    settings.HOLDPOINT = {**settings.HOLDPOINT, "catalogue_seconds": 3600}
    follower = catalogue_sync.Follower()
    follower.start()
    try:
        until(lambda: "apples" in enabled(), "the first reading")
        offers("plums")
        have_it_look_again(row)
        until(lambda: enabled() == {"read_file_again", "plums"}, "the change is heard")
    finally:
        follower.stop()


def test_an_unreachable_server_keeps_its_tools_and_shows_the_error(row: McpServer) -> None:
    close_pool()
    McpServer.objects.update(command="/nowhere/to/be/found")
    row.refresh_from_db()
    error = catalogue_sync.sync_server(row).error
    assert "fruit" in error
    row.refresh_from_db()
    assert row.sync_error == error
    assert "apples" in enabled()
