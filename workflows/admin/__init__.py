"""Admin of workflows, MCP servers and what belongs to them; reviews and runs: reviews.admin."""

from . import approvals, commands, definitions, permissions, servers, tokens, webhooks

__all__ = ["approvals", "commands", "definitions", "permissions", "servers", "tokens", "webhooks"]
