"""Tools that tests run on a remote runner, in processes without settings."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.toolkit import calls, note
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed
from workflows.tools.context import ToolContext
from workflows.tools.registry import tool


@tool(server="remotekit", permission_set="readonly", remote=True)
def value(value: Any, ctx: ToolContext) -> Any:
    """Give the value back, and note the call."""
    note(ctx)
    return value


@tool(server="remotekit", permission_set="readonly", remote=True, runner="dask")
def heavy(value: Any, ctx: ToolContext) -> Any:
    """Give the value back, on the cluster unless a task says otherwise."""
    note(ctx)
    return value


@tool(server="remotekit", permission_set="readonly", remote=True)
async def environment(ctx: ToolContext) -> list[str]:
    """Return the names of the environment variables."""
    return sorted(os.environ)


@tool(server="remotekit", permission_set="readonly", remote=True)
def waits(path: str, ctx: ToolContext) -> str:
    """Work until a file exists."""
    note(ctx, "begin")
    until = time.monotonic() + 60
    while not Path(path).exists():
        if time.monotonic() > until:
            raise TaskFailed("nobody wrote the file", retryable=False)
        time.sleep(0.02)
    note(ctx, "end")
    return "done"


@tool(server="remotekit", permission_set="readonly", remote=True)
async def talks(path: str, ctx: ToolContext) -> str:
    """Print, log and report progress, and work until a file exists."""
    sys.stdout.write("\x1b[31mred\x1b[0m \x00alert\n10 %\r50 %\r")
    sys.stdout.write("90 %\n")
    logging.getLogger("kit").warning("disk is %s", "full")
    ctx.report_progress(0.5)
    note(ctx, "begin")
    until = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < until:
        await asyncio.sleep(0.02)
    sys.stderr.write("the end\n")
    raise TaskFailed("no more", retryable=False)


@tool(server="remotekit", permission_set="readonly", remote=True)
def fails_once(ctx: ToolContext) -> str:
    """Fail the first attempt."""
    note(ctx)
    if ctx.idempotency_key.endswith(":1"):
        raise TaskFailed("not yet")
    return "recovered"


@tool(server="remotekit", permission_set="readonly", remote=True)
def kills_its_process(ctx: ToolContext) -> str:
    """End the process at the first call, as a lack of memory does."""
    begun = [each for each in calls(ctx.execution_id) if each["task"] == ctx.task_id]
    note(ctx, "begin")
    if not begun:
        os._exit(1)
    return "survived"


@tool(server="remotekit", permission_set="minimal", remote=True)
def wants_more(ctx: ToolContext) -> str:
    """Request a permission."""
    held = ctx.permissions or PermissionSet()
    wanted = PermissionSet(hosts=("example.com:443",))
    raise PermissionEscalationNeeded(
        operation="net", resource="example.com:443", current=held, requested=wanted
    )


@tool(server="remotekit", permission_set="readonly")
def local(ctx: ToolContext) -> str:
    """Run on a worker only."""
    return "local"
