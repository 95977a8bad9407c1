"""Hybrid search on PostgreSQL: filters, exactness of the index, odd queries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from django.db import connection

from graphrag import ranking
from graphrag.catalogue import ingest
from graphrag.embedding import embedders
from graphrag.models import Tool
from graphrag.retrieval import idf, search
from graphrag.retrieval.search import Filters
from tests.integration.graphrag.conftest import make_tool
from tests.support.invented_tools import invented_intents

pytestmark = pytest.mark.django_db


def names(query: str, **filters: object) -> list[str]:
    answer = search.search(query, limit=20, filters=Filters(**filters))  # type: ignore[arg-type]
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


def test_filters_apply_inside_the_search(mixed: None) -> None:
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
    assert isinstance(search.search(query).found, tuple)


def test_an_empty_catalogue_answers_with_nothing(db: None) -> None:
    assert search.search("anything at all") == search.Answer()


def test_matched_words_are_returned_as_written(mixed: None) -> None:
    found = search.search("counting pages").found[0]
    assert found.tool.name == "c.count_pages"
    assert set(found.matched) == {"counting", "pages"}
    assert found.coverage == 1.0
    assert 0.5 < found.similarity <= 1.0


def test_a_reading_query_ranks_readers_above_writers(mixed: None) -> None:
    order = names("show the page")
    assert order.index("a.read_page") < order.index("a.write_page")


def test_a_changing_query_ranks_writers_above_readers(mixed: None) -> None:
    order = names("update the page")
    assert order.index("a.write_page") < order.index("a.read_page")


def test_shared_letters_decide_between_tools_with_the_same_words(mixed: None) -> None:
    ingest.upsert_tools([make_tool("d.list_abacuses"), make_tool("d.list_calendars")])
    answer = search.search("list every Kalendereintrag", text_only=True)
    order = [found.tool.name for found in answer.found]
    assert order.index("d.list_calendars") < order.index("d.list_abacuses")


def test_a_hybrid_search_weighs_text_matches_like_a_full_search(mixed: None) -> None:
    whole = search.search("counting pages", limit=20).found
    with_cosines = search.search("counting pages", limit=20, with_cosines=True).found
    text_only = search.search("counting pages", limit=20, text_only=True).found
    assert {found.tool.name for found in with_cosines} == {found.tool.name for found in text_only}
    expected = {found.tool.name: (found.cosine, found.similarity) for found in whole}
    for found in with_cosines:
        assert (found.cosine, found.similarity) == pytest.approx(expected[found.tool.name])
    assert with_cosines[0].similarity > text_only[0].similarity


def test_a_hybrid_search_skips_vectors_of_another_embedder(mixed: None) -> None:
    Tool.objects.filter(name="c.count_pages").update(embedder="hashing:1")
    found = {found.tool.name: found for found in search.search("page", with_cosines=True).found}
    assert found["c.count_pages"].cosine is None
    assert found["a.read_page"].cosine is not None


def test_idf_follows_the_catalogue(mixed: None) -> None:
    before = idf.current()
    ingest.upsert_tools([make_tool("d.zebra", "Paints zebras")])
    after = idf.current()
    assert (before.tools, after.tools) == (4, 5)
    assert after.counts["zebra"] == 1
    assert idf.current() is after


def store_vectors(server: str, vectors: Sequence[Any], *, read_only_every: int = 1) -> None:
    Tool.objects.bulk_create(
        Tool(
            name=f"{server}.t{at}",
            server=server,
            kind="python",
            embedding=vector / np.linalg.norm(vector),
            embedder="hashing:3",
            read_only=at % read_only_every == 0,
        )
        for at, vector in enumerate(vectors)
    )


def only_the_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")


def anywhere(count: int) -> Any:
    return np.random.default_rng(5).normal(size=(count, 384)).astype(np.float32)


def test_a_selective_filter_finds_its_tools_through_the_index(db: None) -> None:
    """The index filters after its scan: without an iterative scan most would be missed."""
    store_vectors("s", anywhere(1_500), read_only_every=100)
    frequencies = idf.current()
    only_the_index()
    found = search.vector_search(
        "read page", frequencies, limit=10, filters=Filters(read_only=True)
    )
    assert len(found) == 10
    cosines = [candidate.cosine or 0.0 for candidate in found]
    assert cosines == sorted(cosines, reverse=True)


@pytest.mark.parametrize("only_reading", [True, None])
def test_disabled_copies_of_a_vector_do_not_hide_enabled_ones(
    db: None, only_reading: bool | None
) -> None:
    """What was updated or rolled back stays in the index until vacuum: here 400 copies of the
    question itself, which are each other's neighbours and lead nowhere else."""
    frequencies = idf.current()
    copies = [embedders.current().embed_query("read page", frequencies.rarity)] * 400
    store_vectors("gone", copies)
    Tool.objects.filter(server="gone").delete()
    store_vectors("s", anywhere(300), read_only_every=20)
    only_the_index()
    filters = Filters(read_only=only_reading)
    found = search.vector_search("read page", frequencies, limit=10, filters=filters)
    assert len(found) == 10


def nearest(query: str, frequencies: idf.Idf) -> list[float]:
    """Cosines of the ten nearest tools: tools that are equally near stand for each other."""
    return [found.cosine or 0.0 for found in search.vector_search(query, frequencies, limit=10)]


def test_the_index_is_used_and_equals_an_exact_search(large_catalogue: None) -> None:
    exact, found = 0, 0
    frequencies = idf.current()
    with connection.cursor() as cursor:
        # Other tests left rows behind in the index that this one does not measure.
        cursor.execute("REINDEX INDEX tool_embedding_hnsw")
    for intent in invented_intents()[::6]:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = on")
            cursor.execute("SET LOCAL enable_indexscan = off")
            truth = nearest(intent, frequencies)
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_indexscan = on")
            got = nearest(intent, frequencies)
        exact += len(truth)
        found += sum(cosine >= min(truth) - 1e-6 for cosine in got)
    assert found / exact >= 0.95


def test_a_new_rank_does_not_bloat_the_index(large_catalogue: None) -> None:
    """New versions of the rows fit beside the old ones, so no index gets an entry for them."""
    counted = (
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables"
        " WHERE relname = 'graphrag_tool'"
    )
    with connection.cursor() as cursor:
        cursor.execute(counted)
        updated, in_place = cursor.fetchone()
        ranked = Tool.objects.update(pagerank=1.5)
        cursor.execute(counted)
        updated_now, in_place_now = cursor.fetchone()
    assert updated_now - updated == ranked > 200
    assert in_place_now - in_place >= 0.95 * ranked


@pytest.mark.django_db(transaction=True)
def test_the_index_search_setting_ends_with_the_search() -> None:
    ingest.upsert_tools([make_tool("a.read_page", "Read a page")])
    assert names("page") == ["a.read_page"]
    with connection.cursor() as cursor:
        cursor.execute("SHOW hnsw.ef_search")
        assert cursor.fetchone() == ("40",)


@pytest.fixture
def harmful(db: None) -> None:
    """Tools that destroy, beside tools that people mean."""
    ingest.upsert_tools(
        [
            make_tool("mail.delete_email", "Delete an email. The email is gone for good."),
            make_tool("mail.send_message", "Send a message by email to one or more people."),
            make_tool("store.drop_collection", "Remove a collection from the database."),
            make_tool("cluster.uninstall_chart", "Uninstall a package from the cluster."),
            make_tool("cluster.list_charts", "List the packages in the cluster.", read_only=True),
            make_tool("disk.shred", "Overwrite a disk.", destructive=True),
        ]
    )


def test_a_query_without_such_a_verb_finds_destructive_tools_last(harmful: None) -> None:
    found = names("email it to bob")
    assert found.index("mail.send_message") < found.index("mail.delete_email")
    assert names("delete the email from bob")[0] == "mail.delete_email"


def test_the_verb_alone_finds_no_destructive_tool(harmful: None) -> None:
    found = names("remove the package from the cluster")
    assert found[0] == "cluster.uninstall_chart"
    assert found.index("cluster.list_charts") < found.index("store.drop_collection")


def test_a_destructive_tool_is_found_where_nothing_else_fits_and_marked(harmful: None) -> None:
    found = search.search("what happens to the disk").found
    assert found[0].tool.name == "disk.shred"
    assert "can destroy data" in ranking.match_reasons(found[0])


def test_a_misspelt_word_finds_the_tool(mixed: None) -> None:
    assert names("cuont the pagse")[0] == "c.count_pages"
