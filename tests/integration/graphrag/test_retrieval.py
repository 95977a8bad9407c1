"""Hybrid search on PostgreSQL: filters, exactness of the index, odd queries."""

import pytest
from django.db import connection

from graphrag import ingest, lexicon, retrieval
from graphrag.retrieval import Filters
from tests.integration.graphrag import fixtures
from tests.integration.graphrag.conftest import make_tool

pytestmark = pytest.mark.django_db


def names(query: str, **filters: object) -> list[str]:
    answer = retrieval.search(query, limit=20, filters=Filters(**filters))  # type: ignore[arg-type]
    return [found.tool.name for found in answer.found]


@pytest.fixture
def mixed(db: None) -> None:
    ingest.upsert_tools(
        [
            make_tool("a.read_page", "Read a page", read_only=True, permission_set="readonly"),
            make_tool("a.write_page", "Write a page", permission_set="trusted"),
            make_tool("b.read_page", "Read a page", kind="mcp", read_only=True),
            make_tool("c.count_pages", "Count pages", kind="capability", server="c"),
        ]
    )


def test_filters_are_part_of_the_question(mixed: None) -> None:
    assert set(names("page")) == {"a.read_page", "a.write_page", "b.read_page", "c.count_pages"}
    assert set(names("page", read_only=True)) == {"a.read_page", "b.read_page"}
    assert names("page", kind="capability") == ["c.count_pages"]
    assert set(names("page", server="a")) == {"a.read_page", "a.write_page"}
    assert names("page", permission_sets=("trusted",)) == ["a.write_page"]
    assert "a.read_page" not in names("page", without=("a.read_page",))
    assert names("page", permission_sets=()) == []


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "\x00",
        "'",
        "a' | !b & (",
        "%s %(x)s {0}",
        "the of and",
        "\ud800",
        "x" * 5_000,
        "🙂",
    ],
)
def test_no_query_breaks_the_search(mixed: None, query: str) -> None:
    assert isinstance(retrieval.search(query).found, tuple)


def test_an_empty_catalogue_answers_with_nothing(db: None) -> None:
    assert retrieval.search("anything at all") == retrieval.Answer()


def test_the_words_a_tool_matches_are_told_as_they_were_written(mixed: None) -> None:
    found = retrieval.search("counting pages").found[0]
    assert found.tool.name == "c.count_pages"
    assert set(found.matched) == {"counting", "pages"}
    assert found.coverage == 1.0
    assert 0.5 < found.similarity <= 1.0


def test_what_only_changes_ranks_below_what_reads_when_asked_to_read(mixed: None) -> None:
    order = names("show the page")
    assert order.index("a.read_page") < order.index("a.write_page")


def test_the_lexicon_follows_the_catalogue(mixed: None) -> None:
    before = lexicon.current()
    ingest.upsert_tools([make_tool("d.zebra", "Paints zebras")])
    after = lexicon.current()
    assert (before.tools, after.tools) == (4, 5)
    assert after.counts["zebra"] == 1
    assert lexicon.current() is after


def nearest(query: str, words: lexicon.Lexicon) -> list[float]:
    """Cosines of the ten nearest tools: tools that are equally near stand for each other."""
    return [found.cosine or 0.0 for found in retrieval.vector_search(query, words, limit=10)]


def test_the_index_is_used_and_finds_what_an_exact_search_finds(public_catalogue: None) -> None:
    exact, found = 0, 0
    words = lexicon.current()
    with connection.cursor() as cursor:
        # Other tests left rows behind in the index that this one does not measure.
        cursor.execute("REINDEX INDEX tool_embedding_hnsw")
    for intent in fixtures.intents()[:40]:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = on")
            cursor.execute("SET LOCAL enable_indexscan = off")
            truth = nearest(intent.text, words)
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_indexscan = on")
            got = nearest(intent.text, words)
        exact += len(truth)
        found += sum(cosine >= min(truth) - 1e-6 for cosine in got)
    assert found / exact >= 0.95
