"""Admin of workflows: definitions and servers are kept here, runs are only looked at."""

from . import definitions, executions, permissions, servers, tokens, webhooks

__all__ = ["definitions", "executions", "permissions", "servers", "tokens", "webhooks"]
