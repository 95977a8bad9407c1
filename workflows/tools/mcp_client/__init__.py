"""Calls to MCP servers through pooled sessions; see `session_pool.McpPool`."""

from .addresses import address_problem
from .confinement import paths_problem, ports_problem
from .process import close_pool, end_run, pool
from .server_spec import McpServerSpec, McpTool, env_problem

__all__ = [
    "McpServerSpec",
    "McpTool",
    "address_problem",
    "close_pool",
    "end_run",
    "env_problem",
    "paths_problem",
    "pool",
    "ports_problem",
]
