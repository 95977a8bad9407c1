"""What goes wrong as a tool's error: words for a model, the same codes as REST for a program."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import structlog
from django.urls import get_resolver
from mcp_types import CallToolResult, TextContent
from rest_framework.response import Response

from workflows.api.problems import problem, problem_handler
from workflows.executions.idempotency import KeyReused

from .queries import CommandFailed

#: Where a program finds code, detail, errors[{path, code, message}] and state of a refusal.
ERROR = "holdpoint/error"

logger = logging.getLogger(__name__)


def refusal(error: Exception, workflow_id: str | None = None) -> CallToolResult:
    """The tool error for whatever a call raised; what is our own fault is logged, not told."""
    # Reading the routes imports the apps above, which register their own refusals beside them.
    get_resolver().url_patterns  # noqa: B018
    told = _problem(error, workflow_id)
    if told is None:
        logger.error("a call to the MCP gateway failed", exc_info=error)
        return tool_error(_OURS.format(request_id()), {"code": "internal"})
    return tool_error(_words(told), told)


_OURS = "Something went wrong on the server; it is not your fault. Request id: {}."


def request_id() -> str:
    return str(structlog.contextvars.get_contextvars().get("request_id", "-"))


def tool_error(text: str, data: Mapping[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=text)], is_error=True, _meta={ERROR: dict(data)}
    )


def _problem(error: Exception, workflow_id: str | None) -> dict[str, Any] | None:
    """The body of the problem that REST would answer."""
    found: Response | None
    if isinstance(error, KeyReused):
        detail = "idempotency_key: this key was used with other arguments"
        found = problem(status=422, code="idempotency_mismatch", detail=detail)
    elif isinstance(error, CommandFailed):
        found = problem(status=409, code=error.code, detail=error.message, state=error.state)
    else:
        known = workflow_id if workflow_id is not None and workflow_id.isdigit() else None
        found = problem_handler(error, {"kwargs": {"execution_id": known}})
    return None if found is None else dict(found.data)


def _words(told: Mapping[str, Any]) -> str:
    if told["code"] == "not_found":
        return "There is no such workflow or hold, or this token may not see it."
    lines = [str(told["detail"])]
    errors = told.get("errors", ())
    if len(errors) > 1:
        lines = [f"{each['path']}: {each['message']}".removeprefix(": ") for each in errors]
    state = told.get("state")
    if state and "message" not in state:
        lines.append(f"It is {state.get('status')} at version {state.get('version')} now.")
    return "\n".join(lines)
