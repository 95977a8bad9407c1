"""Call Python tools with validated arguments and results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from workflows.common import background_loop
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed
from workflows.engine.values.reasons import Reason

from .context import ToolContext
from .registry import PythonTool

logger = logging.getLogger(__name__)


def call_sync(tool: PythonTool, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
    """Call `tool` and return its result as a bounded JSON value; blocks the calling thread.

    An async tool runs on the background loop and is cancelled at the context's deadline; a sync
    tool runs in this thread and has to check the context itself. Raises only TaskFailed and
    PermissionEscalationNeeded.
    """
    bound = tool.signature.bind(arguments, ctx)
    try:
        if tool.is_async:
            value = background_loop.run(tool.function(**bound), ctx.remaining())
        else:
            value = tool.function(**bound)
    except (TaskFailed, PermissionEscalationNeeded):
        raise
    except Exception as error:
        raise _failure(tool, error, ctx) from error
    return tool.signature.result(value)


async def call(tool: PythonTool, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
    """Call `tool` from a coroutine: async tools on the background loop, sync tools in a thread."""
    bound = tool.signature.bind(arguments, ctx)
    try:
        async with asyncio.timeout(ctx.remaining()):
            if tool.is_async:
                value = await background_loop.await_on_loop(tool.function(**bound))
            else:
                value = await asyncio.to_thread(tool.function, **bound)
    except (TaskFailed, PermissionEscalationNeeded):
        raise
    except Exception as error:
        raise _failure(tool, error, ctx) from error
    return tool.signature.result(value)


def _failure(tool: PythonTool, error: Exception, ctx: ToolContext) -> TaskFailed:
    """Convert an unexpected exception of `tool` into a TaskFailed."""
    if isinstance(error, TimeoutError) and ctx.remaining() == 0.0:
        return TaskFailed(Reason("tool_timed_out", {"tool": tool.name}))
    logger.error("tool %s failed", tool.name, exc_info=error)
    return TaskFailed(f"{type(error).__name__}: {error}"[:2000])
