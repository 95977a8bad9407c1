"""Pooled sessions with MCP servers, on the background loop.

There is one per server and process, and for stdio servers one per run, so that no run finds what
another one has left in the memory of a server. A server has a second one for calls that answer its
questions (elicitation).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from mcp.client import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    CallToolResult,
    Tool,
)

from workflows.common import background_loop
from workflows.engine.protocol.ports import TaskFailed

from .elicitation import Elicitations, OnElicit, call_to_the_end
from .results import NOT_JSON_RPC, failure_of, is_unreadable, tool_of, value_of
from .server_spec import McpServerSpec, McpTool
from .session import Changed, McpSession, SessionFailed
from .stream_wrappers import Attempt, current_attempt
from .transports import CONNECTION_LOST, HTTP_STATUS

T = TypeVar("T")
ShouldStop = Callable[[], bool]

#: Seconds between calls of `should_stop` during a call.
_POLL_SECONDS = 0.1
#: Seconds that a cancelled call may take to notify the server.
_CANCEL_SECONDS = 6.0
_MAX_PAGES = 100
#: Processes of stdio servers that serve runs at the same time.
_MAX_RUN_SESSIONS = 64
#: Codes of errors after which the server may have executed a call.
UNKNOWN_OUTCOME = frozenset({CONNECTION_LOST, HTTP_STATUS, CONNECTION_CLOSED, REQUEST_TIMEOUT})

logger = logging.getLogger(__name__)


class McpPool:
    """Calls tools of MCP servers.

    The first call starts a session, concurrent calls share it, and the pool replaces it when the
    server has died or its spec has changed. Every coroutine may be awaited on any loop; the work
    runs on the background loop. Failures are TaskFailed.
    """

    def __init__(self) -> None:
        # By the server's name, whether the session answers elicitations, and the run.
        self._sessions: dict[tuple[str, bool, str], McpSession] = {}
        self._elicitations = Elicitations()
        self._retired: set[McpSession] = set()
        self._changed: Changed | None = None
        self._closed = False

    def on_list_changed(self, hook: Changed | None) -> None:
        """Call `hook(server name)` in a worker thread when a server's tools change.

        The hook must not block for long.
        """
        self._changed = hook

    def _on_changed(self, server: str) -> None:
        if self._changed is not None:
            self._changed(server)

    async def call(
        self,
        spec: McpServerSpec,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float = 60.0,
        should_stop: ShouldStop | None = None,
    ) -> Any:
        """Call `tool` (its name on the server) and return its value as bounded JSON.

        The value is the structured content if there is any, otherwise the text. If the session is
        dead before the call was sent, the call is sent once more on a new session. A later failure,
        a timeout and `should_stop` raise TaskFailed, after a cancellation was sent to the server.
        """

        async def request(client: Client) -> Any:
            result = await client.call_tool(tool, dict(arguments))
            return value_of(f"{spec.name}.{tool}", result)

        return await self._perform(spec, f"{spec.name}.{tool}", request, timeout, should_stop)

    async def list_tools(self, spec: McpServerSpec, timeout: float = 60.0) -> tuple[McpTool, ...]:
        """Return all tools of the server, from all pages, in its order."""
        return await self._perform(spec, spec.name, _all_tools, timeout, None)

    async def listed_tools(self, spec: McpServerSpec) -> list[Tool]:
        """Return all tools of the server as it lists them."""
        return await self._perform(spec, spec.name, _listed_tools, 60.0, None)

    async def call_unchanged(
        self,
        spec: McpServerSpec,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float,
        on_progress: ProgressFnT | None = None,
        on_elicit: OnElicit | None = None,
    ) -> CallToolResult:
        """Call `tool` and return the server's result as it is, errors of the tool included.

        `on_elicit` answers the server's questions during the call, on the background loop; the spec
        has to declare it (`elicits`).

        Raises:
            NotSent: the call has not reached the server.
            MCPError: the server refused the request.
            TaskFailed: whether the server executed the call is unknown.
        """

        async def request(client: Client) -> CallToolResult:
            with self._elicitations.during_call((spec.name, spec.run), on_elicit):
                return await call_to_the_end(client, tool, arguments, on_progress, on_elicit)

        try:
            return await self._perform(spec, f"{spec.name}.{tool}", request, timeout, None)
        except TaskFailed as failed:
            cause = failed.__cause__
            if isinstance(cause, NotSent):
                raise cause from failed
            if isinstance(cause, MCPError) and cause.code not in UNKNOWN_OUTCOME:
                raise cause from failed
            raise

    async def end_run(self, run: str) -> None:
        """End the processes that serve `run`, after their current calls."""
        await background_loop.await_on_loop(self._end_run(run))

    async def _end_run(self, run: str) -> None:
        for key in [key for key in self._sessions if key[2] == run]:
            self._retire(key)

    async def close(self) -> None:
        """Close every session and stop its server; the pool accepts no more calls."""
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
        request: Callable[[Client], Coroutine[Any, Any, T]],
        timeout: float,
        should_stop: ShouldStop | None,
    ) -> T:
        return await background_loop.await_on_loop(
            _with_timeout(self._attempts(spec, name, request), name, timeout, should_stop)
        )

    async def _attempts(
        self,
        spec: McpServerSpec,
        name: str,
        request: Callable[[Client], Coroutine[Any, Any, T]],
    ) -> T:
        try:
            return await self._attempt(spec, name, request)
        except NotSent as first:
            logger.info("mcp server %s: %s; starting it again", spec.name, first)
        try:
            return await self._attempt(spec, name, request)
        except NotSent as second:
            raise TaskFailed(f"{name}: {second}") from second

    async def _attempt(
        self,
        spec: McpServerSpec,
        name: str,
        request: Callable[[Client], Coroutine[Any, Any, T]],
    ) -> T:
        attempt = Attempt()
        current_attempt.set(attempt)
        session, fresh = self._session(spec)
        with session:
            try:
                return await request(await session.client())
            except SessionFailed as error:
                if fresh:
                    raise TaskFailed(f"{name}: {error}") from NotSent(str(error))
                raise NotSent(str(error)) from error
            except MCPError as error:
                if attempt.sent and (session.unreadable or is_unreadable(error)):
                    # Not from the error: whether the server executed the call is unknown.
                    message = f"{name}: MCP server {spec.name} {NOT_JSON_RPC}"
                    raise TaskFailed(message) from None
                if attempt.sent:
                    raise failure_of(name, error) from error
                session.retire()
                raise NotSent(error.message) from error
            except TaskFailed:
                raise
            except Exception as error:
                raise failure_of(name, error) from error

    def _session(self, spec: McpServerSpec) -> tuple[McpSession, bool]:
        """Return the session for `spec`, and whether it is new."""
        if self._closed:
            raise TaskFailed(f"{spec.name}: this process is shutting down")
        key = (spec.name, spec.elicits, spec.run)
        session = self._sessions.get(key)
        follows = self._changed is not None
        if session is not None and session.fits(spec, follows=follows):
            return session, False
        if session is not None:
            self._retire(key)
        if spec.run:
            self._make_room(spec)
        session = self._sessions[key] = McpSession(
            spec,
            self._on_changed if follows else None,
            self._elicitations.callback((spec.name, spec.run)) if spec.elicits else None,
        )
        return session, True

    def _retire(self, key: tuple[str, bool, str]) -> None:
        session = self._sessions.pop(key)
        session.retire()
        self._retired = {old for old in (*self._retired, session) if not old.gone}

    def _make_room(self, spec: McpServerSpec) -> None:
        """Forget sessions that have ended, and end the oldest idle one when there are too many."""
        runs = {key: session for key, session in self._sessions.items() if key[2]}
        for key in [key for key, session in runs.items() if not session.usable]:
            self._retire(key)
            del runs[key]
        if len(runs) < _MAX_RUN_SESSIONS:
            return
        oldest = next((key for key, session in runs.items() if session.idle), None)
        if oldest is None:
            raise TaskFailed(f"{spec.name}: too many MCP servers are running; try again later")
        self._retire(oldest)


class NotSent(Exception):
    """The call has not been sent to the server."""


async def _all_tools(client: Client) -> tuple[McpTool, ...]:
    return tuple(tool_of(tool) for tool in await _listed_tools(client))


async def _listed_tools(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise TaskFailed(f"the tool list has more than {_MAX_PAGES} pages", retryable=False)


async def _with_timeout(
    work: Coroutine[Any, Any, T], name: str, timeout: float, should_stop: ShouldStop | None
) -> T:
    """Return the result of `work`; cancel it after `timeout` seconds or on `should_stop`."""
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
                {task}, timeout=left if should_stop is None else min(left, _POLL_SECONDS)
            )
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
