"""Built-in tools without external effects: echo, wait, fail, select."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from pydantic import Field

from workflows.engine.plans.dataflow import search
from workflows.engine.protocol.ports import TaskFailed

from .context import ToolContext
from .registry import tool

#: Seconds between checks of the abort flag.
_POLL_SECONDS = 0.05


@tool(read_only=True, idempotent=True, title="Echo")
def echo(
    value: Annotated[Any, Field(description="Any JSON value, often the output of another task.")],
) -> Any:
    """Return the value unchanged.

    Useful to put a review in front of data, or to give an output a name of its own.
    """
    return value


@tool(read_only=True, idempotent=True, title="Wait")
async def wait(
    seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)], ctx: ToolContext
) -> dict[str, float]:
    """Wait for a number of seconds, then go on; an abort ends the wait at once."""
    start = time.monotonic()
    end = start + seconds
    while (left := end - time.monotonic()) > 0:
        if ctx.cancelled.is_set():
            raise TaskFailed("the wait was cut short: the execution is stopping", retryable=False)
        if ctx.remaining() == 0.0:
            raise TaskFailed("the wait outlasted the task's own timeout")
        await asyncio.sleep(min(left, _POLL_SECONDS))
    return {"waited_seconds": round(time.monotonic() - start, 3)}


@tool(read_only=True, idempotent=True, title="Fail")
def fail(
    message: Annotated[str, Field(max_length=2000)] = "failed on purpose",
    *,
    retryable: bool = False,
) -> None:
    """Fail the task with a message, to stop a branch on a condition or to try out error handling.

    With retryable the task's retry policy may try again.
    """
    raise TaskFailed(message, retryable=retryable)


@tool(read_only=True, idempotent=True, title="Select with JMESPath")
def select(
    value: Annotated[Any, Field(description="The JSON value to look into.")],
    expression: Annotated[
        str, Field(min_length=1, max_length=2000, description="A JMESPath expression.")
    ],
) -> Any:
    """Pick, filter or reshape parts of a JSON value with a JMESPath expression.

    Examples: files[?ends_with(@, '.xml')], items[].{name: name, total: sum(prices)}, length(@).
    """
    return search(expression, value)
