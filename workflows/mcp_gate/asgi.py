"""The ASGI application of the gates."""

from __future__ import annotations

from starlette.types import ASGIApp

from workflows.mcp_server.middleware import GatewayMiddleware
from workflows.mcp_server.session_manager import ManagedServer

from .callers import GateMiddleware, caller_of
from .server import build_server


def http_app() -> ASGIApp:
    """Return the ASGI application that is mounted at `/mcp/gate/`."""
    return GatewayMiddleware(GateMiddleware(ManagedServer(build_server(caller_of))))
