"""Keeping the catalogue in step with the tool servers and the capabilities.

A server tells over an open session that its tools have changed
(`notifications/tools/list_changed`).  Every worker listens on the sessions it has; the sweeper's
process holds one with each server by means of `Follower`, so that a change is heard although no
task runs.
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
from workflows.engine.ports import TaskFailed
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

#: Servers that are read at once, so that one that hangs holds nobody up.
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Synced:
    """One server's sync: how many tools it offers now, or why it could not be read."""

    server: str
    tools: int
    error: str = ""


def sync_all() -> list[Synced]:
    """Bring the catalogue in step: Python tools, capabilities, every enabled server's list.

    Tools of a server that was disabled or removed are marked missing.
    """
    sync_python_tools()
    sync_capabilities()
    python = Synced("python", len(registry.all_tools()))
    return [python, *sync_servers()]


def sync_servers() -> list[Synced]:
    """Read every enabled server's tool list; tools of the others go missing."""
    retire_servers()
    return [sync_server(row) for row in McpServer.objects.filter(enabled=True)]


def retire_servers() -> tuple[str, ...]:
    """Mark the tools of servers that were disabled or removed as missing; returns their names."""
    enabled = McpServer.objects.filter(enabled=True)
    return retire_mcp_servers(enabled.values_list("name", flat=True))


def sync_server(row: McpServer) -> Synced:
    """Read one server's tool list; what went wrong is kept on its row."""
    try:
        tools = background_loop.run(pool().list_tools(spec_of(row)), timeout=90)
        sync_mcp_tools(row.name, tools)
    except (TaskFailed, ValueError, TimeoutError) as error:
        McpServer.objects.filter(pk=row.pk).update(sync_error=str(error)[:2000])
        return Synced(row.name, 0, str(error))
    McpServer.objects.filter(pk=row.pk).update(sync_error="", synced_at=Now())
    return Synced(row.name, len(tools))


def keep_capability(*, actor: User, execution: Execution, **wanted: Any) -> Capability:
    """Make a capability (see `make_capability`) and offer it to plans at once."""
    made = make_capability(actor=actor, execution=execution, **wanted)
    sync_capabilities()
    return made


# --- servers that tell of changes -----------------------------------------------------------------


class Changes:
    """Reads a server's list again when it tells of a change, one reading at a time per server.

    What is told during a reading is read once more afterwards, however often it was told.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading: set[str] = set()
        self._again: set[str] = set()

    def heard(self, server: str) -> None:
        """Called in a thread of its own by the session with `server`."""
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
        synced = sync_server(row)
        logger.info(
            "mcp server %s told of a change: %s", server, synced.error or f"{synced.tools} tools"
        )


def listen() -> None:
    """From now on, what servers tell over this process's sessions reaches the catalogue."""
    pool().on_list_changed(Changes().heard)


class Follower:
    """A thread that holds a session with every enabled server and reads all lists now and then.

    The reading is for servers that tell nothing, for those that were away, and for what was
    enabled, disabled or made since.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="catalogue", daemon=True)

    def start(self) -> None:
        """Begin; the first reading opens the sessions."""
        listen()
        self._thread.start()

    def stop(self) -> None:
        """End, and the sessions with it, which also ends a reading that waits for its server."""
        self._stop.set()
        close_pool()
        self._thread.join(timeout=10)

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self._read_all()
            except Exception:
                logger.exception("the catalogue could not be brought in step; trying again")
            finally:
                connections.close_all()
            self._stop.wait(conf.catalogue_seconds())

    def _read_all(self) -> None:
        sync_capabilities()
        retire_servers()
        rows = McpServer.objects.filter(enabled=True)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="catalogue") as threads:
            list(threads.map(_read_in_a_thread, rows))


def _read_in_a_thread(row: McpServer) -> None:
    try:
        sync_server(row)
    finally:
        connections.close_all()
