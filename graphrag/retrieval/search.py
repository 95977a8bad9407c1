"""Find tools for a query in plain words.

1. ``Idf.terms`` looks each word of the query up in the words of the catalogue; words that share
   letters with it count in part, so that a misspelt word is found.
2. Full text search and the embedder's vectors each select candidates in SQL, filters included.
3. Each candidate gets a score for its words (BM25 over weighted fields), one for its letters
   (cosine of character n-grams) and one for its meaning (cosine of the embedder's vectors). The
   best candidate of each score counts 1; the weighted sum is the order.
4. A tool that does more or less than the query asks for loses a part of its score.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Any

from django.db import DatabaseError, connection, transaction
from pgvector import Vector

from graphrag import actions, cache
from graphrag.actions import Effect
from graphrag.cache import CacheSnapshot
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.database_errors import first_line
from graphrag.embedding import embedders
from graphrag.embedding.embedders import Fit
from graphrag.retrieval.idf import Idf, Term

#: Rows that each half of the hybrid search contributes.
CANDIDATES = 50

logger = logging.getLogger(__name__)

MAX_QUERY = 2_000
_EF_SEARCH = 300
_CANDIDATE_POOL = 500
# BM25. A word of the name, the first sentence, the rest of the description, the arguments.
_FIELD_WEIGHTS = {"A": 3.0, "B": 1.0, "C": 0.5, "D": 0.3}
_PROMINENT = frozenset("AB")
_SATURATION = 0.8
_LENGTH_SHARE = 0.5
# The letters of the name and the first sentence, beside the words, which weigh 1.
_LETTERS_WEIGHT = 0.8
_UNKNOWN_WORD_WEIGHT = 0.5
_COVERAGE_WEIGHT = 0.6
_UNASKED_CHANGE = 0.8
_UNASKED_DESTRUCTION = 0.5
_TOO_LITTLE = 0.8
# Filters.sql builds ``condition`` from constants; every value is a parameter.
_NEAREST = """
SELECT t.id, 1 - (t.embedding <=> %(vector)s::vector)
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
    SELECT id, {score} AS score FROM candidates
    ORDER BY score DESC, id
    LIMIT %(limit)s
)
SELECT id FROM best ORDER BY score DESC, id
"""
_SCORE = "%(weight{at})s * ts_rank(ARRAY[0.08, 0.18, 0.7, 1.0], search, %(term{at})s::tsquery)"
_WORDS = """
SELECT t.id, t.name, t.server, t.read_only, t.destructive, t.pagerank, length(t.search),
    matched.lexemes, matched.fields
FROM graphrag_tool t, LATERAL (
    SELECT array_agg(word.lexeme) AS lexemes,
        array_agg(array_to_string(word.weights, '')) AS fields
    FROM unnest(t.search) AS word
    WHERE word.lexeme = ANY(%(lexemes)s) OR word.weights && %(prominent)s::text[]
) matched
WHERE t.id = ANY(%(keys)s)
"""
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

    ``similarity`` (0 to 1) combines ``cosine``, -1 to 1 (None for a tool without a vector of the
    embedder), and ``coverage``, the IDF-weighted share of the query's words in the tool's text.
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
    """A tool that a search selected.

    ``frequencies``: lexeme -> its weighted frequency, for words like the query's and for
    ``prominent`` ones, which are in the tool's name or first sentence.
    """

    key: int
    cosine: float | None = None
    name: str = ""
    effect: Effect = Effect.READ
    pagerank: float = 1.0
    length: int = 0
    frequencies: Mapping[str, float] = field(default_factory=dict)
    prominent: Sequence[str] = ()
    words: float = 0.0
    letters: float = 0.0
    score: float = 0.0


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
    most = max(CANDIDATES, limit)
    table = {found.key: found for found in text_search(terms, idf, limit=most, filters=filters)}
    fit = embedders.NO_FIT
    warnings: tuple[str, ...] = ()
    try:
        if not text_only:
            fit = embedders.current().fit
            if not with_cosines:
                by_vector = vector_search(cleaned_query, idf, limit=most, filters=filters)
                table |= {found.key: found for found in by_vector}
            _read_cosines(table, cleaned_query, idf)
    except (embedders.EmbedderError, DatabaseError) as error:
        logger.warning("only full text search is available: %s", error)
        warnings = (f"Found by full text alone: {first_line(error)}.",)
    candidates = list(table.values())
    _read_words(candidates, terms)
    _score(candidates, terms, idf, fit, actions.asked(cleaned_query))
    best = sorted(candidates, key=lambda each: (-each.score, each.name))[:limit]
    return Answer(tuple(_results(best, terms, fit, cached)), warnings)


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
    return [Candidate(key, cosine) for key, cosine in rows]


def _read_cosines(table: Mapping[int, Candidate], query: str, idf: Idf) -> None:
    """Set the cosine of each candidate that has a vector of the embedder."""
    vector_parameters = _vector(query, idf)
    keys = [key for key, candidate in table.items() if candidate.cosine is None]
    if vector_parameters is None or not keys:
        return
    with _savepoint_if_in_transaction(), connection.cursor() as cursor:
        cursor.execute(_COSINES, {**vector_parameters, "keys": keys})
        for key, cosine in cursor.fetchall():
            table[key].cosine = cosine


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
    """Return tools that have words of the query; rare words and names weigh most."""
    selective = idf.selective_lexemes(terms, _CANDIDATE_POOL)
    if not selective:
        return []
    condition, parameters = filters.sql()
    parameters |= {"selective": _any_of(selective), "pool": 4 * _CANDIDATE_POOL, "limit": limit}
    known = [term for term in terms if term.lexemes]
    for at, term in enumerate(known):
        parameters |= {f"term{at}": _any_of(term.lexemes), f"weight{at}": term.rarity}
    statement = _TEXT_SEARCH.format(
        condition=condition, score=" + ".join(_SCORE.format(at=at) for at in range(len(known)))
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [Candidate(key) for (key,) in cursor.fetchall()]


def _any_of(lexemes: Iterable[str]) -> str:
    # tokenizer.words() yields only letters and digits, so a lexeme contains no quote.
    return " | ".join(f"'{lexeme}'" for lexeme in lexemes)


def _read_words(candidates: Sequence[Candidate], terms: Sequence[Term]) -> None:
    """Read what scoring needs of the candidates."""
    by_key = {candidate.key: candidate for candidate in candidates}
    lexemes = list({lexeme for term in terms for lexeme in term.lexemes})
    with connection.cursor() as cursor:
        cursor.execute(
            _WORDS,
            {"keys": list(by_key), "lexemes": lexemes, "prominent": sorted(_PROMINENT)},
        )
        rows = cursor.fetchall()
    for key, name, server, read_only, destructive, pagerank, length, matched, fields in rows:
        candidate = by_key[key]
        candidate.name, candidate.pagerank, candidate.length = name, pagerank, length
        candidate.effect = actions.of_tool(
            name.removeprefix(f"{server}."), read_only=read_only, destructive=destructive
        )
        found = dict(zip(matched or (), fields or (), strict=True))
        candidate.frequencies = {
            lexeme: sum(_FIELD_WEIGHTS[letter] for letter in letters)
            for lexeme, letters in found.items()
        }
        candidate.prominent = [
            lexeme for lexeme, letters in found.items() if not _PROMINENT.isdisjoint(letters)
        ]


def _score(
    candidates: Sequence[Candidate], terms: Sequence[Term], idf: Idf, fit: Fit, asked: Effect | None
) -> None:
    """Set the scores of the candidates."""
    for each in candidates:
        each.words = _words_score(each, terms, idf)
        each.letters = _letters_score(each, terms, idf) if each.words else 0.0
    most = max((each.words for each in candidates), default=0.0) or 1.0
    closest = max((each.letters for each in candidates), default=0.0) or 1.0
    cosines = [each.cosine for each in candidates if each.cosine is not None]
    least, nearest = min(cosines, default=0.0), max(cosines, default=0.0)
    for each in candidates:
        meaning = 0.0 if each.cosine is None else (each.cosine - least) / (nearest - least or 1.0)
        total = each.words / most + _LETTERS_WEIGHT * each.letters / closest + fit.weight * meaning
        weights = 1.0 + _LETTERS_WEIGHT + fit.weight
        each.score = total / weights * _caution(each.effect, asked)


def _words_score(candidate: Candidate, terms: Sequence[Term], idf: Idf) -> float:
    """Return the BM25 score; a word of the query counts once, by the word that is most like it.

    The verb alone finds no tool that destroys: "remove the package" must not drop a table.
    """
    share = candidate.length / (idf.mean_length or 1.0)
    damping = _SATURATION * (1.0 - _LENGTH_SHARE + _LENGTH_SHARE * share)
    scores = {
        term.stem: max(
            similarity * idf.rarity(lexeme) * frequency / (frequency + damping)
            for lexeme, similarity in term.lexemes.items()
            if (frequency := candidate.frequencies.get(lexeme))
        )
        for term in terms
        if not candidate.frequencies.keys().isdisjoint(term.lexemes)
    }
    if candidate.effect is Effect.DESTROY and actions.names_only_actions(scores):
        return 0.0
    return sum(scores.values())


def _letters_score(candidate: Candidate, terms: Sequence[Term], idf: Idf) -> float:
    """Return the cosine of the n-gram vectors of query and tool, times the query's length.

    A tool's vector is the sum of its prominent words' vectors. Its length is taken as if these
    words shared no n-gram.
    """
    weights = {lexeme: 1.0 + log(candidate.frequencies[lexeme]) for lexeme in candidate.prominent}
    lengths = {lexeme: weight * idf.letter_length(lexeme) for lexeme, weight in weights.items()}
    product = sum(
        term.letters[lexeme] * length
        for lexeme, length in lengths.items()
        for term in terms
        if lexeme in term.letters
    )
    return product / (sqrt(sum(length * length for length in lengths.values())) or 1.0)


def _caution(effect: Effect, asked: Effect | None) -> float:
    """Return the factor for a tool that may do more than the query asks for, or does less."""
    if effect > (Effect.CHANGE if asked is None else asked):
        return _UNASKED_DESTRUCTION if effect is Effect.DESTROY else _UNASKED_CHANGE
    return _TOO_LITTLE if asked is not None and effect < asked else 1.0


def _results(
    best: Sequence[Candidate], terms: Sequence[Term], fit: Fit, cached: CacheSnapshot
) -> list[Found]:
    """Load the tools of the candidates."""
    records = cached.tools.by_id(each.key for each in best)
    results = []
    for each in best:
        if each.key not in records:
            continue
        coverage = _coverage(each, terms)
        results.append(
            Found(
                tool=records[each.key],
                score=each.score,
                similarity=_similarity(fit.likeness(each.cosine), coverage),
                cosine=each.cosine,
                coverage=coverage,
                matched=_matched_words(each, terms),
                pagerank=each.pagerank,
            )
        )
    return results


def _coverage(candidate: Candidate, terms: Sequence[Term]) -> float:
    """Return the share of the query's words in the candidate, weighted by IDF, 0 to 1.

    A word like a query's word counts in part; a word that no tool has counts half in the total.
    """
    total = covered = 0.0
    for term in terms:
        total += term.rarity * (1.0 if term.lexemes else _UNKNOWN_WORD_WEIGHT)
        covered += term.rarity * max(
            (like for word, like in term.lexemes.items() if word in candidate.frequencies),
            default=0.0,
        )
    return covered / total if total else 0.0


def _matched_words(candidate: Candidate, terms: Sequence[Term]) -> tuple[str, ...]:
    """Return the query's words in the candidate, rarest first."""
    found = [term for term in terms if not candidate.frequencies.keys().isdisjoint(term.lexemes)]
    return tuple(term.word for term in sorted(found, key=lambda term: -term.rarity))


def _similarity(likeness: float, coverage: float) -> float:
    """Combine the likeness of meanings and the coverage, 0 to 1."""
    return 1.0 - (1.0 - likeness) * (1.0 - _COVERAGE_WEIGHT * coverage)
