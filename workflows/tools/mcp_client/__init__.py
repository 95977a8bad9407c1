"""Calls to MCP servers through pooled sessions; see `session_pool.McpPool`."""

from .addresses import address_problem
from .process import close_pool, pool
from .server_spec import McpServerSpec, McpTool, env_problem

__all__ = ["McpServerSpec", "McpTool", "address_problem", "close_pool", "env_problem", "pool"]
