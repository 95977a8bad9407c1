"""Keeping the SDK's session manager alive in a process without an ASGI lifespan, as daphne is."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)


class ManagedServer:
    """An MCP server over streamable HTTP.

    The manager's task group belongs to one task of its own, which the first request of an event
    loop starts: a task group has to end in the task that began it, and a request's task ends with
    the request.  A manager that died is replaced by the next request.
    """

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[StreamableHTTPSessionManager] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = await asyncio.shield(self._manager())
        await manager.handle_request(scope, receive, send)

    def _manager(self) -> asyncio.Future[StreamableHTTPSessionManager]:
        # Nothing is awaited here, so two first requests cannot both begin.
        loop = asyncio.get_running_loop()
        owner, ready = self._owner, self._ready
        if owner is None or ready is None or owner.done() or owner.get_loop() is not loop:
            ready = self._ready = loop.create_future()
            # In a context of its own: it outlives the request that happens to come first.
            self._owner = loop.create_task(self._own(ready), context=contextvars.Context())
            self._owner.add_done_callback(_tell_end)
        return ready

    async def _own(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        # Stateless: what a call needs is in the call and in the database, so that any process can
        # answer the next one.  Hosts and origins were checked at the door.
        manager = StreamableHTTPSessionManager(
            app=self._server,
            stateless=True,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        try:
            async with manager.run():
                ready.set_result(manager)
                await asyncio.Event().wait()
        finally:
            if not ready.done():
                ready.cancel()

    async def aclose(self) -> None:
        """End the manager of this loop, and with it what it still answers."""
        owner, self._owner = self._owner, None
        if owner is not None and owner.get_loop() is asyncio.get_running_loop():
            owner.cancel()
            await asyncio.gather(owner, return_exceptions=True)


def _tell_end(owner: asyncio.Task[None]) -> None:
    if not owner.cancelled() and owner.exception() is not None:
        logger.error(
            "the MCP session manager ended; the next call starts another",
            exc_info=owner.exception(),
        )
