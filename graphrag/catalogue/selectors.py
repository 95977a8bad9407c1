"""Reads of the catalogue."""

from collections.abc import Iterable

from django.db.models import QuerySet

from graphrag.catalogue.tool_record import ToolRecord, record_of
from graphrag.models import Tool
from graphrag.versioned_cache import Kept, Seen

_MOST_KEPT = 2_000
_HEAVY = (
    "embedding",
    "search",
    "search_name",
    "search_summary",
    "search_body",
    "search_arguments",
)


def tools() -> QuerySet[Tool]:
    """All rows by name, without the heavy columns."""
    return Tool.objects.defer(*_HEAVY).order_by("name")


class Shelf:
    """Records that were read since the catalogue last changed, at most 2,000 of them."""

    def __init__(self) -> None:
        self._by_key: dict[int, ToolRecord] = {}
        self._keys: dict[str, int] = {}

    def by_key(self, keys: Iterable[int]) -> dict[int, ToolRecord]:
        """Tool id -> record; ids of no tool are left out."""
        wanted = list(keys)
        missing = [key for key in wanted if key not in self._by_key]
        found = {key: record for key in wanted if (record := self._by_key.get(key))}
        if missing:
            found |= self._read(tools().filter(pk__in=missing))
        return found

    def by_name(self, names: Iterable[str]) -> dict[str, ToolRecord]:
        """As ``tools_by_name``."""
        wanted = set(names)
        found = {}
        for name in wanted:
            record = self._by_key.get(self._keys.get(name, -1))
            if record is not None:
                found[name] = record
        if len(found) < len(wanted):
            read = self._read(tools().filter(name__in=wanted - found.keys()))
            found |= {record.name: record for record in read.values()}
        return found

    def _read(self, rows: QuerySet[Tool]) -> dict[int, ToolRecord]:
        read = {row.pk: record_of(row) for row in rows}
        if len(self._by_key) + len(read) > _MOST_KEPT:
            self._by_key, self._keys = {}, {}
        for key, record in read.items():
            self._by_key[key] = record
            self._keys[record.name] = key
        return read


def tools_by_name(names: Iterable[str]) -> dict[str, ToolRecord]:
    """Records of the tools that exist, disabled ones included; unknown names are left out."""
    return Shelf().by_name(names)


_shelf = Kept(Shelf)


def shelf_at(seen: Seen | None) -> Shelf:
    """What is kept for a revision of the catalogue just looked at."""
    return _shelf.at(seen)


def all_enabled() -> list[ToolRecord]:
    """Every tool a plan may use, by name."""
    return [record_of(row) for row in tools().filter(enabled=True)]


def servers() -> dict[str, int]:
    """Server name -> number of its enabled tools."""
    counts: dict[str, int] = {}
    for server in Tool.objects.filter(enabled=True).values_list("server", flat=True):
        counts[server] = counts.get(server, 0) + 1
    return dict(sorted(counts.items()))


def servers_of(kind: str) -> set[str]:
    """Servers with enabled tools of this kind."""
    rows = Tool.objects.filter(enabled=True, kind=kind).order_by()
    return set(rows.values_list("server", flat=True).distinct())
