"""Tools that tests run, in this process and in worker processes alike.

Every call is noted in a ledger, a file that outlives a killed worker: `HOLDPOINT_TEST_LEDGER`.
Worker processes load this module through the setting `tool_modules`.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from workflows.engine.protocol.ports import TaskFailed
from workflows.tools.context import ToolContext
from workflows.tools.registry import tool


def ledger_path() -> Path:
    return Path(os.environ["HOLDPOINT_TEST_LEDGER"])


def note(ctx: ToolContext, what: str = "call") -> None:
    """Append one line; a single write of a short line is atomic in append mode."""
    line = json.dumps(
        {
            "what": what,
            "key": ctx.idempotency_key,
            "execution": ctx.execution_id,
            "task": ctx.task_id,
        }
    )
    with ledger_path().open("a") as ledger:
        ledger.write(line + "\n")


def calls(execution_id: object = None) -> list[dict[str, str]]:
    """The ledger's lines, those of one execution if it is named."""
    if not ledger_path().exists():
        return []
    lines = [json.loads(line) for line in ledger_path().read_text().splitlines()]
    return [
        each for each in lines if execution_id is None or each["execution"] == str(execution_id)
    ]


@tool(server="testkit", permission_set="readonly", read_only=True, idempotent=True)
def value(value: Any, ctx: ToolContext) -> Any:
    """Give the value back, and note the call."""
    note(ctx)
    return value


@tool(server="testkit", permission_set="filesystem")
def effect(value: Any, ctx: ToolContext) -> Any:
    """Give the value back; counts as writing."""
    note(ctx)
    return value


@tool(server="testkit", permission_set="readonly")
def slow(seconds: float, ctx: ToolContext) -> str:
    """Work for a while, unless cancelled."""
    note(ctx, "begin")
    if ctx.cancelled.wait(seconds):
        note(ctx, "cancelled")
        raise TaskFailed("cancelled")
    note(ctx, "end")
    return "done"


@tool(server="testkit", permission_set="readonly")
def meets(others: int, ctx: ToolContext) -> str:
    """Work until so many calls of the execution run at the same time, and fail without them."""
    note(ctx, "begin")
    until = time.monotonic() + 30
    while len([each for each in calls(ctx.execution_id) if each["what"] == "begin"]) < others:
        if time.monotonic() > until or ctx.cancelled.wait(0.01):
            raise TaskFailed("the others do not run beside this one", retryable=False)
    return "met"


@tool(server="testkit", permission_set="readonly", read_only=True)
def first_is_slow(ctx: ToolContext) -> str:
    """Read; the first call of a task takes for ever, or until it is cancelled."""
    begun = [each for each in calls(ctx.execution_id) if each["task"] == ctx.task_id]
    note(ctx, "begin")
    if not begun and ctx.cancelled.wait(60):
        note(ctx, "cancelled")
        raise TaskFailed("cancelled")
    note(ctx, "end")
    return "done"


@tool(server="testkit", permission_set="readonly")
def stubborn(seconds: float, ctx: ToolContext) -> str:
    """Work for a while and listen to nobody."""
    note(ctx, "begin")
    time.sleep(seconds)
    return "done"


@tool(server="testkit", permission_set="readonly")
def flaky(failures: int, ctx: ToolContext) -> str:
    """Fail the first `failures` times."""
    before = [each for each in calls(ctx.execution_id) if each["task"] == ctx.task_id]
    note(ctx)
    if len(before) < failures:
        raise TaskFailed(f"failure {len(before) + 1}")
    return "recovered"


@tool(server="testkit", permission_set="readonly")
def kills_its_worker(times: int, ctx: ToolContext) -> str:
    """Kill the process of the worker at the first `times` calls, as a lack of memory does."""
    begun = [each for each in calls(ctx.execution_id) if each["task"] == ctx.task_id]
    note(ctx, "begin")
    if len(begun) < times:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@tool(server="testkit", permission_set="readonly")
def fail(message: str, ctx: ToolContext) -> str:
    """Fail for good."""
    note(ctx)
    raise TaskFailed(message, retryable=False)
