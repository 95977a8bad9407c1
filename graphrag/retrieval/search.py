"""Hybrid retrieval: nearest vectors and full text, filtered inside the SQL, fused by rank."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import compress
from typing import Any

from django.db import DatabaseError, connection, transaction
from pgvector import Vector

from graphrag import cache, conf, text
from graphrag.cache import Knowledge
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.database_errors import first_line
from graphrag.embedding import embedders
from graphrag.retrieval.idf import Lexicon, Term

logger = logging.getLogger(__name__)

MAX_QUERY = 2_000
_FUSION = 40
_EF_SEARCH = 160
_SPARE = 20
_COVERED = 0.6
_OTHER_ACTION = 0.8
_UNASKED = 0.45
_POOL = 500
# ``condition`` is put together from fixed texts (see Filters.sql); every value is a parameter.
_NEAREST = """
SELECT t.id, t.name, t.server, t.read_only, t.pagerank, 1 - (t.embedding <=> %(vector)s::vector)
FROM graphrag_tool t
WHERE {condition} AND t.embedder = %(embedder)s AND t.embedding IS NOT NULL
ORDER BY {distance}
LIMIT %(limit)s
"""
# The first can be answered by the index; the sum cannot, so it compares every row that passes.
_BY_INDEX = "t.embedding <=> %(vector)s::vector"
_EXACTLY = f"({_BY_INDEX}) + 0"
# The index filters after its scan; an iterative scan goes on until enough rows pass. Both settings
# go with the query in one message, which PostgreSQL takes as one transaction: they end with it.
_THOROUGH = f"""
SET LOCAL hnsw.iterative_scan = 'strict_order';
SET LOCAL hnsw.ef_search = {_EF_SEARCH};
"""
# Ranking reads each candidate once per term: so the rarest terms choose the candidates, and the
# empty vector joined on makes a copy in memory that need not be fetched and unpacked each time.
# One sum over the terms, rather than a join with them, spares sorting the pairs to group them.
_BY_WORDS = """
WITH candidates AS MATERIALIZED (
    SELECT t.id, t.search || ''::tsvector AS search FROM graphrag_tool t
    WHERE {condition} AND t.search @@ %(telling)s::tsquery
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
    """What a found tool must be; ``None`` leaves it open. Disabled tools are never found."""

    kind: str | None = None
    server: str | None = None
    read_only: bool | None = None
    permission_sets: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    describes_output: bool = False

    def sql(self) -> tuple[str, dict[str, Any]]:
        """A condition on the tool table ``t`` and its parameters."""
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
    """One tool with how it was found; ``score`` orders the answer.

    ``similarity`` (0 to 1) says how well the tool fits the query, from both of the following:
    ``cosine`` is -1 to 1 (None when only full text found it); ``coverage`` is the share, by
    rarity, of the query's words in the tool's text, 0 to 1.
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
    """Found tools, best first; ``warnings`` says which half could not search, and why."""

    found: tuple[Found, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Candidate:
    """A tool one half of a search came upon, before it is read in full."""

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
    by_words: bool = False,
    measured: bool = False,
    known: Knowledge | None = None,
) -> Answer:
    """Enabled tools that fit the query, at most ``limit``; nothing for an empty query.

    Without a working embedder or the ``vector`` extension full text answers alone, with a
    warning; ``by_words`` asks for full text alone, which is cheaper; ``measured`` holds what full
    text found against the query's vector, which costs little more. ``known`` is what a plan
    that searches more than once has looked up already.
    """
    asked = query.replace("\x00", " ")[:MAX_QUERY].strip()
    if not asked or limit < 1:
        return Answer()
    known = known or cache.current()
    words = known.words
    terms = words.terms(asked)
    candidates = max(conf.search_candidates(), limit)
    by_text = text_search(terms, words, limit=candidates, filters=filters)
    by_vector: list[Candidate] = []
    warnings: tuple[str, ...] = ()
    trust = 0.0
    try:
        if not by_words:
            trust = embedders.current().trust
            by_vector = (
                _measured(by_text, asked, words)
                if measured
                else vector_search(asked, words, limit=candidates, filters=filters)
            )
    except (embedders.EmbedderError, DatabaseError) as error:
        logger.warning("searching by full text alone: %s", error)
        warnings = (f"Found by full text alone: {first_line(error)}.",)
    fused = _fused(by_vector, by_text, trust)[: limit + _SPARE]
    best = _scored(fused, terms, words, text.action(asked))[:limit]
    return Answer(tuple(_described(best, terms, known)), warnings)


def vector_search(
    query: str, words: Lexicon, *, limit: int, filters: Filters = EVERYTHING
) -> list[Candidate]:
    """Tools with their cosine, nearest first, among vectors of the embedder in force.

    :raises embedding.EmbedderError: when the query cannot be embedded.
    """
    asked = _vector(query, words)
    if asked is None:
        return []
    condition, parameters = filters.sql()
    parameters |= {**asked, "limit": limit}
    with _aside(), connection.cursor() as cursor:
        nearest = _NEAREST.format(condition=condition, distance=_BY_INDEX)
        cursor.execute(_THOROUGH + nearest, parameters)
        while cursor.description is None:
            cursor.nextset()
        rows = cursor.fetchall()
        if len(rows) < limit:
            # Few tools pass, or the index cannot reach them: a cluster of equal vectors (dead
            # row versions count until vacuum) links only to itself, and its scan ends there.
            cursor.execute(_NEAREST.format(condition=condition, distance=_EXACTLY), parameters)
            rows = cursor.fetchall()
    return [Candidate(*row) for row in rows]


def _measured(candidates: Sequence[Candidate], query: str, words: Lexicon) -> list[Candidate]:
    """Those that have a vector of the embedder in force, with their cosine, nearest first."""
    asked = _vector(query, words)
    if asked is None or not candidates:
        return []
    by_key = {candidate.key: candidate for candidate in candidates}
    with _aside(), connection.cursor() as cursor:
        cursor.execute(_COSINES, {**asked, "keys": list(by_key)})
        for key, cosine in cursor.fetchall():
            by_key[key].cosine = cosine
    near = [candidate for candidate in candidates if candidate.cosine is not None]
    return sorted(near, key=lambda candidate: -(candidate.cosine or 0.0))


def _vector(query: str, words: Lexicon) -> dict[str, str] | None:
    """Parameters of a search by the query's vector; None for a query that says nothing."""
    embedder = embedders.current()
    vector = embedder.embed_query(query, words.rarity)
    if not vector.any():
        return None
    return {"vector": Vector(vector).to_text(), "embedder": embedder.identity}


def _aside() -> AbstractContextManager[object]:
    """In a transaction of the caller's a failure must not end it: full text still answers."""
    return transaction.atomic() if connection.in_atomic_block else nullcontext()


def text_search(
    terms: Sequence[Term], words: Lexicon, *, limit: int, filters: Filters = EVERYTHING
) -> list[Candidate]:
    """Tools with the lexemes their text has, best first; rare words and names weigh most."""
    telling = words.telling(terms, _POOL)
    if not telling:
        return []
    condition, parameters = filters.sql()
    parameters |= {
        "telling": " | ".join(map(_quoted, telling)),
        "pool": 4 * _POOL,
        "limit": limit,
    }
    for at, term in enumerate(terms):
        parameters |= {f"term{at}": _quoted(term.lexeme), f"weight{at}": term.weight}
    statement = _BY_WORDS.format(
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
    # Lexemes here are letters and digits alone (text.words), so quotes are enough.
    return f"'{lexeme}'"


def _fused(
    by_vector: Sequence[Candidate], by_text: Sequence[Candidate], trust: float
) -> list[Candidate]:
    """Reciprocal rank fusion of both halves, best first; ``trust`` weighs the vectors."""
    table: dict[int, Candidate] = {}
    for rank, candidate in enumerate(by_vector):
        candidate.score = trust / (_FUSION + rank)
        table[candidate.key] = candidate
    for rank, found in enumerate(by_text):
        candidate = table.setdefault(found.key, found)
        candidate.lexemes = found.lexemes
        candidate.score += 1 / (_FUSION + rank)
    return sorted(table.values(), key=lambda candidate: -candidate.score)


def _scored(
    best: Sequence[Candidate], terms: Sequence[Term], words: Lexicon, action: str | None
) -> list[Candidate]:
    """The candidates by fused rank times similarity; equals in order of the name.

    A tool whose name says more than was asked for ("get issue SLA" for "show the issue") yields to
    one whose name says just that.
    """
    for item in best:
        item.coverage = words.coverage(terms, item.lexemes)
        own_name = item.name.removeprefix(f"{item.server}.")
        agreement = _agreement(action, own_name, read_only=item.read_only)
        item.similarity = _similarity(item.cosine, item.coverage) * agreement
        item.score *= item.similarity * (1.0 - _UNASKED * (1.0 - words.asked(own_name, terms)))
    return sorted(best, key=lambda item: (-item.score, item.name))


def _described(best: Sequence[Candidate], terms: Sequence[Term], known: Knowledge) -> list[Found]:
    """The chosen candidates with their tools."""
    records = known.shelf.by_key(item.key for item in best)
    return [
        Found(
            tool=records[item.key],
            score=item.score,
            similarity=item.similarity,
            cosine=item.cosine,
            coverage=item.coverage,
            matched=known.words.matched(terms, item.lexemes),
            pagerank=item.pagerank,
        )
        for item in best
        if item.key in records
    ]


def _agreement(action: str | None, own_name: str, *, read_only: bool) -> float:
    """1, or less for a tool that does another kind of thing than asked: reads, changes, deletes."""
    does = text.name_action(own_name) or ("read" if read_only else None)
    return _OTHER_ACTION if action and does and does != action else 1.0


def _similarity(cosine: float | None, coverage: float) -> float:
    """The better of both halves, lifted by both: 0 to 1."""
    return 1.0 - (1.0 - max(0.0, cosine or 0.0)) * (1.0 - _COVERED * coverage)
