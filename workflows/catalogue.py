"""Keeping the catalogue in step with the tool servers."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models.functions import Now

from . import background
from .engine.ports import TaskFailed
from .mcp.client import pool
from .models import McpServer
from .planning import sync_mcp_tools, sync_python_tools
from .runners import spec_of
from .tools import registry


@dataclass(frozen=True, slots=True)
class Synced:
    """One server's sync: how many tools it offers now, or why it could not be read."""

    server: str
    tools: int
    error: str = ""


def sync_all() -> list[Synced]:
    """Read every enabled server's tool list, and the Python tools, into the catalogue."""
    sync_python_tools()
    python = Synced("python", len(registry.all_tools()))
    return [python, *(sync_server(row) for row in McpServer.objects.filter(enabled=True))]


def sync_server(row: McpServer) -> Synced:
    """Read one server's tool list; what went wrong is kept on its row."""
    try:
        tools = background.run(pool().list_tools(spec_of(row)), timeout=90)
        sync_mcp_tools(row.name, tools)
    except (TaskFailed, ValueError, TimeoutError) as error:
        McpServer.objects.filter(pk=row.pk).update(sync_error=str(error)[:2000])
        return Synced(row.name, 0, str(error))
    McpServer.objects.filter(pk=row.pk).update(sync_error="", synced_at=Now())
    return Synced(row.name, len(tools))
