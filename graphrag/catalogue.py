"""Reads of the catalogue."""

from collections.abc import Iterable

from django.db.models import QuerySet

from graphrag.models import Tool
from graphrag.records import ToolRecord, record_of

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


def tools_by_name(names: Iterable[str]) -> dict[str, ToolRecord]:
    """Records of the tools that exist, disabled ones included; unknown names are left out."""
    wanted = set(names)
    if not wanted:
        return {}
    return {row.name: record_of(row) for row in tools().filter(name__in=wanted)}


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
