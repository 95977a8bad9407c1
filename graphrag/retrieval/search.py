"""Hybrid search: vector and full text search with filters in SQL, fused by reciprocal rank."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import compress
from typing import Any

from django.db import DatabaseError, connection, transaction
from pgvector import Vector

from graphrag import cache, conf, tokenizer
from graphrag.cache import CacheSnapshot
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.database_errors import first_line
from graphrag.embedding import embedders
from graphrag.retrieval.idf import Idf, Term

logger = logging.getLogger(__name__)

MAX_QUERY = 2_000
_RRF_K = 40
_EF_SEARCH = 160
_EXTRA_CANDIDATES = 20
_COVERAGE_WEIGHT = 0.6
_OTHER_ACTION_FACTOR = 0.8
_EXTRA_NAME_WORDS_PENALTY = 0.45
_CANDIDATE_POOL = 500
# Filters.sql builds ``condition`` from constants; every value is a parameter.
_NEAREST = """
SELECT t.id, t.name, t.server, t.read_only, t.pagerank, 1 - (t.embedding <=> %(vector)s::vector)
FROM graphrag_tool t
WHERE {condition} AND t.embedder = %(embedder)s AND t.embedding IS NOT NULL
ORDER BY {distance}
LIMIT %(limit)s
"""
# PostgreSQL can answer the first from the index; for the sum it compares every row that passes.
_INDEXED_DISTANCE = "t.embedding <=> %(vector)s::vector"
_EXACT_DISTANCE = f"({_INDEXED_DISTANCE}) + 0"
# The index filters after its scan; an iterative scan continues until enough rows pass. Both
# settings are sent with the query in one message, which is one transaction, and end with it.
_INDEX_SETTINGS = f"""
SET LOCAL hnsw.iterative_scan = 'strict_order';
SET LOCAL hnsw.ef_search = {_EF_SEARCH};
"""
# Ranking reads each candidate once per term. Therefore the rarest terms select the candidates, and
# concatenating an empty tsvector makes a copy in memory that PostgreSQL detoasts only once. A sum
# over the terms, instead of a join with them, avoids a sort and a GROUP BY.
_TEXT_SEARCH = """
WITH candidates AS MATERIALIZED (
    SELECT t.id, t.search || ''::tsvector AS search FROM graphrag_tool t
    WHERE {condition} AND t.search @@ %(selective)s::tsquery
    LIMIT %(pool)s
), best AS (
    SELECT id, search, {score} AS score FROM candidates
    ORDER BY score DESC, id
    LIMIT %(limit)s
)
SELECT t.id, t.name, t.server, t.read_only, t.pagerank, ARRAY[{has}]
FROM best JOIN graphrag_tool t ON t.id = best.id
ORDER BY best.score DESC, t.id
"""
_SCORE = "%(weight{at})s * ts_rank(ARRAY[0.08, 0.18, 0.7, 1.0], search, %(term{at})s::tsquery)"
_HAS = "best.search @@ %(term{at})s::tsquery"
_COSINES = """
SELECT t.id, 1 - (t.embedding <=> %(vector)s::vector)
FROM graphrag_tool t
WHERE t.id = ANY(%(keys)s) AND t.embedder = %(embedder)s AND t.embedding IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions on results; ``None`` sets no condition. Disabled tools are never found."""

    kind: str | None = None
    server: str | None = None
    read_only: bool | None = None
    permission_sets: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    describes_output: bool = False

    def sql(self) -> tuple[str, dict[str, Any]]:
        """Return a condition on the tool table ``t`` and its parameters."""
        parts = ["t.enabled"]
        if self.kind is not None:
            parts.append("t.kind = %(kind)s")
        if self.server is not None:
            parts.append("t.server = %(server)s")
        if self.read_only is not None:
            parts.append("t.read_only = %(read_only)s")
        if self.permission_sets is not None:
            parts.append("t.permission_set = ANY(%(permission_sets)s)")
        if self.describes_output:
            parts.append("t.output_schema ? 'properties'")
        if self.without:
            parts.append("NOT t.name = ANY(%(without)s)")
        return " AND ".join(parts), {
            "kind": self.kind,
            "server": self.server,
            "read_only": self.read_only,
            "permission_sets": list(self.permission_sets or ()),
            "without": list(self.without),
        }


EVERYTHING = Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A search result; ``score`` orders the results.

    ``similarity`` (0 to 1) combines ``cosine``, -1 to 1 (None when only full text search found the
    tool), and ``coverage``, the IDF-weighted share of the query's words in the tool's text, 0 to 1.
    """

    tool: ToolRecord
    score: float
    similarity: float
    cosine: float | None = None
    coverage: float = 0.0
    matched: tuple[str, ...] = ()
    pagerank: float = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Results, best first; ``warnings`` name a search that failed, with the reason."""

    found: tuple[Found, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Candidate:
    """A tool that the vector or the full text search found, before its record is loaded."""

    key: int
    name: str
    server: str
    read_only: bool
    pagerank: float
    cosine: float | None = None
    lexemes: tuple[str, ...] = ()
    score: float = 0.0
    coverage: float = 0.0
    similarity: float = 0.0


def search(
    query: str,
    *,
    limit: int = 10,
    filters: Filters = EVERYTHING,
    text_only: bool = False,
    with_cosines: bool = False,
    cached: CacheSnapshot | None = None,
) -> Answer:
    """Return at most ``limit`` enabled tools that match the query; none for an empty query.

    Without a working embedder or the ``vector`` extension, only full text search runs, and the
    response has a warning. ``text_only`` runs only full text search, which is cheaper;
    ``with_cosines`` compares only its results with the query's vector, which costs little more.
    ``cached`` is the snapshot of a caller that searches more than once.
    """
    cleaned_query = query.replace("\x00", " ")[:MAX_QUERY].strip()
    if not cleaned_query or limit < 1:
        return Answer()
    cached = cached or cache.current()
    idf = cached.idf
    terms = idf.terms(cleaned_query)
    candidates = max(conf.search_candidates(), limit)
    by_text = text_search(terms, idf, limit=candidates, filters=filters)
    by_vector: list[Candidate] = []
    warnings: tuple[str, ...] = ()
    trust = 0.0
    try:
        if not text_only:
            trust = embedders.current().trust
            by_vector = (
                _with_cosines(by_text, cleaned_query, idf)
                if with_cosines
                else vector_search(cleaned_query, idf, limit=candidates, filters=filters)
            )
    except (embedders.EmbedderError, DatabaseError) as error:
        logger.warning("only full text search is available: %s", error)
        warnings = (f"Found by full text alone: {first_line(error)}.",)
    fused = _fused(by_vector, by_text, trust)[: limit + _EXTRA_CANDIDATES]
    best = _rescored(fused, terms, idf, tokenizer.action(cleaned_query))[:limit]
    return Answer(tuple(_results(best, terms, cached)), warnings)


def vector_search(
    query: str, idf: Idf, *, limit: int, filters: Filters = EVERYTHING
) -> list[Candidate]:
    """Return tools with their cosine, nearest first, by vectors of the configured embedder.

    :raises embedding.EmbedderError: when the query cannot be embedded.
    """
    vector_parameters = _vector(query, idf)
    if vector_parameters is None:
        return []
    condition, parameters = filters.sql()
    parameters |= {**vector_parameters, "limit": limit}
    with _savepoint_if_in_transaction(), connection.cursor() as cursor:
        nearest = _NEAREST.format(condition=condition, distance=_INDEXED_DISTANCE)
        cursor.execute(_INDEX_SETTINGS + nearest, parameters)
        while cursor.description is None:
            cursor.nextset()
        rows = cursor.fetchall()
        if len(rows) < limit:
            # Few tools pass, or the index does not reach them: in HNSW a cluster of equal vectors
            # (dead rows count until VACUUM) links only to itself, and the scan ends there.
            cursor.execute(
                _NEAREST.format(condition=condition, distance=_EXACT_DISTANCE), parameters
            )
            rows = cursor.fetchall()
    return [Candidate(*row) for row in rows]


def _with_cosines(candidates: Sequence[Candidate], query: str, idf: Idf) -> list[Candidate]:
    """Return the candidates that have a vector, with their cosine, nearest first."""
    vector_parameters = _vector(query, idf)
    if vector_parameters is None or not candidates:
        return []
    by_id = {candidate.key: candidate for candidate in candidates}
    with _savepoint_if_in_transaction(), connection.cursor() as cursor:
        cursor.execute(_COSINES, {**vector_parameters, "keys": list(by_id)})
        for key, cosine in cursor.fetchall():
            by_id[key].cosine = cosine
    near = [candidate for candidate in candidates if candidate.cosine is not None]
    return sorted(near, key=lambda candidate: -(candidate.cosine or 0.0))


def _vector(query: str, idf: Idf) -> dict[str, str] | None:
    """Return the parameters of a vector search; None when the query's vector is zero."""
    embedder = embedders.current()
    vector = embedder.embed_query(query, idf.rarity)
    if not vector.any():
        return None
    return {"vector": Vector(vector).to_text(), "embedder": embedder.identity}


def _savepoint_if_in_transaction() -> AbstractContextManager[object]:
    """Keep the caller's transaction usable after a failure, so that full text search can run."""
    return transaction.atomic() if connection.in_atomic_block else nullcontext()


def text_search(
    terms: Sequence[Term], idf: Idf, *, limit: int, filters: Filters = EVERYTHING
) -> list[Candidate]:
    """Return tools with their lexemes, best first; rare words and names weigh most."""
    selective = idf.selective_lexemes(terms, _CANDIDATE_POOL)
    if not selective:
        return []
    condition, parameters = filters.sql()
    parameters |= {
        "selective": " | ".join(map(_quoted, selective)),
        "pool": 4 * _CANDIDATE_POOL,
        "limit": limit,
    }
    for at, term in enumerate(terms):
        parameters |= {f"term{at}": _quoted(term.lexeme), f"weight{at}": term.weight}
    statement = _TEXT_SEARCH.format(
        condition=condition,
        score=" + ".join(_SCORE.format(at=at) for at in range(len(terms))),
        has=", ".join(_HAS.format(at=at) for at in range(len(terms))),
    )
    lexemes = [term.lexeme for term in terms]
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [
            Candidate(key, name, server, read_only, pagerank, lexemes=tuple(compress(lexemes, has)))
            for key, name, server, read_only, pagerank, has in cursor.fetchall()
        ]


def _quoted(lexeme: str) -> str:
    # tokenizer.words() yields only letters and digits, so a lexeme contains no quote.
    return f"'{lexeme}'"


def _fused(
    by_vector: Sequence[Candidate], by_text: Sequence[Candidate], trust: float
) -> list[Candidate]:
    """Fuse both results by reciprocal rank, best first; ``trust`` weighs the vector search."""
    table: dict[int, Candidate] = {}
    for rank, candidate in enumerate(by_vector):
        candidate.score = trust / (_RRF_K + rank)
        table[candidate.key] = candidate
    for rank, found in enumerate(by_text):
        candidate = table.setdefault(found.key, found)
        candidate.lexemes = found.lexemes
        candidate.score += 1 / (_RRF_K + rank)
    return sorted(table.values(), key=lambda candidate: -candidate.score)


def _rescored(
    best: Sequence[Candidate], terms: Sequence[Term], idf: Idf, action: str | None
) -> list[Candidate]:
    """Sort candidates by fused score times similarity, then by name.

    A tool whose name has words that the query lacks ("get issue SLA" for "show the issue") ranks
    below a tool whose name has only words of the query.
    """
    for item in best:
        item.coverage = idf.coverage(terms, item.lexemes)
        own_name = item.name.removeprefix(f"{item.server}.")
        agreement = _agreement(action, own_name, read_only=item.read_only)
        item.similarity = _similarity(item.cosine, item.coverage) * agreement
        item.score *= item.similarity * (
            1.0 - _EXTRA_NAME_WORDS_PENALTY * (1.0 - idf.name_coverage(own_name, terms))
        )
    return sorted(best, key=lambda item: (-item.score, item.name))


def _results(
    best: Sequence[Candidate], terms: Sequence[Term], cached: CacheSnapshot
) -> list[Found]:
    """Load the tools of the candidates."""
    records = cached.tools.by_id(item.key for item in best)
    return [
        Found(
            tool=records[item.key],
            score=item.score,
            similarity=item.similarity,
            cosine=item.cosine,
            coverage=item.coverage,
            matched=cached.idf.matched_words(terms, item.lexemes),
            pagerank=item.pagerank,
        )
        for item in best
        if item.key in records
    ]


def _agreement(action: str | None, own_name: str, *, read_only: bool) -> float:
    """Return 1, or less when the tool and the query name different actions."""
    tool_action = tokenizer.name_action(own_name) or ("read" if read_only else None)
    return _OTHER_ACTION_FACTOR if action and tool_action and tool_action != action else 1.0


def _similarity(cosine: float | None, coverage: float) -> float:
    """Combine cosine and coverage: 0 to 1, and at least the cosine."""
    return 1.0 - (1.0 - max(0.0, cosine or 0.0)) * (1.0 - _COVERAGE_WEIGHT * coverage)
