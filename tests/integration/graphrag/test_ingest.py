"""Synchronizing the catalogue with the servers, and preserving admin choices."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graphrag.catalogue import ingest
from graphrag.models import Revision, Tool
from graphrag.retrieval import idf, search
from tests.integration.graphrag.conftest import make_tool
from workflows.planning.planner import known_tools

pytestmark = pytest.mark.django_db

LOG = make_tool("git.log", "Shows the commit logs")
DIFF = make_tool("git.diff", "Shows differences")
FETCH = make_tool("web.fetch", "Fetches a page")
BOTH = [LOG, DIFF]
NOWHERE = "openai:http://127.0.0.1:1/v1"


def enabled_names() -> list[str]:
    return [tool.name for tool in Tool.objects.filter(enabled=True).order_by("name")]


def test_the_first_sync_creates_and_embeds_the_second_changes_nothing() -> None:
    first = ingest.upsert_tools(BOTH, server="git", prune=True)
    assert first.created == ("git.log", "git.diff")
    assert first.embedded == 2
    revision = Revision.objects.get(name="catalogue")
    second = ingest.upsert_tools(BOTH, server="git", prune=True)
    assert second.unchanged == ("git.log", "git.diff")
    assert second.embedded == 0
    assert Revision.objects.get(name="catalogue").number == revision.number


def test_stored_records_equal_their_source() -> None:
    full = make_tool(
        "git.show",
        "Shows a commit",
        title="Show",
        properties={"revision": {"type": "string"}},
        output_schema={"type": "object"},
        permission_set="readonly",
        read_only=True,
        idempotent=True,
        destructive=False,
        open_world=None,
    )
    ingest.upsert_tools([full, FETCH])
    assert known_tools(["git.show", "nobody.there"]) == {"git.show": full}
    assert enabled_names() == ["git.show", "web.fetch"]


def test_only_changed_texts_are_embedded_again() -> None:
    ingest.upsert_tools(BOTH)
    moved = [replace(LOG, description="Shows the authors"), replace(DIFF, read_only=True)]
    result = ingest.upsert_tools(moved)
    assert result.updated == ("git.log", "git.diff")
    assert result.embedded == 1
    (best, *_) = search.search("the authors").found
    assert best.tool.name == "git.log"


def test_missing_tools_are_disabled_until_their_server_returns() -> None:
    ingest.upsert_tools([*BOTH, FETCH])
    gone = ingest.upsert_tools([LOG], server="git", prune=True)
    assert gone.disabled == ("git.diff",)
    assert enabled_names() == ["git.log", "web.fetch"]
    assert not known_tools(["git.diff"])["git.diff"].enabled
    back = ingest.upsert_tools(BOTH, server="git", prune=True)
    assert back.restored == ("git.diff",)
    assert known_tools(["git.diff"])["git.diff"].enabled
    assert ingest.disable_server("git") == ("git.diff", "git.log")


def test_admin_choices_survive_every_sync() -> None:
    ingest.upsert_tools(BOTH)
    ingest.set_tool_policy(name="git.log", enabled=False)
    ingest.set_tool_policy(name="git.diff", permission_set="trusted")
    for specs in (BOTH, [], BOTH):
        ingest.upsert_tools(specs, server="git", prune=True)
    found = known_tools(["git.log", "git.diff"])
    assert not found["git.log"].enabled
    assert found["git.diff"].enabled
    assert found["git.diff"].permission_set == "trusted"
    assert found["git.log"].permission_set == "minimal"


def test_an_unchosen_permission_set_follows_the_server() -> None:
    ingest.upsert_tools([LOG])
    ingest.upsert_tools([replace(LOG, permission_set="readonly")])
    assert known_tools(["git.log"])["git.log"].permission_set == "readonly"


def test_a_disabled_tool_is_never_found() -> None:
    ingest.upsert_tools(BOTH)
    ingest.set_tool_policy(name="git.log", enabled=False)
    assert [found.tool.name for found in search.search("commit logs").found] == ["git.diff"]


def test_one_bad_tool_does_not_stop_the_others() -> None:
    bad = make_tool("git.bad", input_schema={"x": float("inf")})
    result = ingest.upsert_tools([bad, LOG], server="git", prune=True)
    assert result.created == ("git.log",)
    assert "not JSON" in result.refused["git.bad"]


@pytest.mark.parametrize(
    ("specs", "arguments"), [([FETCH], {"server": "git"}), ([LOG], {"prune": True})]
)
def test_an_ambiguous_call_is_refused(specs: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"git|prune"):
        ingest.upsert_tools(specs, **arguments)


def test_without_its_embedder_the_tools_are_stored_and_found_by_words(
    holdpoint: Callable[..., None],
) -> None:
    holdpoint(embedder=NOWHERE)
    result = ingest.upsert_tools(BOTH)
    assert result.created == ("git.log", "git.diff")
    assert "127.0.0.1:1" in result.embedding_error
    answer = search.search("commit logs")
    assert answer.found[0].tool.name == "git.log"
    assert answer.warnings[0].startswith("Found by full text alone")
    holdpoint(embedder="hashing")
    assert ingest.reembed() == 2
    assert not search.search("commit logs").warnings


def test_vectors_of_two_embedders_are_never_compared(holdpoint: Callable[..., None]) -> None:
    ingest.upsert_tools(BOTH)
    Tool.objects.filter(name="git.diff").update(embedder="another:1")
    query = "zzzz differences"
    cosines = {found.tool.name: found.cosine for found in search.search(query).found}
    assert cosines["git.diff"] is None
    assert ingest.outdated().count() == 1
    seen: list[tuple[int, int]] = []
    assert ingest.reembed(progress=lambda done, total: seen.append((done, total))) == 1
    assert seen == [(1, 1)]
    assert search.search(query).found[0].cosine is not None


def test_a_sync_that_reads_back_what_reembed_wrote_changes_nothing() -> None:
    wide = make_tool("git.wide", "Wide", properties={"zz": {}, "a": {}, "mmm": {}})
    ingest.upsert_tools([wide])
    assert ingest.reembed(every=True) == 1
    assert ingest.upsert_tools([wide]).unchanged == ("git.wide",)


def test_a_policy_for_an_unknown_tool_is_an_error() -> None:
    with pytest.raises(Tool.DoesNotExist):
        ingest.set_tool_policy(name="no.body", enabled=True)


def test_a_server_with_too_many_tools_has_the_rest_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ingest, "MAX_TOOLS_OF_SERVER", 2)
    listed = [make_tool(f"many.t{number}") for number in range(4)]
    result = ingest.upsert_tools(listed, server="many", prune=True)
    assert result.created == ("many.t0", "many.t1")
    assert result.refused["many.t3"] == "'many' lists more than 2 tools"


def test_the_index_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idf, "MAX_WORDS", 3)
    words = " ".join(f"word{number}" for number in range(50))
    ingest.upsert_tools([make_tool("a.common", f"common {words}"), make_tool("b.common", "common")])
    read = idf.current()
    assert len(read.counts) == 3
    assert "common" in read.counts
    assert len(read.terms(" ".join(f"word{number}" for number in range(500)))) == idf.MAX_TERMS
