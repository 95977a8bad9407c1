"""Held calls as tasks of the Tasks extension (SEP-2663), for clients of protocol 2026-07-28.

Schema: modelcontextprotocol/ext-tasks, schema/2026-07-28.
"""

from __future__ import annotations

from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .calls import RETRY_SECONDS, Held, Stage
from .results import final_result

EXTENSION: Final = "io.modelcontextprotocol/tasks"
_POLL_MS: Final = 2000
#: While the server cannot be reached: an attempt is made at most once in this time.
_RETRY_MS: Final = RETRY_SECONDS * 1000


class TaskParams(RequestParams):
    """The parameters of `tasks/get`, `tasks/update` and `tasks/cancel`."""

    task_id: str


def supports_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client declared the extension on this request."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities is not None else None
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in (extensions or {})


def require_tasks(ctx: ServerRequestContext[Any, Any]) -> None:
    """Raise MCPError unless the client declared the extension."""
    if not supports_tasks(ctx):
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="Missing required client capability",
            data={"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        )


def created(held: Held) -> dict[str, Any]:
    """Return the CreateTaskResult of a held call."""
    return {"resultType": "task", **_task(held, "working")}


def detailed(held: Held) -> dict[str, Any]:
    """Return the DetailedTask of a held call."""
    if held.stage in (Stage.PENDING, Stage.APPROVED, Stage.SENT):
        return {"resultType": "complete", **_task(held, "working")}
    if held.status == "cancelled" and held.stage is Stage.REFUSED:
        return {"resultType": "complete", **_task(held, "cancelled")}
    try:
        result = final_result(held).model_dump(by_alias=True, mode="json", exclude_none=True)
    except MCPError as error:
        fields = error.error.model_dump(mode="json", exclude_none=True)
        return {"resultType": "complete", **_task(held, "failed"), "error": fields}
    return {"resultType": "complete", **_task(held, "completed"), "result": result}


def _task(held: Held, status: str) -> dict[str, Any]:
    task = {
        "taskId": held.uid,
        "status": status,
        "createdAt": held.created_at,
        "lastUpdatedAt": held.updated_at,
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
    }
    if held.stage is Stage.PENDING:
        task["statusMessage"] = f"A person has to decide at {held.review_url}"
    elif held.stage is Stage.APPROVED and held.error:
        task["statusMessage"] = f"Approved, not executed yet. {held.error}"
        task["pollIntervalMs"] = _RETRY_MS
    elif held.comment:
        task["statusMessage"] = held.comment
    return task
