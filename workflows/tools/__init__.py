"""Python tools that tasks call: how they are declared, found and called, and the built-in ones."""

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
