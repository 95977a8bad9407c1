"""Calls to MCP servers through pooled sessions; see `McpPool`."""

from .pool import McpPool, close_pool, pool
from .spec import McpServerSpec, McpTool

__all__ = ["McpPool", "McpServerSpec", "McpTool", "close_pool", "pool"]
