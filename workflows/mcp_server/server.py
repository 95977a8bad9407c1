"""The MCP server for HTTP and stdio. It keeps no state between two calls."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from workflows.engine.plans.validation import Problem, validation_problems
from workflows.executions.validation import InvalidRequest

from . import commands, elicitation, queries
from .authentication import Caller
from .commands import CallResult
from .errors import error_result
from .message_validation import raise_if_malformed
from .threads import in_thread
from .tools import TOOLS, Tool
from .waiting import wait_until_stopped

#: Default time that a call waits for the run's next stop.
WAIT_SECONDS = 20.0

Context = ServerRequestContext[Any, Any]
Outcome = types.CallToolResult | types.InputRequiredResult
CallerOf = Callable[[Context], Caller]

INSTRUCTIONS = """\
Holdpoint runs DAGs of tasks layer by layer and stops where a person or an agent has to decide.
Start with execute (search_tools finds the tools that tasks can call). Act on `status` of the \
response. layer_complete: call continue, replan or abort. approval_required: show review_url to \
the person; people decide there, you do not. running: call get_execution. complete, failed, \
aborted: the run has ended. Keep workflow_id: every later call needs it. Before a risky action \
with a tool of your own, call request_approval and execute only what it returns as approved."""

logger = logging.getLogger(__name__)


def build_server(caller_of: CallerOf) -> Server[Any]:
    """Return a server; `caller_of` returns the caller of a request."""

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Outcome:
        return await _handle_call(ctx, params, caller_of(ctx))

    server: Server[Any] = Server(
        "holdpoint",
        version=package_version(),
        title="Holdpoint",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: TOOLS[name].input_schema if name in TOOLS else None,
        on_list_tools=_list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.append(elicitation.request_state_boundary(caller_of))
    return server


def package_version() -> str:
    """Return the version of Holdpoint."""
    try:
        return version("holdpoint")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unversioned"


async def _list_tools(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[tool.wire for tool in TOOLS.values()])


async def _handle_call(
    ctx: Context, params: types.CallToolRequestParams, caller: Caller
) -> Outcome:
    tool = TOOLS.get(params.name)
    if tool is None:
        message = f"there is no tool {params.name!r}; there are: {', '.join(TOOLS)}"
        raise MCPError(code=types.INVALID_PARAMS, message=message)
    started, workflow_id = time.monotonic(), (params.arguments or {}).get("workflow_id")
    try:
        raise_if_malformed(ctx.params)
        arguments = _validated(tool, params.arguments or {})
        outcome = await _run_tool(ctx, params, tool, arguments, caller)
    except Exception as error:
        known = str(workflow_id) if isinstance(workflow_id, int | str) else None
        await in_thread(commands.log_invalid_command, caller, tool.name, known, error)
        outcome = await in_thread(error_result, error, known)
    _log(tool.name, caller, outcome, time.monotonic() - started)
    return outcome


def _validated(tool: Tool, arguments: dict[str, Any]) -> Any:
    try:
        return tool.input_model.model_validate(arguments)
    except ValidationError as error:
        problems = validation_problems(error)
        raise InvalidRequest(
            tuple(
                Problem(e.path.removeprefix("plan") or e.path, e.code, e.message) for e in problems
            )
        ) from error


async def _run_tool(
    ctx: Context, params: types.CallToolRequestParams, tool: Tool, arguments: Any, caller: Caller
) -> Outcome:
    if tool.read is not None:
        return tool_result(await in_thread(tool.read, caller, arguments))
    if tool.respond is not None:
        seconds, report = _wait_seconds(arguments), ctx.session.report_progress
        return tool_result(await tool.respond(caller, arguments, seconds, report))
    repeated = elicitation.repeated_call(params) if tool.elicits else None
    result = repeated.result if repeated else await in_thread(_perform, tool, caller, arguments)
    if repeated.accepted if repeated else result.waits:
        await wait_until_stopped(
            caller,
            result.workflow_id,
            seconds=_wait_seconds(arguments),
            report=ctx.session.report_progress,
            ignored_holds=repeated.shown_holds if repeated else (),
        )
    answer = await in_thread(queries.response_after, caller, result)
    if tool.elicits and elicitation.supports_url_elicitation(ctx):
        shown_holds = repeated.shown_holds if repeated else ()
        elicited = elicitation.url_elicitation(answer, result, shown_holds)
        if elicited is not None:
            return elicited
    return tool_result(answer)


def _perform(tool: Tool, caller: Caller, arguments: Any) -> CallResult:
    if tool.perform is None:
        raise TypeError(tool.name)
    if tool.throttle_scope:
        caller.count(tool.throttle_scope)
    return tool.perform(caller, arguments)


def _wait_seconds(arguments: Any) -> float:
    seconds = getattr(arguments, "config", arguments).wait_seconds
    return WAIT_SECONDS if seconds is None else float(seconds)


def tool_result(answer: BaseModel) -> types.CallToolResult:
    """Return an answer as structured content, and as text for clients without support for it."""
    text = answer.model_dump_json(exclude_none=True)
    return types.CallToolResult(
        content=[types.TextContent(text=text)],
        structured_content=answer.model_dump(mode="json"),
    )


def _log(tool: str, caller: Caller, outcome: Outcome, seconds: float) -> None:
    if isinstance(outcome, types.InputRequiredResult):
        status = "input_required"
    else:
        status = "error" if outcome.is_error else "answered"
    logger.info(
        "MCP call",
        extra={
            "tool": tool,
            "outcome": status,
            "user_id": caller.user_id,
            "token_id": caller.token_id,
            "duration_ms": round(seconds * 1000, 1),
        },
    )
