"""Calls to MCP servers through pooled sessions; see `pool.McpPool`."""

from .process import close_pool, pool
from .server_spec import McpServerSpec, McpTool

__all__ = ["McpServerSpec", "McpTool", "close_pool", "pool"]
