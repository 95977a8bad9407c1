"""The MCP server, the same over HTTP and stdio: it knows tools, and nothing between two calls."""

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

from workflows import conf
from workflows.engine.plan_validation import Problem, validation_problems
from workflows.executions.validation import InvalidRequest

from . import calls, elicitation, queries
from .callers import Caller
from .calls import CallResult
from .errors import refusal
from .message_validation import raise_if_malformed
from .threads import in_thread
from .tools import TOOLS, Tool
from .waiting import until_rest

Context = ServerRequestContext[Any, Any]
Outcome = types.CallToolResult | types.InputRequiredResult
CallerOf = Callable[[Context], Caller]

INSTRUCTIONS = """\
Holdpoint runs DAGs of tasks layer by layer and stops where a person or an agent has to decide.
Start with execute (search_tools finds what tasks can call). Act on `status` of the answer: \
layer_complete: continue, replan or abort. approval_required: show the person review_url; people \
decide there, you do not. running: ask again with get_execution. complete, failed, aborted: it is \
over. Keep workflow_id: any later call, from anywhere, can go on with it."""

logger = logging.getLogger(__name__)


def build_server(caller_of: CallerOf) -> Server[Any]:
    """A server whose calls are made by whoever `caller_of` says."""

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Outcome:
        return await _called(ctx, params, caller_of(ctx))

    server: Server[Any] = Server(
        "holdpoint",
        version=_version(),
        title="Holdpoint",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: TOOLS[name].input_schema if name in TOOLS else None,
        on_list_tools=_list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.append(elicitation.boundary(caller_of))
    return server


def _version() -> str:
    try:
        return version("holdpoint")
    except PackageNotFoundError:  # run from a folder that was not installed
        return "unversioned"


async def _list_tools(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[tool.wire for tool in TOOLS.values()])


async def _called(ctx: Context, params: types.CallToolRequestParams, caller: Caller) -> Outcome:
    tool = TOOLS.get(params.name)
    if tool is None:
        message = f"there is no tool {params.name!r}; there are: {', '.join(TOOLS)}"
        raise MCPError(code=types.INVALID_PARAMS, message=message)
    began, workflow_id = time.monotonic(), (params.arguments or {}).get("workflow_id")
    try:
        raise_if_malformed(ctx.params)
        wanted = _parsed(tool, params.arguments or {})
        outcome = await _done(ctx, params, tool, wanted, caller)
    except Exception as error:
        known = str(workflow_id) if isinstance(workflow_id, int | str) else None
        await in_thread(calls.note_refusal, caller, tool.name, known, error)
        outcome = await in_thread(refusal, error, known)
    _log(tool.name, caller, outcome, time.monotonic() - began)
    return outcome


def _parsed(tool: Tool, arguments: dict[str, Any]) -> Any:
    try:
        return tool.takes.model_validate(arguments)
    except ValidationError as error:
        found = validation_problems(error)
        raise InvalidRequest(
            tuple(Problem(e.path.removeprefix("plan") or e.path, e.code, e.message) for e in found)
        ) from error


async def _done(
    ctx: Context, params: types.CallToolRequestParams, tool: Tool, wanted: Any, caller: Caller
) -> Outcome:
    if tool.reads is not None:
        return result(await in_thread(tool.reads, caller, wanted))
    back = elicitation.returned(params) if tool.asks else None
    acted = back.acted if back else await in_thread(_act, tool, caller, wanted)
    if back.accepted if back else acted.waits:
        await until_rest(
            caller,
            acted.workflow_id,
            seconds=_wait(wanted),
            report=ctx.session.report_progress,
            beyond=back.asked if back else (),
        )
    answer = await in_thread(queries.told, caller, acted)
    if tool.asks and elicitation.opens_pages(ctx):
        asked = elicitation.question(answer, acted, back.asked if back else ())
        if asked is not None:
            return asked
    return result(answer)


def _act(tool: Tool, caller: Caller, wanted: Any) -> CallResult:
    if tool.acts is None:
        raise TypeError(tool.name)
    if tool.counts:
        caller.count(tool.counts)
    return tool.acts(caller, wanted)


def _wait(wanted: Any) -> float:
    given = getattr(wanted, "config", wanted).wait_seconds
    return conf.mcp_wait_seconds() if given is None else float(given)


def result(answer: BaseModel) -> types.CallToolResult:
    """An answer as structured content, and as text for clients that know no other."""
    text = answer.model_dump_json(exclude_none=True)
    return types.CallToolResult(
        content=[types.TextContent(text=text)],
        structured_content=answer.model_dump(mode="json"),
    )


def _log(tool: str, caller: Caller, outcome: Outcome, seconds: float) -> None:
    if isinstance(outcome, types.InputRequiredResult):
        became = "input_required"
    else:
        became = "error" if outcome.is_error else "answered"
    logger.info(
        "MCP call",
        extra={
            "tool": tool,
            "outcome": became,
            "user_id": caller.user_id,
            "token_id": caller.token_id,
            "duration_ms": round(seconds * 1000, 1),
        },
    )
