"""Holdpoint as an MCP server: agents start runs, go on, replan, abort, and see who has to decide.

Thin skins over the same use cases as REST, with the rights of the token that calls.  `http_app` is
mounted at `/mcp`, `stdio.serve` speaks over a process's own pipes.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from starlette.types import ASGIApp

from .callers import Caller
from .middleware import CALLER, GatewayMiddleware
from .server import build_server
from .session_manager import ManagedServer

__all__ = ["http_app"]


def http_app() -> ASGIApp:
    """The ASGI application behind `/mcp`."""
    return GatewayMiddleware(ManagedServer(build_server(_caller_of)))


def _caller_of(ctx: ServerRequestContext[Any, Any]) -> Caller:
    caller = ctx.request.scope[CALLER] if ctx.request is not None else None
    if not isinstance(caller, Caller):
        raise TypeError("a request that did not come through the door")
    return caller
