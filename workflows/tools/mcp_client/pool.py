"""One pooled session per MCP server and process, on the background loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from mcp.client import Client
from mcp.shared.exceptions import MCPError

from workflows.common import background_loop
from workflows.engine.ports import TaskFailed

from .results import failure_of, tool_of, value_of
from .session import Changed, McpSession, SessionFailed
from .spec import McpServerSpec, McpTool
from .stream_wrappers import Attempt, current_attempt

T = TypeVar("T")
ShouldStop = Callable[[], bool]

#: How often a running call looks at `should_stop`, in seconds.
_LOOK_EVERY = 0.1
#: How long a call that was given up may take to tell the server so.
_CANCEL_SECONDS = 6.0
_MAX_PAGES = 100

logger = logging.getLogger(__name__)


class McpPool:
    """Calls tools of MCP servers.

    Sessions are started by the first call, shared by calls side by side, replaced when the server
    has died or its spec has changed.  Every coroutine may be awaited on any loop; the work happens
    on the background loop.  Failures are TaskFailed.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, McpSession] = {}
        self._retired: set[McpSession] = set()
        self._changed: Changed | None = None
        self._closed = False

    def on_list_changed(self, hook: Changed | None) -> None:
        """Have `hook(server name)` called, in a worker thread, when a server's tools change.

        Sessions that start afterwards listen.  The hook must not block for long.
        """
        self._changed = hook

    async def call(
        self,
        spec: McpServerSpec,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float = 60.0,
        should_stop: ShouldStop | None = None,
    ) -> Any:
        """Call `tool` (its name on the server) and return its value as bounded JSON.

        Structured content if the server gives any, else its text.  A call that finds the session
        dead before anything was sent is sent once more on a fresh one; what dies later, takes more
        than `timeout` seconds or is stopped by `should_stop` raises TaskFailed, after telling the
        server that nobody waits any more.
        """

        async def ask(client: Client) -> Any:
            result = await client.call_tool(tool, dict(arguments))
            return value_of(f"{spec.name}.{tool}", result)

        return await self._perform(spec, f"{spec.name}.{tool}", ask, timeout, should_stop)

    async def list_tools(self, spec: McpServerSpec, timeout: float = 60.0) -> tuple[McpTool, ...]:
        """Every tool that the server offers, all pages, in its order."""
        return await self._perform(spec, spec.name, _all_tools, timeout, None)

    async def close(self) -> None:
        """End every session and its server; the pool takes no more calls."""
        await background_loop.await_on_loop(self._close())

    async def _close(self) -> None:
        self._closed = True
        sessions = {*self._sessions.values(), *self._retired}
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in sessions))

    async def _perform(
        self,
        spec: McpServerSpec,
        name: str,
        ask: Callable[[Client], Coroutine[Any, Any, T]],
        timeout: float,
        should_stop: ShouldStop | None,
    ) -> T:
        return await background_loop.await_on_loop(
            _watched(self._attempts(spec, name, ask), name, timeout, should_stop)
        )

    async def _attempts(
        self,
        spec: McpServerSpec,
        name: str,
        ask: Callable[[Client], Coroutine[Any, Any, T]],
    ) -> T:
        try:
            return await self._attempt(spec, name, ask)
        except _NotSent as first:
            logger.info("mcp server %s: %s; starting it again", spec.name, first)
        try:
            return await self._attempt(spec, name, ask)
        except _NotSent as second:
            raise TaskFailed(f"{name}: {second}") from second

    async def _attempt(
        self,
        spec: McpServerSpec,
        name: str,
        ask: Callable[[Client], Coroutine[Any, Any, T]],
    ) -> T:
        attempt = Attempt()
        current_attempt.set(attempt)
        session, fresh = self._session(spec)
        with session:
            try:
                return await ask(await session.client())
            except SessionFailed as error:
                if fresh:
                    raise TaskFailed(f"{name}: {error}") from error
                raise _NotSent(str(error)) from error
            except MCPError as error:
                if attempt.sent:
                    raise failure_of(name, error) from error
                session.retire()
                raise _NotSent(error.message) from error
            except TaskFailed:
                raise
            except Exception as error:
                raise failure_of(name, error) from error

    def _session(self, spec: McpServerSpec) -> tuple[McpSession, bool]:
        """The session for `spec`, and whether it was started just now."""
        if self._closed:
            raise TaskFailed(f"{spec.name}: this process is shutting down")
        session = self._sessions.get(spec.name)
        if session is not None and session.usable and session.spec == spec:
            return session, False
        if session is not None:
            session.retire()
            self._retired = {old for old in (*self._retired, session) if not old.gone}
        session = self._sessions[spec.name] = McpSession(spec, self._changed)
        return session, True


class _NotSent(Exception):
    """The server has not seen the call."""


async def _all_tools(client: Client) -> tuple[McpTool, ...]:
    found: list[McpTool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found.extend(tool_of(tool) for tool in page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)
    raise TaskFailed(f"the tool list has more than {_MAX_PAGES} pages", retryable=False)


async def _watched(
    work: Coroutine[Any, Any, T], name: str, timeout: float, should_stop: ShouldStop | None
) -> T:
    """The result of `work`, which is cancelled when time is up or somebody wants it to stop."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    task = loop.create_task(work)
    try:
        while not task.done():
            left = end - loop.time()
            if left <= 0:
                raise TaskFailed(f"{name}: no answer within {timeout:g} s")
            if should_stop is not None and should_stop():
                raise TaskFailed(f"{name}: stopped, the execution is ending", retryable=False)
            await asyncio.wait(
                {task}, timeout=left if should_stop is None else min(left, _LOOK_EVERY)
            )
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
