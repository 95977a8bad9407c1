"""Synchronize the catalogue with tool servers and capabilities.

A server notifies open sessions that its tools have changed
(`notifications/tools/list_changed`). Every worker handles notifications of its sessions; the
sweeper keeps a session with each server (`Follower`), so that changes are noticed between tasks.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connections
from django.db.models.functions import Now

from workflows import conf
from workflows.common import background_loop
from workflows.common.stored_text import storable
from workflows.engine.protocol.ports import TaskFailed
from workflows.executions.layer_runner import spec_of
from workflows.models import Capability, McpServer
from workflows.permissions.capabilities import make_capability
from workflows.planning.planner import (
    retire_mcp_servers,
    sync_capabilities,
    sync_mcp_tools,
    sync_python_tools,
)

from . import registry
from .mcp_client import close_pool, pool

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from workflows.models import Execution

logger = logging.getLogger(__name__)

#: Servers that are read concurrently, so that a slow one does not delay the others.
_CONCURRENT_READS = 4
_MAX_ERROR = 2000


@dataclass(frozen=True, slots=True)
class SyncResult:
    """Result for one server: the number of its tools, or the error."""

    server: str
    tools: int
    error: str = ""


def sync_all(*, known_servers: bool = True) -> list[SyncResult]:
    """Synchronize Python tools, capabilities and the list of every enabled server.

    Tools of a server that was disabled or removed are marked missing.  Without `known_servers`,
    only servers whose list was never stored are read; the sweeper reads all lists when it starts.
    """
    sync_python_tools()
    sync_capabilities()
    python = SyncResult("python", len(registry.all_tools()))
    return [python, *sync_servers(known=known_servers)]


def sync_servers(*, known: bool = True) -> list[SyncResult]:
    """Read the tool list of every enabled server; mark the tools of other servers as missing.

    Without `known`, servers whose list is stored are not read.
    """
    retire_servers()
    rows = McpServer.objects.filter(enabled=True)
    return [sync_server(row) for row in (rows if known else rows.filter(synced_at=None))]


def retire_servers() -> tuple[str, ...]:
    """Mark the tools of servers that were disabled or removed as missing; return their names."""
    enabled = McpServer.objects.filter(enabled=True)
    return retire_mcp_servers(enabled.values_list("name", flat=True))


def sync_server(row: McpServer) -> SyncResult:
    """Read one server's tool list; store an error on its row."""
    try:
        tools = background_loop.run(pool().list_tools(spec_of(row)), timeout=90)
        sync_mcp_tools(row.name, tools)
    except (TaskFailed, ValueError, TimeoutError) as error:
        message = storable(str(error), _MAX_ERROR)
        McpServer.objects.filter(pk=row.pk).update(sync_error=message)
        return SyncResult(row.name, 0, message)
    McpServer.objects.filter(pk=row.pk).update(sync_error="", synced_at=Now())
    return SyncResult(row.name, len(tools))


def keep_capability(*, actor: User, execution: Execution, **wanted: Any) -> Capability:
    """Create a capability (see `make_capability`) and add it to the catalogue."""
    capability = make_capability(actor=actor, execution=execution, **wanted)
    sync_capabilities()
    return capability


# --- notifications of changed tool lists ----------------------------------------------------------


class ListChangeHandler:
    """Reads a server's list after a change notification, one read at a time per server.

    Any number of notifications during a read lead to one more read afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading: set[str] = set()
        self._again: set[str] = set()

    def on_change(self, server: str) -> None:
        """Handle a notification of `server`; its session calls this in a worker thread."""
        with self._lock:
            if server in self._reading:
                self._again.add(server)
                return
            self._reading.add(server)
        try:
            while True:
                self._read(server)
                with self._lock:
                    if server not in self._again:
                        self._reading.discard(server)
                        return
                    self._again.discard(server)
        except BaseException:
            with self._lock:
                self._reading.discard(server)
            raise
        finally:
            connections.close_all()

    def _read(self, server: str) -> None:
        row = McpServer.objects.filter(name=server, enabled=True).first()
        if row is None:
            return
        result = sync_server(row)
        logger.info(
            "mcp server %s notified of a change: %s",
            server,
            result.error or f"{result.tools} tools",
        )


def listen() -> None:
    """Handle change notifications of this process's sessions from now on."""
    pool().on_list_changed(ListChangeHandler().on_change)


class Follower:
    """A thread that keeps a session with every enabled server and reads all lists periodically.

    The periodic read is for servers that send no notifications or were unavailable, and for servers
    and capabilities that were enabled, disabled or created since.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="catalogue", daemon=True)

    def start(self) -> None:
        """Start the thread; the first read opens the sessions."""
        listen()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and close the sessions, which also ends a pending read."""
        self._stop.set()
        close_pool()
        self._thread.join(timeout=10)

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self._read_all()
            except Exception:
                logger.exception("the catalogue could not be synchronized; retrying")
            finally:
                connections.close_all()
            self._stop.wait(conf.catalogue_seconds())

    def _read_all(self) -> None:
        sync_capabilities()
        retire_servers()
        rows = McpServer.objects.filter(enabled=True)
        with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="catalogue") as threads:
            list(threads.map(_read_in_a_thread, rows))


def _read_in_a_thread(row: McpServer) -> None:
    try:
        sync_server(row)
    finally:
        connections.close_all()
