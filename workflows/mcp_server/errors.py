"""Convert exceptions to tool errors: text for a language model, the codes of REST for programs."""

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

#: Key in `_meta` of code, detail, errors[{path, code, message}] and state of an error.
ERROR = "holdpoint/error"

logger = logging.getLogger(__name__)


class CommandFailed(Exception):
    """A command was accepted but had no effect; `state` is the current state of the run."""

    code = "not_done"

    def __init__(self, message: str, state: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.message = message
        self.state = state


def error_result(error: Exception, workflow_id: str | None = None) -> CallToolResult:
    """Return the tool error for an exception; log an internal error and hide its details."""
    # Loading the URLconf imports the views of `reviews`, which register their own exceptions.
    get_resolver().url_patterns  # noqa: B018
    body = _problem_body(error, workflow_id)
    if body is None:
        logger.error("a call to the MCP gateway failed", exc_info=error)
        return tool_error(_INTERNAL_ERROR.format(request_id()), {"code": "internal"})
    return tool_error(_text_of(body), body)


_INTERNAL_ERROR = "Something went wrong on the server; it is not your fault. Request id: {}."


def request_id() -> str:
    return str(structlog.contextvars.get_contextvars().get("request_id", "-"))


def tool_error(text: str, data: Mapping[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=text)], is_error=True, _meta={ERROR: dict(data)}
    )


def _problem_body(error: Exception, workflow_id: str | None) -> dict[str, Any] | None:
    """Return the body of the problem document that REST would send, or None."""
    response: Response | None
    if isinstance(error, KeyReused):
        detail = "idempotency_key: this key was used with other arguments"
        response = problem(status=422, code="idempotency_mismatch", detail=detail)
    elif isinstance(error, CommandFailed):
        response = problem(status=409, code=error.code, detail=error.message, state=error.state)
    else:
        known = workflow_id if workflow_id is not None and workflow_id.isdigit() else None
        response = problem_handler(error, {"kwargs": {"execution_id": known}})
    return None if response is None else dict(response.data)


def _text_of(body: Mapping[str, Any]) -> str:
    if body["code"] == "not_found":
        return "There is no such workflow or hold, or this token may not see it."
    lines = [str(body["detail"])]
    errors = body.get("errors", ())
    if len(errors) > 1:
        lines = [f"{each['path']}: {each['message']}".removeprefix(": ") for each in errors]
    state = body.get("state")
    if state and "message" not in state:
        lines.append(f"It is {state.get('status')} at version {state.get('version')} now.")
    return "\n".join(lines)
