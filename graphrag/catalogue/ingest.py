"""Keeps the catalogue in step with the servers, and the embeddings with the catalogue."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from graphrag import text, versioned_cache
from graphrag.catalogue import tool_record
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.embedding import embedders
from graphrag.models import Tool

_BATCH = 200
_LOCK = 0x68706372
_WRITTEN = (
    *tool_record.CONTENT_FIELDS,
    "permission_set",
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
    """What an ingest did, as tool names. ``refused`` maps a name to the reason."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    embedded: int = 0
    embedding_error: str = ""


@dataclass(frozen=True, slots=True)
class _Embedded:
    """Vectors by digest of their text, of one embedder."""

    identity: str
    vectors: Mapping[str, Any]
    error: str = ""


def upsert_tools(
    specs: Sequence[ToolRecord], *, server: str | None = None, prune: bool = False
) -> IngestResult:
    """Store the tools; embed those whose text changed.

    With ``prune``, tools of ``server`` that are not among ``specs`` become disabled, and come
    back when a later call lists them again. A tool that a person disabled stays disabled, and a
    permission set that a person chose stays. An embedder that fails does not stop the ingest:
    the tools are stored without vectors and found by full text (see ``embedding_error``).

    :raises ValueError: when a spec is of another server than ``server``, or ``prune`` names none.
    """
    if prune and server is None:
        raise ValueError("prune needs the server whose tools may vanish")
    wanted, refused = _accepted(specs, server)
    embedded = _embed_changed(wanted)
    with transaction.atomic():
        _lock()
        return _store(wanted, refused, embedded, server if prune else None)


def _accepted(
    specs: Iterable[ToolRecord], server: str | None
) -> tuple[dict[str, ToolRecord], dict[str, str]]:
    wanted: dict[str, ToolRecord] = {}
    refused: dict[str, str] = {}
    for spec in specs:
        if server is not None and spec.server != server:
            raise ValueError(f"'{spec.name}' is of server '{spec.server}', not '{server}'")
        try:
            wanted[spec.name] = tool_record.cleaned(spec)
        except tool_record.ToolRefused as error:
            refused[spec.name] = str(error)
    return wanted, refused


def _lock() -> None:
    """One writer of the catalogue at a time, until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def _embed_changed(wanted: Mapping[str, ToolRecord]) -> _Embedded:
    try:
        embedder = embedders.current()
    except embedders.EmbedderError as error:
        return _Embedded("", {}, str(error))
    known = set(
        Tool.objects.filter(
            name__in=wanted, embedder=embedder.identity, embedding__isnull=False
        ).values_list("name", "embedded_digest")
    )
    texts = {}
    for name, record in wanted.items():
        written = tool_record.text_of(record)
        if (name, written.digest) not in known:
            texts[written.digest] = str(written)
    if not texts:
        return _Embedded(embedder.identity, {})
    try:
        rows = embedder.embed_documents(list(texts.values()))
    except embedders.EmbedderError as error:
        return _Embedded(embedder.identity, {}, str(error))
    return _Embedded(embedder.identity, dict(zip(texts, rows, strict=True)))


def _store(
    wanted: Mapping[str, ToolRecord],
    refused: Mapping[str, str],
    embedded: _Embedded,
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
    Tool.objects.bulk_update(updated, _WRITTEN, batch_size=_BATCH)
    disabled = _prune(pruned_server, {*wanted, *refused}) if pruned_server else ()
    if created or updated or disabled:
        _changed()
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


def _new_row(record: ToolRecord, embedded: _Embedded) -> Tool:
    row = Tool(name=record.name, enabled=record.enabled)
    _apply(row, record, embedded)
    return row


def _apply(row: Tool, record: ToolRecord, embedded: _Embedded) -> bool:
    """Bring a row up to date; True when anything changed."""
    new: dict[str, Any] = {name: getattr(record, name) for name in tool_record.CONTENT_FIELDS}
    written = tool_record.text_of(record)
    new.update(_search_fields(written))
    if not row.permission_set_by_hand:
        new["permission_set"] = record.permission_set
    new.update(_embedding_fields(row, written.digest, embedded))
    # A vector is compared by its digest: comparing arrays is neither cheap nor a truth value.
    changed = any(getattr(row, name) != value for name, value in new.items() if name != "embedding")
    for name, value in new.items():
        setattr(row, name, value)
    row.updated_at = timezone.now()
    return changed


def _search_fields(written: tool_record.ToolText) -> dict[str, str]:
    return {
        "search_name": text.indexed(written.headline),
        "search_summary": text.indexed(written.summary),
        "search_body": text.indexed(written.body),
        "search_arguments": text.indexed(written.arguments),
    }


def _embedding_fields(row: Tool, digest: str, embedded: _Embedded) -> dict[str, Any]:
    if digest in embedded.vectors:
        return {
            "embedding": embedded.vectors[digest],
            "embedder": embedded.identity,
            "embedded_digest": digest,
        }
    if row.embedded_digest == digest:
        return {}
    return {"embedding": None, "embedder": "", "embedded_digest": ""}


def _changed() -> None:
    versioned_cache.bump("catalogue")
    versioned_cache.bump("graph")


def _prune(server: str, listed: set[str]) -> tuple[str, ...]:
    gone = Tool.objects.filter(server=server, enabled=True).exclude(name__in=listed)
    names = tuple(gone.order_by("name").values_list("name", flat=True))
    gone.update(enabled=False, vanished=True, updated_at=timezone.now())
    return names


def disable_server(server: str) -> tuple[str, ...]:
    """Disable every tool of a server that is gone; they return with its next listing."""
    return upsert_tools([], server=server, prune=True).disabled


def set_tool_policy(
    *, name: str, enabled: bool | None = None, permission_set: str | None = None
) -> None:
    """A person's choice for one tool, kept by every later sync.

    :raises Tool.DoesNotExist: when there is no such tool.
    """
    with transaction.atomic():
        _lock()
        row = Tool.objects.select_for_update().get(name=name)
        if enabled is not None:
            row.enabled, row.vanished = enabled, False
        if permission_set is not None:
            row.permission_set, row.permission_set_by_hand = permission_set, True
        row.save(
            update_fields=[
                "enabled",
                "vanished",
                "permission_set",
                "permission_set_by_hand",
                "updated_at",
            ]
        )
        _changed()


def outdated() -> QuerySet[Tool]:
    """Tools without a vector of the embedder in force.

    :raises embedding.EmbedderError: when the setting names no embedder.
    """
    identity = embedders.current().identity
    return Tool.objects.filter(~Q(embedder=identity) | Q(embedding__isnull=True))


def reembed(*, progress: Callable[[int, int], None] | None = None, every: bool = False) -> int:
    """Give the tools vectors of the embedder in force, in batches; returns how many.

    Searches in between see only finished vectors of the new embedder. ``every`` renews those
    that are up to date as well. ``progress`` is called with (done, total) after each batch.

    :raises embedding.EmbedderError: when the embedder fails; finished batches stay.
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
    texts = {row.pk: tool_record.text_of(tool_record.record_of(row)) for row in rows}
    vectors = embedder.embed_documents([str(written) for written in texts.values()])
    by_key = dict(zip(texts, vectors, strict=True))
    with transaction.atomic():
        _lock()
        same = []
        for row in Tool.objects.select_for_update().filter(pk__in=texts).defer("search"):
            written = texts[row.pk]
            # A row changed meanwhile keeps what its own ingest gave it.
            if tool_record.text_of(tool_record.record_of(row)).digest == written.digest:
                row.embedding = by_key[row.pk]
                row.embedder, row.embedded_digest = embedder.identity, written.digest
                same.append(row)
        Tool.objects.bulk_update(same, ["embedding", "embedder", "embedded_digest"])
