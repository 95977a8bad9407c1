"""Admin of workflows: workflows and MCP servers are editable, runs are read-only."""

from . import definitions, executions, permissions, servers, tokens, webhooks

__all__ = ["definitions", "executions", "permissions", "servers", "tokens", "webhooks"]
