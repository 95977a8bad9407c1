"""The MCP server over stdin and stdout, for agents on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from io import TextIOWrapper
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server

from workflows.engine.bounded_json import BoundedJSONError

from .authentication import Caller
from .message_validation import checked_message
from .server import build_server


async def serve(caller: Caller) -> None:
    """Handle the calls of `caller` until stdin ends; write only the protocol to stdout."""
    server = build_server(lambda ctx: caller)
    lines = cast("anyio.AsyncFile[str]", _CheckedLines(_private_stdin()))
    async with stdio_server(stdin=lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


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
