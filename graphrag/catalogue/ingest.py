"""Update the catalogue from the servers, and the embeddings from the catalogue."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from graphrag import tokenizer, versioned_cache
from graphrag.catalogue import tool_record
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.embedding import embedders
from graphrag.models import Tool, ToolKind

_BATCH = 200
_LOCK = 0x68706372
#: Marks that a person may set against what an MCP server declares.
MARKS = ("read_only", "destructive")
#: Tools that are stored for one server; a listing with more has the rest refused.
MAX_TOOLS_OF_SERVER = 2_000
_UPDATED_FIELDS = (
    *tool_record.CONTENT_FIELDS,
    "permission_set",
    "declared_marks",
    "enabled",
    "vanished",
    "embedding",
    "embedder",
    "embedded_digest",
    "search_name",
    "search_summary",
    "search_body",
    "search_arguments",
    "updated_at",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The tools that an ingest changed, by name. ``refused`` maps a name to the reason."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    embedded: int = 0
    embedding_error: str = ""


@dataclass(frozen=True, slots=True)
class _Embeddings:
    """Vectors of one embedder, by the digest of their text."""

    identity: str
    vectors: Mapping[str, Any]
    error: str = ""


def upsert_tools(
    specs: Sequence[ToolRecord], *, server: str | None = None, prune: bool = False
) -> IngestResult:
    """Store the tools, and embed the tools whose text changed.

    With ``prune``, tools of ``server`` that are not among ``specs`` are disabled, and enabled again
    when a later call lists them. A tool that a person disabled stays disabled, and a
    permission set that a person chose is kept. When the embedder fails, the tools are stored
    without vectors and full text search still finds them (see ``embedding_error``).

    :raises ValueError: when a spec belongs to another server, or ``prune`` is set without a server.
    """
    if prune and server is None:
        raise ValueError("prune needs a server")
    wanted, refused = _partition_valid(specs, server)
    embedded = _embed_changed(wanted)
    with transaction.atomic():
        _lock()
        return _store(wanted, refused, embedded, server if prune else None)


def _partition_valid(
    specs: Iterable[ToolRecord], server: str | None
) -> tuple[dict[str, ToolRecord], dict[str, str]]:
    wanted: dict[str, ToolRecord] = {}
    refused: dict[str, str] = {}
    for spec in specs:
        if server is not None and spec.server != server:
            raise ValueError(f"'{spec.name}' belongs to server '{spec.server}', not '{server}'")
        if server is not None and len(wanted) >= MAX_TOOLS_OF_SERVER:
            refused[spec.name] = f"'{server}' lists more than {MAX_TOOLS_OF_SERVER} tools"
            continue
        try:
            wanted[spec.name] = tool_record.sanitized(spec)
        except tool_record.InvalidTool as error:
            refused[spec.name] = str(error)
    return wanted, refused


def _lock() -> None:
    """Lock the catalogue against other writers until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def _embed_changed(wanted: Mapping[str, ToolRecord]) -> _Embeddings:
    try:
        embedder = embedders.current()
    except embedders.EmbedderError as error:
        return _Embeddings("", {}, str(error))
    embedded_already = set(
        Tool.objects.filter(
            name__in=wanted, embedder=embedder.identity, embedding__isnull=False
        ).values_list("name", "embedded_digest")
    )
    texts = {}
    for name, record in wanted.items():
        written = tool_record.tool_text(record)
        if (name, written.digest) not in embedded_already:
            texts[written.digest] = str(written)
    if not texts:
        return _Embeddings(embedder.identity, {})
    try:
        rows = embedder.embed_documents(list(texts.values()))
    except embedders.EmbedderError as error:
        return _Embeddings(embedder.identity, {}, str(error))
    return _Embeddings(embedder.identity, dict(zip(texts, rows, strict=True)))


def _store(
    wanted: Mapping[str, ToolRecord],
    refused: Mapping[str, str],
    embedded: _Embeddings,
    pruned_server: str | None,
) -> IngestResult:
    rows = {row.name: row for row in Tool.objects.select_for_update().filter(name__in=wanted)}
    created: list[Tool] = []
    updated: list[Tool] = []
    unchanged: list[Tool] = []
    restored: list[str] = []
    for name, record in wanted.items():
        row = rows.get(name)
        if row is None:
            created.append(_new_row(record, embedded))
            continue
        if row.vanished:
            row.enabled, row.vanished = True, False
            restored.append(name)
        changed = _apply(row, record, embedded)
        (updated if changed or name in restored else unchanged).append(row)
    Tool.objects.bulk_create(created, batch_size=_BATCH)
    Tool.objects.bulk_update(updated, _UPDATED_FIELDS, batch_size=_BATCH)
    disabled = _prune(pruned_server, {*wanted, *refused}) if pruned_server else ()
    if created or updated or disabled:
        _bump_revisions()
    return IngestResult(
        created=tuple(row.name for row in created),
        updated=tuple(row.name for row in updated),
        unchanged=tuple(row.name for row in unchanged),
        disabled=disabled,
        restored=tuple(restored),
        refused=dict(refused),
        embedded=len(embedded.vectors),
        embedding_error=embedded.error,
    )


def _new_row(record: ToolRecord, embedded: _Embeddings) -> Tool:
    row = Tool(name=record.name, enabled=record.enabled)
    _apply(row, record, embedded)
    return row


def _apply(row: Tool, record: ToolRecord, embedded: _Embeddings) -> bool:
    """Update a row in memory; return whether anything changed."""
    new: dict[str, Any] = {name: getattr(record, name) for name in tool_record.CONTENT_FIELDS}
    written = tool_record.tool_text(record)
    new.update(_search_fields(written))
    if record.kind == ToolKind.MCP:
        new["declared_marks"] = {mark: getattr(record, mark) for mark in MARKS}
        new.update(_marks_in_force(row, record))
    new.update(row.marks_by_hand)
    # The permission set of a tool that only reads needs the mark in force.
    if not row.permission_set_by_hand and (new["read_only"] or not record.read_only):
        new["permission_set"] = record.permission_set
    new.update(_embedding_fields(row, written.digest, embedded))
    # The digest stands for the vector: comparing arrays is slow and gives an array.
    changed = any(getattr(row, name) != value for name, value in new.items() if name != "embedding")
    for name, value in new.items():
        setattr(row, name, value)
    row.updated_at = timezone.now()
    return changed


def _marks_in_force(row: Tool, record: ToolRecord) -> dict[str, bool | None]:
    """Return the marks of a listed tool: stricter ones count at once, looser ones only by hand.

    Otherwise a server could end the reviews of its own tools with its next listing.
    """
    loosens = (record.read_only and not row.read_only) or (
        row.can_destroy and not record.can_destroy
    )
    if row.pk is None or not loosens:
        return {"read_only": record.read_only, "destructive": record.destructive}
    return {
        "read_only": record.read_only and row.read_only,
        "destructive": record.destructive or row.destructive,
    }


def _search_fields(written: tool_record.ToolText) -> dict[str, str]:
    return {
        "search_name": tokenizer.spaced(written.headline),
        "search_summary": tokenizer.spaced(written.summary),
        "search_body": tokenizer.spaced(written.body),
        "search_arguments": tokenizer.spaced(written.arguments),
    }


def _embedding_fields(row: Tool, digest: str, embedded: _Embeddings) -> dict[str, Any]:
    if digest in embedded.vectors:
        return {
            "embedding": embedded.vectors[digest],
            "embedder": embedded.identity,
            "embedded_digest": digest,
        }
    if row.embedded_digest == digest:
        return {}
    return {"embedding": None, "embedder": "", "embedded_digest": ""}


def _bump_revisions() -> None:
    versioned_cache.bump("catalogue")
    versioned_cache.bump("graph")


def _prune(server: str, listed: set[str]) -> tuple[str, ...]:
    unlisted = Tool.objects.filter(server=server, enabled=True).exclude(name__in=listed)
    names = tuple(unlisted.order_by("name").values_list("name", flat=True))
    unlisted.update(enabled=False, vanished=True, updated_at=timezone.now())
    return names


def disable_server(server: str) -> tuple[str, ...]:
    """Disable every tool of a removed server; its next listing enables them again."""
    return upsert_tools([], server=server, prune=True).disabled


def set_tool_policy(
    *,
    name: str,
    enabled: bool | None = None,
    permission_set: str | None = None,
    marks: Mapping[str, bool] | None = None,
) -> None:
    """Store a person's choice for one tool; later syncs keep it.

    `marks` replaces the marks set by hand (`read_only`, `destructive`); one of these that it leaves
    out is again as the server last declared it.

    :raises Tool.DoesNotExist: when there is no such tool.
    """
    with transaction.atomic():
        _lock()
        row = Tool.objects.select_for_update().get(name=name)
        if enabled is not None:
            row.enabled, row.vanished = enabled, False
        if permission_set is not None:
            row.permission_set, row.permission_set_by_hand = permission_set, True
        if marks is not None:
            returned = row.marks_by_hand.keys() - marks.keys()
            declared = {mark: row.declared_marks.get(mark, getattr(row, mark)) for mark in returned}
            row.marks_by_hand = dict(marks)
            for mark, value in {**declared, **marks}.items():
                setattr(row, mark, value)
        row.save(
            update_fields=[
                "enabled",
                "vanished",
                "permission_set",
                "permission_set_by_hand",
                "marks_by_hand",
                "read_only",
                "destructive",
                "updated_at",
            ]
        )
        _bump_revisions()


def outdated() -> QuerySet[Tool]:
    """Return the tools without a vector of the configured embedder.

    :raises embedding.EmbedderError: when the setting names no valid embedder.
    """
    identity = embedders.current().identity
    return Tool.objects.filter(~Q(embedder=identity) | Q(embedding__isnull=True))


def reembed(*, progress: Callable[[int, int], None] | None = None, every: bool = False) -> int:
    """Embed tools with the configured embedder, in batches; return how many.

    Concurrent searches use the vectors that are finished. ``every`` includes tools whose vector
    is current. ``progress`` is called with (done, total) after each batch.

    :raises embedding.EmbedderError: when the embedder fails; finished batches are kept.
    """
    embedder = embedders.current()
    rows = Tool.objects.all() if every else outdated()
    keys = list(rows.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(keys), _BATCH):
        _reembed_batch(embedder, keys[start : start + _BATCH])
        if progress:
            progress(min(start + _BATCH, len(keys)), len(keys))
    if keys:
        versioned_cache.bump("catalogue")
    return len(keys)


def _reembed_batch(embedder: embedders.Embedder, keys: Sequence[int]) -> None:
    rows = Tool.objects.filter(pk__in=keys).defer("embedding", "search")
    texts = {row.pk: tool_record.tool_text(tool_record.record_from_row(row)) for row in rows}
    vectors = embedder.embed_documents([str(written) for written in texts.values()])
    by_id = dict(zip(texts, vectors, strict=True))
    with transaction.atomic():
        _lock()
        unchanged = []
        for row in Tool.objects.select_for_update().filter(pk__in=texts).defer("search"):
            written = texts[row.pk]
            # A row that changed meanwhile keeps the vector of its own ingest.
            if tool_record.tool_text(tool_record.record_from_row(row)).digest == written.digest:
                row.embedding = by_id[row.pk]
                row.embedder, row.embedded_digest = embedder.identity, written.digest
                unchanged.append(row)
        Tool.objects.bulk_update(unchanged, ["embedding", "embedder", "embedded_digest"])
