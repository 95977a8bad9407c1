"""A real stdio server that gives its tool list in pages; with "endless", without a last one."""

import sys

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import ListToolsResult, PaginatedRequestParams, Tool


async def list_tools(_context: object, params: PaginatedRequestParams | None) -> ListToolsResult:
    page = int(params.cursor) if params is not None and params.cursor else 0
    tools = [Tool(name=f"t{page}{letter}", input_schema={"type": "object"}) for letter in "ab"]
    more = page < 2 or "endless" in sys.argv
    return ListToolsResult(tools=tools, next_cursor=str(page + 1) if more else None)


async def main() -> None:
    server = Server("paged", on_list_tools=list_tools)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
