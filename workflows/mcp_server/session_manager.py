"""Run the SDK's session manager under daphne, which has no ASGI lifespan."""

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

    A task group must be closed by the task that opened it, and the task of a request ends with the
    request. So the first request of an event loop starts a separate task that owns the manager's
    task group. If that task ends, the next request starts another.
    """

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._owner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[StreamableHTTPSessionManager] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = await asyncio.shield(self._manager())
        await manager.handle_request(scope, receive, send)

    def _manager(self) -> asyncio.Future[StreamableHTTPSessionManager]:
        # There is no await here, so two concurrent first requests start one manager.
        loop = asyncio.get_running_loop()
        owner, ready = self._owner, self._ready
        if owner is None or ready is None or owner.done() or owner.get_loop() is not loop:
            ready = self._ready = loop.create_future()
            # The task outlives the first request, so it must not use the context of that request.
            self._owner = loop.create_task(self._own(ready), context=contextvars.Context())
            self._owner.add_done_callback(_log_end)
        return ready

    async def _own(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        # Stateless: a call and the database hold everything a call needs, so that any process can
        # handle the next call. GatewayMiddleware has checked host and origin.
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
        """Stop the manager of this loop and cancel the calls in progress."""
        owner, self._owner = self._owner, None
        if owner is not None and owner.get_loop() is asyncio.get_running_loop():
            owner.cancel()
            await asyncio.gather(owner, return_exceptions=True)


def _log_end(owner: asyncio.Task[None]) -> None:
    if not owner.cancelled() and owner.exception() is not None:
        logger.error(
            "the MCP session manager ended; the next call starts another",
            exc_info=owner.exception(),
        )
