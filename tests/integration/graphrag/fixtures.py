"""The collected tool lists of public MCP servers, as records, and the intents written for them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from graphrag.catalogue.tool_record import ToolRecord

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Intent:
    """A wish in plain words and the tools of which any one answers it."""

    text: str
    tools: frozenset[str]


def record(server: str, tool: Mapping[str, Any]) -> ToolRecord:
    """One entry of an MCP server's tool list as the catalogue takes it."""
    hints = tool.get("annotations") or {}
    return ToolRecord(
        name=f"{server}.{tool['name']}",
        kind="mcp",
        server=server,
        title=tool.get("title") or hints.get("title") or "",
        description=tool.get("description", ""),
        input_schema=tool["inputSchema"],
        permission_set="mcp-standard",
        read_only=bool(hints.get("readOnlyHint", False)),
        idempotent=bool(hints.get("idempotentHint", False)),
        destructive=hints.get("destructiveHint"),
        open_world=hints.get("openWorldHint"),
    )


@cache
def public_tools() -> tuple[ToolRecord, ...]:
    """Every collected tool, by server."""
    lists = [json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))]
    return tuple(
        record(entry["server"], tool)
        for entry in lists
        if "server" in entry
        for tool in entry["tools"]
    )


@cache
def intents(name: str = "intents") -> tuple[Intent, ...]:
    """A fixed set of intents: ``intents``, ``intents_held_out`` or ``intents_blind``.

    The thesaurus was written with the misses of the first in view and without those of the
    second; constants were chosen with the totals of both in view. The third was written from the
    list of tools alone, before its author knew the thesaurus; afterwards the misses of its odd
    entries (the first, the third, ...) were looked at, those of its even entries never.
    """
    written = json.loads((DATA / f"{name}.json").read_text())["intents"]
    return tuple(Intent(row["intent"], frozenset(row["tools"])) for row in written)
