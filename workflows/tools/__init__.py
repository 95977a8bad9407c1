"""Python tools for tasks: declaration, discovery, calls, and the built-in tools."""

from .context import CancelFlag, ToolContext
from .invocation import call, call_sync
from .registry import PythonTool, ToolRegistry, all_tools, discover, get, tool

__all__ = [
    "CancelFlag",
    "PythonTool",
    "ToolContext",
    "ToolRegistry",
    "all_tools",
    "call",
    "call_sync",
    "discover",
    "get",
    "tool",
]
