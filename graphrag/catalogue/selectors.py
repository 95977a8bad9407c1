"""Queries of the catalogue."""

from collections.abc import Iterable

from django.db.models import QuerySet

from graphrag.catalogue.tool_record import ToolRecord, record_from_row
from graphrag.models import Tool
from graphrag.versioned_cache import CacheVersion, VersionedCache

_MAX_CACHED = 2_000
_DEFERRED_COLUMNS = (
    "embedding",
    "search",
    "search_name",
    "search_summary",
    "search_body",
    "search_arguments",
)


def tools() -> QuerySet[Tool]:
    """Return all rows ordered by name, without the large columns."""
    return Tool.objects.defer(*_DEFERRED_COLUMNS).order_by("name")


class ToolCache:
    """Tool records that this process has read, by id and by name.

    Bound: 2,000 records, then it starts empty again. Invalidation: ``VersionedCache`` replaces it
    when the catalogue changes.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, ToolRecord] = {}
        self._ids: dict[str, int] = {}

    def by_id(self, keys: Iterable[int]) -> dict[int, ToolRecord]:
        """Return tool id -> record; unknown ids are left out."""
        wanted = list(keys)
        missing = [key for key in wanted if key not in self._by_id]
        records = {key: record for key in wanted if (record := self._by_id.get(key))}
        if missing:
            records |= self._read(tools().filter(pk__in=missing))
        return records

    def by_name(self, names: Iterable[str]) -> dict[str, ToolRecord]:
        """Return tool name -> record, disabled tools included; unknown names are left out."""
        wanted = {name for name in names if "\0" not in name}  # PostgreSQL refuses NUL
        records = {}
        for name in wanted:
            record = self._by_id.get(self._ids.get(name, -1))
            if record is not None:
                records[name] = record
        if len(records) < len(wanted):
            read = self._read(tools().filter(name__in=wanted - records.keys()))
            records |= {record.name: record for record in read.values()}
        return records

    def _read(self, rows: QuerySet[Tool]) -> dict[int, ToolRecord]:
        read = {row.pk: record_from_row(row) for row in rows}
        if len(self._by_id) + len(read) > _MAX_CACHED:
            self._by_id, self._ids = {}, {}
        for key, record in read.items():
            self._by_id[key] = record
            self._ids[record.name] = key
        return read


_tool_cache = VersionedCache(ToolCache)


def tool_cache_at(version: CacheVersion | None) -> ToolCache:
    """Return the cache for a version of the catalogue just read."""
    return _tool_cache.at(version)


def servers() -> dict[str, int]:
    """Return server name -> number of its enabled tools."""
    counts: dict[str, int] = {}
    for server in Tool.objects.filter(enabled=True).values_list("server", flat=True):
        counts[server] = counts.get(server, 0) + 1
    return dict(sorted(counts.items()))


def tool_names_of(server: str) -> list[str]:
    """Return the names of a server's tools that it still lists, sorted."""
    rows = Tool.objects.filter(server=server, vanished=False).order_by("name")
    return list(rows.values_list("name", flat=True))


def servers_of(kind: str) -> set[str]:
    """Return the servers that have enabled tools of this kind."""
    rows = Tool.objects.filter(enabled=True, kind=kind).order_by()
    return set(rows.values_list("server", flat=True).distinct())
