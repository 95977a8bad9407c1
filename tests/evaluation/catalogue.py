"""Listed tools as records of the catalogue, and the product's search as a ranker."""

from __future__ import annotations

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.models import Tool
from graphrag.retrieval import search
from tests.evaluation.retrieval import DEPTH
from tests.evaluation.servers import ListedTool


def record(server: str, tool: ListedTool) -> ToolRecord:
    """Convert one entry of a server's list."""
    hints = tool.get("annotations") or {}
    return ToolRecord(
        name=f"{server}.{tool['name']}",
        kind="mcp",
        server=server,
        title=tool.get("title") or hints.get("title") or "",
        description=tool.get("description", ""),
        input_schema=tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
        permission_set="mcp-standard",
        read_only=bool(hints.get("readOnlyHint", False)),
        idempotent=bool(hints.get("idempotentHint", False)),
        destructive=hints.get("destructiveHint"),
        open_world=hints.get("openWorldHint"),
    )


def fill(lists: dict[str, list[ListedTool]]) -> list[ToolRecord]:
    """Fill the catalogue with the tools of the lists, and return them."""
    records = [record(server, tool) for server, tools in lists.items() for tool in tools]
    Tool.objects.all().delete()
    ingest.upsert_tools(records)
    return records


def by_product(query: str) -> list[str]:
    """Return names as a user of the search gets them."""
    return [found.tool.name for found in search.search(query, limit=DEPTH).found]
