"""The MCP server: agents start, continue, replan and abort runs, and list pending decisions.

The tools call the same use cases as the REST API, with the rights of the caller's token.
`http_app` is mounted at `/mcp`; `stdio.serve` uses stdin and stdout.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from starlette.types import ASGIApp

from .authentication import Caller
from .middleware import CALLER, GatewayMiddleware
from .server import build_server
from .session_manager import ManagedServer

__all__ = ["http_app"]


def http_app() -> ASGIApp:
    """Return the ASGI application that is mounted at `/mcp`."""
    return GatewayMiddleware(ManagedServer(build_server(_caller_of)))


def _caller_of(ctx: ServerRequestContext[Any, Any]) -> Caller:
    caller = ctx.request.scope[CALLER] if ctx.request is not None else None
    if not isinstance(caller, Caller):
        raise TypeError("the request did not pass GatewayMiddleware")
    return caller
