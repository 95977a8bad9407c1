"""Admin of workflows: definitions and servers are kept here, runs are only looked at."""

from . import definitions, executions, servers, tokens

__all__ = ["definitions", "executions", "servers", "tokens"]
