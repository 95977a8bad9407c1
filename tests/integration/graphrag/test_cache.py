"""The tool graph in a worker's memory: loaded once and never stale."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from graphrag import cache, versioned_cache
from graphrag.catalogue import ingest
from graphrag.catalogue import selectors as catalogue_selectors
from graphrag.catalogue.selectors import ToolCache
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import replanning
from graphrag.planning import services as planning_services
from graphrag.retrieval import search
from tests.integration.graphrag.conftest import make_tool
from workflows.planning.planner import known_tools

pytestmark = pytest.mark.django_db
READ = "files.read_file"
PLAN = {"tasks": [{"id": "list", "type": "tool", "tool": "files.list_directory"}]}


def statements(context: CaptureQueriesContext) -> list[str]:
    return [query["sql"] for query in context.captured_queries]


def test_a_second_replan_queries_only_versions_and_searches(
    files_catalogue: list[ToolRecord],
) -> None:
    first = replanning.replan(PLAN, ["list"], "parse the XML")
    assert first.plan is not None
    with CaptureQueriesContext(connection) as asked:
        assert replanning.replan(PLAN, ["list"], "parse the XML") == first
    read = [sql for sql in statements(asked) if '"graphrag_tool"' in sql]
    assert read == [], "tools were read again"
    assert sum("graphrag_revision" in sql for sql in statements(asked)) == 1


def test_a_search_reads_no_edges(files_catalogue: list[ToolRecord]) -> None:
    # Another revision: whatever an earlier test has kept is out of date.
    versioned_cache.bump("graph")
    with CaptureQueriesContext(connection) as asked:
        assert search.search("read a file").found
    assert not [sql for sql in statements(asked) if "graphrag_tooldependency" in sql]


def test_an_admin_change_invalidates_the_cache(files_catalogue: list[ToolRecord]) -> None:
    assert cache.current().tools.by_name([READ])[READ].permission_set == "minimal"
    ingest.set_tool_policy(name=READ, permission_set="trusted")
    assert cache.current().tools.by_name([READ])[READ].permission_set == "trusted"


def test_a_new_description_invalidates_the_cache(files_catalogue: list[ToolRecord]) -> None:
    assert planning_services.suggest("read a file").plan is not None
    ingest.upsert_tools([make_tool(READ, "Open a parcel.")])
    (found,) = cache.current().tools.by_name([READ]).values()
    assert found.description == "Open a parcel."


def test_nothing_is_cached_before_the_catalogue_has_a_version() -> None:
    assert versioned_cache.current_versions() == {}
    assert cache.current().tools is not cache.current().tools
    assert cache.current().tools.by_name(["nobody.there"]) == {}


def test_the_tool_cache_returns_the_rows_of_the_catalogue(
    files_catalogue: list[ToolRecord],
) -> None:
    shelf, names = ToolCache(), [tool.name for tool in files_catalogue]
    for _ in range(2):
        assert shelf.by_name([*names, "nobody.there"]) == known_tools(names)
    keys = list(catalogue_selectors.tools().values_list("pk", flat=True))
    with CaptureQueriesContext(connection) as asked:
        assert {record.name for record in shelf.by_id([*keys]).values()} == set(names)
    assert statements(asked) == []
    assert shelf.by_id([0]) == {}


def test_the_tool_cache_is_bounded(
    files_catalogue: list[ToolRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_selectors, "_MAX_CACHED", 2)
    shelf = ToolCache()
    first, second, third = (tool.name for tool in files_catalogue[:3])
    shelf.by_name([first, second])
    assert set(shelf.by_name([second, third])) == {second, third}
    with CaptureQueriesContext(connection) as asked:
        assert set(shelf.by_name([first, third])) == {first, third}
    assert len(statements(asked)) == 1, "the first had made room for the third"
