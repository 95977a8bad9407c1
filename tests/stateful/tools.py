"""The tools of `plans`: results that depend only on the call."""

from typing import Any

from tests.stateful.scripted import host_of, need_of
from tests.support.toolkit import note
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.ports import TaskFailed
from workflows.tools.context import ToolContext
from workflows.tools.registry import tool


@tool(server="statekit", permission_set="readonly", read_only=True)
def value(value: Any, ctx: ToolContext) -> Any:
    """Give the value back."""
    note(ctx)
    return value


@tool(server="statekit", permission_set="readonly", read_only=True)
def look(value: Any) -> Any:
    """Give the value back; leaves nothing behind, so that it may begin before a step is durable."""
    return value


@tool(server="statekit", permission_set="filesystem")
def effect(value: Any, ctx: ToolContext) -> Any:
    """Give the value back; counts as writing."""
    note(ctx)
    return value


@tool(server="statekit", permission_set="readonly")
def flaky(value: Any, failures: int, ctx: ToolContext) -> Any:
    """Fail the first `failures` attempts, however often each is repeated."""
    note(ctx)
    attempt = int(ctx.idempotency_key.rpartition(":")[2])
    if attempt <= failures:
        raise TaskFailed(f"failure {attempt}")
    return value


@tool(server="statekit", permission_set="readonly")
def fail(value: Any, ctx: ToolContext) -> Any:
    """Fail for good."""
    note(ctx)
    raise TaskFailed("no such thing", retryable=False)


@tool(server="statekit", permission_set="readonly")
def ask(value: Any, ctx: ToolContext) -> Any:
    """Give the value back once the task's own host is granted."""
    note(ctx, "asked")
    held = ctx.permissions or PermissionSet()
    if not held.allows("net", host_of(ctx.task_id)):
        raise need_of(ctx.task_id, held)
    note(ctx)
    return value
