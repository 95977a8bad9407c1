"""An MCP server behind the gate; it notes each call in a file."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations

server = MCPServer("files")
journal = Path(os.environ["JOURNAL"])


def note(**call: Any) -> None:
    with journal.open("a") as lines:
        lines.write(json.dumps(call) + "\n")


@server.tool(title="Look", annotations=ToolAnnotations(read_only_hint=True))
def look(path: str) -> dict[str, str]:
    """Read a file."""
    note(tool="look", path=path)
    return {"path": path}


@server.tool(title="Write a file", annotations=ToolAnnotations(destructive_hint=True))
def write(path: str, text: str) -> CallToolResult:
    """Write a file."""
    note(tool="write", path=path, text=text)
    return CallToolResult(
        content=[
            TextContent(type="text", text=f"wrote {path}"),
            ImageContent(type="image", data="aGk=", mime_type="image/png"),
        ],
        structured_content={"path": path, "bytes": len(text)},
        _meta={"example/revision": 7},
    )


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def export(size: int) -> dict[str, str]:
    """Return a text of this size."""
    note(tool="export")
    return {"text": "x" * size}


@server.tool(structured_output=False)
def fail(message: str) -> str:
    """Fail."""
    note(tool="fail")
    raise ToolError(message)


@server.tool(structured_output=False)
def refuse(message: str = "not today") -> str:
    """Refuse the request by an error of the protocol."""
    note(tool="refuse")
    raise MCPError(code=-32055, message=message, data={"until": "tomorrow"})


@server.tool(structured_output=False, annotations=ToolAnnotations(read_only_hint=True))
async def slow(ctx: Context, seconds: float) -> str:
    """Take a while and report progress."""
    note(tool="slow")
    try:
        await ctx.report_progress(1, 2, "half")
        await anyio.sleep(seconds)
    except BaseException:
        note(tool="slow", cancelled=True)
        raise
    return "done"


@server.tool(structured_output=False)
async def slow_write(seconds: float) -> str:
    """Take a while to write."""
    note(tool="slow_write")
    await anyio.sleep(seconds)
    return "written"


@server.tool(structured_output=False)
def leave() -> str:
    """End the process in the middle of a call."""
    note(tool="leave")
    os._exit(1)


@server.tool(structured_output=False)
async def change_list(ctx: Context) -> str:
    """Say that the tool list has changed."""
    server.add_tool(lambda: "new", name="newcomer", description="New.")
    await ctx.notify_tools_changed()
    return "said"


if __name__ == "__main__":
    server.run()
