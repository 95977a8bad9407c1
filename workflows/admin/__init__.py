"""Admin of workflows, MCP servers and what belongs to them; reviews and runs: reviews.admin."""

from . import commands, definitions, permissions, servers, tokens, webhooks

__all__ = ["commands", "definitions", "permissions", "servers", "tokens", "webhooks"]
