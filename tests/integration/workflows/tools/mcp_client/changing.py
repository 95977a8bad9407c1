"""An MCP server whose tools are the words of a file; one tool announces a new list."""

import os
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("changing")
LIST = Path(os.environ["TOOLS"])
offered: set[str] = set()


def follow_file() -> None:
    """Offer what the file names now."""
    wanted = set(LIST.read_text().split())
    for name in wanted - offered:
        server.add_tool(
            _tool(name),
            name=name,
            description=f"Gives the word {name} back.",
            annotations=ToolAnnotations(destructive_hint=False),
        )
    for name in offered - wanted:
        server.remove_tool(name)
    offered.clear()
    offered.update(wanted)


def _tool(name: str) -> Any:
    def give() -> dict[str, str]:
        return {"word": name}

    return give


@server.tool()
async def read_file_again(ctx: Context) -> dict[str, bool]:
    """Offer what the file names now, and tell everybody who listens."""
    follow_file()
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return {"told": True}


if __name__ == "__main__":
    follow_file()
    server.run()
