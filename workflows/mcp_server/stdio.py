"""The MCP server over stdin and stdout, for agents on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from io import TextIOWrapper
from typing import Any, Final, cast

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from workflows.engine.values.bounded_json import BoundedJSONError

from .authentication import Caller
from .message_validation import checked_message
from .server import build_server

_INITIALIZE_FIRST: Final = (
    "Send initialize and notifications/initialized before other requests. From protocol version "
    f"{MODERN_PROTOCOL_VERSIONS[0]} on there is no handshake; each request names its version in "
    "_meta."
)


async def serve(caller: Caller) -> None:
    """Handle the calls of `caller` until stdin ends; write only the protocol to stdout."""
    server = build_server(lambda ctx: caller)
    server.middleware.append(_name_missing_handshake)
    lines = cast("anyio.AsyncFile[str]", _CheckedLines(_private_stdin()))
    async with stdio_server(stdin=lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def _name_missing_handshake(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> HandlerResult:
    """Say that `initialize` is missing, which the SDK reports as invalid parameters."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        has_handshake = ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if error.code == INVALID_PARAMS and has_handshake and ctx.session.client_params is None:
            raise MCPError(code=INVALID_PARAMS, message=_INITIALIZE_FIRST) from error
        raise


def _private_stdin() -> anyio.AsyncFile[str]:
    """Return a private copy of stdin; child processes get an empty stdin."""
    private = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    stream = os.fdopen(private, "rb", closefd=False)
    return anyio.wrap_file(TextIOWrapper(stream, encoding="utf-8", errors="replace"))


class _CheckedLines:
    """Lines of stdin within the JSON limits; a rejected line becomes invalid JSON for the SDK."""

    def __init__(self, file: anyio.AsyncFile[str]) -> None:
        self._file = file

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for line in self._file:
            try:
                yield checked_message(line.encode()).decode()
            except BoundedJSONError:
                yield "{"
