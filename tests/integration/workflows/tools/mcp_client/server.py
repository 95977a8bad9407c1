"""A real MCP server for the tests: stdio by default, streamable HTTP with --port."""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ImageContent, TextContent, ToolAnnotations
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

server = MCPServer("try-out")
journal = Path(os.environ["JOURNAL"])


def note(word: str) -> None:
    """Tell the test, through a file, what has happened here."""
    with journal.open("a") as lines:
        lines.write(word + "\n")


@server.tool(
    title="Add two numbers",
    annotations=ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
)
def add(a: int, b: int) -> dict[str, int]:
    """Add a and b."""
    return {"sum": a + b}


@server.tool(annotations=ToolAnnotations(destructive_hint=True), structured_output=False)
def shout(text: str) -> list[TextContent]:
    """Give the text twice."""
    return [TextContent(type="text", text=text), TextContent(type="text", text=text.upper())]


@server.tool(structured_output=False)
def picture() -> list[TextContent | ImageContent]:
    """Give a text and an image."""
    return [
        TextContent(type="text", text="look"),
        ImageContent(type="image", data="aGk=", mime_type="image/png"),
    ]


@server.tool(structured_output=False)
async def slow(seconds: float, word: str = "slow") -> str:
    """Take a while, and note the beginning, the end, or that nobody waits any more."""
    note(f"{word} began")
    try:
        await anyio.sleep(seconds)
    except asyncio.CancelledError:
        note(f"{word} cancelled")
        raise
    note(f"{word} ended")
    return word


@server.tool(structured_output=False)
async def meet(word: str, others: list[str]) -> str:
    """Wait until the calls of the other words have begun as well."""
    note(f"{word} began")
    with anyio.fail_after(20):
        while not {f"{each} began" for each in others} <= set(journal.read_text().splitlines()):
            await anyio.sleep(0.02)
    return word


@server.tool(structured_output=False)
def fail(message: str) -> str:
    """Fail."""
    raise ToolError(message)


@server.tool(structured_output=False)
def big(length: int) -> str:
    """Give a long text."""
    return "x" * length


@server.tool()
def surroundings() -> dict[str, str]:
    """The environment that this process sees."""
    return dict(os.environ)


@server.tool()
def pid() -> dict[str, int]:
    """The id of this process."""
    return {"pid": os.getpid()}


@server.tool()
def headers(ctx: Context) -> dict[str, str]:
    """The headers of the request."""
    request = ctx.request_context.request
    return dict(request.headers) if request is not None else {}


@server.tool(structured_output=False)
async def change_list(ctx: Context) -> str:
    """Say that the tool list has changed, in the words of either protocol era."""
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "said"


class WithoutDiscovery:
    """The same server as one of the protocol's older era, which keeps sessions."""

    def __init__(self, app: Starlette) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if dict(scope.get("headers", ())).get(b"mcp-method") == b"server/discover":
            await Response(status_code=400)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class Garbled:
    """The same server with answers to calls that are not JSON-RPC."""

    def __init__(self, app: Starlette, media_type: str) -> None:
        self.app = app
        self.media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if dict(scope.get("headers", ())).get(b"mcp-method") == b"tools/call":
            text = "data: nonsense\n\n"
            await Response(text, media_type=self.media_type)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int)
    options.add_argument("--handshake", action="store_true", help="speak the older era only")
    options.add_argument("--stubborn", action="store_true", help="ignore end of input and SIGTERM")
    options.add_argument("--helper", action="store_true", help="start a process that stays")
    options.add_argument("--broken", action="store_true", help="complain and leave at once")
    options.add_argument("--garbled", help="answer calls with nonsense of this media type")
    options.add_argument("--mute", action="store_true", help="never answer")
    chosen = options.parse_args()
    note(f"pid {os.getpid()}")
    if chosen.broken:
        sys.exit("the configuration is wrong")
    if chosen.helper:
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        note(f"pid {helper.pid}")
    if chosen.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if chosen.mute:
        signal.pause()
    if chosen.port and chosen.handshake:
        uvicorn.run(WithoutDiscovery(server.streamable_http_app()), port=chosen.port)
    elif chosen.port and chosen.garbled:
        uvicorn.run(Garbled(server.streamable_http_app(), chosen.garbled), port=chosen.port)
    elif chosen.port:
        server.run("streamable-http", port=chosen.port)
    else:
        server.run()
    note(json.dumps({"end of input": True}))
    while chosen.stubborn:
        signal.pause()


if __name__ == "__main__":
    main()
