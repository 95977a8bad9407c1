"""The MCP server of the gates. It keeps no state between two requests but open streams."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import anyio
import mcp_types as types
from django.http import Http404
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, ToolsListChanged
from rest_framework.exceptions import Throttled

from workflows import conf
from workflows.mcp_server.elicitation import request_state_boundary, supports_url_elicitation
from workflows.mcp_server.errors import error_result
from workflows.mcp_server.message_validation import raise_if_malformed
from workflows.mcp_server.server import package_version
from workflows.mcp_server.threads import in_thread
from workflows.mcp_server.waiting import waiting_call
from workflows.models import GateCall
from workflows.realtime.subscription import Subscription, channel_group
from workflows.tools.mcp_client import pool

from . import calls, results, sending, tasks, tools
from .callers import GateCaller
from .calls import Held, Sending, Stage

Context = ServerRequestContext[Any, Any]
Outcome = types.CallToolResult | types.InputRequiredResult | dict[str, Any]
CallerOf = Callable[[Context], GateCaller]

#: A held call is read without a notification too, because Redis may be unavailable.
_POLL_SECONDS: Final = 5.0
#: Interval at which a stream of changes checks that its token may still use the gate.
_RIGHTS_SECONDS: Final = 15.0
INSTRUCTIONS: Final = f"""\
The tools of other MCP servers, named server__tool. A person has to approve some calls before \
they are executed. Such a call waits; if it returns that nothing was executed yet, call \
{results.AWAIT_TOOL} with its id, or repeat the same call later. Do not change the arguments to \
get around a rejection."""

_AWAIT: Final = types.Tool(
    name=results.AWAIT_TOOL,
    title="Wait for a held call",
    description="Wait for the decision about a call that a person has to approve, and return the "
    "answer of the call. With arguments: submit them after a reviewer asked for changes.",
    input_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id of the held call."},
            "arguments": {"type": "object", "description": "All arguments of the call, changed."},
        },
        "required": ["id"],
        "additionalProperties": False,
    },
    annotations=types.ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True
    ),
)

logger = logging.getLogger(__name__)


def build_server(caller_of: CallerOf) -> Server[Any]:
    """Return a server for all gates; `caller_of` returns the token and the gate of a request."""
    changes = _ListChanges()

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        changes.follow()
        return await _list_tools(caller_of(ctx))

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
        changes.follow()
        return await _handle_call(ctx, params, caller_of(ctx))

    async def listen(
        ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        changes.follow()
        return await changes.listen(ctx, params, caller_of(ctx))

    async def get_task(ctx: Context, params: tasks.TaskParams) -> dict[str, Any]:
        return await _get_task(ctx, params, caller_of(ctx))

    async def update_task(ctx: Context, params: tasks.TaskParams) -> dict[str, Any]:
        tasks.require_tasks(ctx)
        await _own_task(caller_of(ctx), params.task_id)
        return {"resultType": "complete"}  # a gate asks for no input, so there is none to take

    async def cancel_task(ctx: Context, params: tasks.TaskParams) -> dict[str, Any]:
        tasks.require_tasks(ctx)
        caller = caller_of(ctx)
        await _own_task(caller, params.task_id)
        await in_thread(calls.cancel, caller, params.task_id)
        sending.stop(params.task_id)  # a call that was sent first
        return {"resultType": "complete"}

    server: Server[Any] = Server(
        "holdpoint-gate",
        version=package_version(),
        title="Holdpoint gate",
        instructions=INSTRUCTIONS,
        # The server behind the gate checks the arguments; no header repeats them here.
        get_tool_input_schema=lambda name: None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=listen,
    )
    server.extensions[tasks.EXTENSION] = {}
    server.add_request_handler("tasks/get", tasks.TaskParams, get_task)
    server.add_request_handler("tasks/update", tasks.TaskParams, update_task)
    server.add_request_handler("tasks/cancel", tasks.TaskParams, cancel_task)
    server.middleware.append(request_state_boundary(lambda ctx: caller_of(ctx).caller))
    return server


class _ListChanges:
    """Passes changes of the servers' tool lists on to the clients that subscribed to them."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._loop: asyncio.AbstractEventLoop | None = None

    def follow(self) -> None:
        """Be notified by sessions that start from now on."""
        self._loop = asyncio.get_running_loop()
        pool().on_list_changed(self._on_change)

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams, caller: GateCaller
    ) -> types.SubscriptionsListenResult:
        """Serve one stream until the client leaves or its token may not use the gate any more.

        A stream counts as a waiting call, so one token cannot take the streams of all others.
        """
        try:
            async with waiting_call(caller.caller):
                with anyio.CancelScope() as scope:
                    checking = asyncio.create_task(_end_with_rights(caller, scope))
                    try:
                        return await self._streams(ctx, params)
                    finally:
                        checking.cancel()
        except Throttled as error:
            raise MCPError(code=types.INVALID_REQUEST, message=str(error.detail)) from None
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        return types.SubscriptionsListenResult(_meta=meta)

    def _on_change(self, server: str) -> None:
        if self._loop is not None and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._bus.publish(ToolsListChanged()), self._loop)


async def _end_with_rights(caller: GateCaller, scope: anyio.CancelScope) -> None:
    """Cancel the scope once the token may not use the gate, or if this cannot be found out."""
    while True:
        await anyio.sleep(_RIGHTS_SECONDS)
        try:
            await in_thread(caller.context)
        except Exception as error:
            logger.info("a stream of changes of the gate %s has ended: %s", caller.gate, error)
            scope.cancel()
            return


# --- tools ----------------------------------------------------------------------------------------


async def _list_tools(caller: GateCaller) -> types.ListToolsResult:
    specs = await in_thread(_specs, caller)
    listed = await tools.upstream_tools(specs)
    offered = await in_thread(_offered, caller, listed)
    return types.ListToolsResult(tools=[*offered, _AWAIT])


def _specs(caller: GateCaller) -> list[Any]:
    context, gate = caller.context()
    return tools.server_specs(gate, context.token.pk)


def _offered(caller: GateCaller, listed: dict[str, list[types.Tool]]) -> list[types.Tool]:
    return tools.exported(caller.context()[1], listed)


async def _handle_call(
    ctx: Context, params: types.CallToolRequestParams, caller: GateCaller
) -> Outcome:
    started = time.monotonic()
    try:
        raise_if_malformed(ctx.params)
        outcome = await _call(ctx, params, caller)
    except MCPError:
        raise
    except calls.NoSuchTool:
        message = f"this gate has no tool {params.name!r}"
        raise MCPError(code=types.INVALID_PARAMS, message=message) from None
    except calls.Denied:
        outcome = results.denied_result(params.name)
    except Exception as error:
        outcome = await in_thread(error_result, error)
    _log(params.name, caller, outcome, time.monotonic() - started)
    return outcome


async def _call(ctx: Context, params: types.CallToolRequestParams, caller: GateCaller) -> Outcome:
    arguments = dict(params.arguments or {})
    if params.name == results.AWAIT_TOOL:
        uid = str(arguments.get("id", ""))
        if isinstance(arguments.get("arguments"), dict):
            await in_thread(calls.resubmit, caller, uid, arguments["arguments"])
        return await _held_result(ctx, params, caller, uid, may_become_task=False)
    begun = await in_thread(calls.begin, caller, params.name, arguments, _client_name(ctx))
    if isinstance(begun, Sending):
        return results.sent_result(await sending.send(caller, begun, ctx.session.report_progress))
    return await _held_result(ctx, params, caller, str(begun), may_become_task=True)


def _client_name(ctx: Context) -> str:
    params = ctx.session.client_params
    return params.client_info.name if params is not None else ""


# --- held calls -----------------------------------------------------------------------------------


async def _held_result(
    ctx: Context,
    params: types.CallToolRequestParams,
    caller: GateCaller,
    uid: str,
    *,
    may_become_task: bool,
) -> Outcome:
    held = await in_thread(calls.held_call, caller, uid)
    if held.stage is Stage.PENDING:
        if may_become_task and tasks.supports_tasks(ctx):
            return tasks.created(held)
        if params.request_state is None and supports_url_elicitation(ctx):
            return _url_elicitation(held)
    held = await _wait(ctx, caller, held)
    if held.stage in (Stage.PENDING, Stage.APPROVED, Stage.SENT):
        if held.stage is Stage.APPROVED:
            return results.sent_result(_not_sent(held))
        return results.pending_result(held)
    if held.stage is not Stage.CHANGES_REQUESTED:
        await in_thread(calls.close, caller, uid)
    return results.final_result(held)


def _not_sent(held: Held) -> calls.Answer:
    text = f'{held.error} Nothing was executed. Ask again: {{"id": "{held.uid}"}}.'
    return calls.Answer(GateCall.Outcome.NOT_SENT, error=text)


def _url_elicitation(held: Held) -> types.InputRequiredResult:
    message = f"A person has to approve {held.tool} before it is executed."
    request = types.ElicitRequest(
        params=types.ElicitRequestURLParams(message=message, url=held.review_url)
    )
    return types.InputRequiredResult(
        input_requests={held.uid: request}, request_state=json.dumps({"call": held.uid})
    )


async def _wait(ctx: Context, caller: GateCaller, held: Held) -> Held:
    """Wait for the decision, send the approved call, and return it with its answer.

    Returns earlier when the time of the request ends, or if the server cannot be reached.
    """
    end = time.monotonic() + conf.gate_wait_seconds()
    progress = _Progress(ctx)
    async with waiting_call(caller.caller), Subscription(channel_group(held.execution_id)) as news:
        while True:
            held = await in_thread(calls.held_call, caller, held.uid)
            if held.stage is Stage.APPROVED:
                answer = await sending.send_held(caller, held.uid, progress.report)
                held = await in_thread(calls.held_call, caller, held.uid)
                if answer is not None and answer.outcome == GateCall.Outcome.NOT_SENT:
                    return held
                if answer is not None and held.answer is None:
                    return calls.with_answer(held, answer)
            if held.stage not in (Stage.PENDING, Stage.SENT):
                return held
            left = end - time.monotonic()
            if left <= 0:
                return held
            await progress.waits(held)
            await news.wait(min(left, _POLL_SECONDS))


class _Progress:
    """Reports an increasing progress value, as the protocol requires."""

    def __init__(self, ctx: Context) -> None:
        self._report = ctx.session.report_progress
        self._value = 0.0

    async def waits(self, held: Held) -> None:
        """Report that the call still waits, which also keeps the client patient."""
        self._value += 1
        text = "waiting for the answer of the server"
        if held.stage is Stage.PENDING:
            text = f"waiting for a person: {held.review_url}"
        await self._report(self._value, None, text)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass the server's progress on, after the values that were reported so far."""
        offset = self._value
        await self._report(offset + progress, None if total is None else offset + total, message)


# --- tasks ----------------------------------------------------------------------------------------


async def _get_task(ctx: Context, params: tasks.TaskParams, caller: GateCaller) -> dict[str, Any]:
    tasks.require_tasks(ctx)
    held = await _own_task(caller, params.task_id)
    if held.stage is Stage.APPROVED and held.may_retry and not sending.is_under_way(held.uid):
        sending.start_held(caller, held.uid, ctx.session.report_progress)
    elif held.stage in (Stage.ANSWERED, Stage.REFUSED):
        await in_thread(calls.close, caller, held.uid)
    return tasks.detailed(held)


async def _own_task(caller: GateCaller, task_id: str) -> Held:
    try:
        return await in_thread(calls.held_call, caller, task_id)
    except Http404:
        message = "Failed to retrieve task: Task not found"
        raise MCPError(code=types.INVALID_PARAMS, message=message) from None


def _log(tool: str, caller: GateCaller, outcome: Outcome, seconds: float) -> None:
    status = "error" if getattr(outcome, "is_error", False) else "answered"
    if not isinstance(outcome, types.CallToolResult):
        status = "held"
    logger.info(
        "MCP gate call",
        extra={
            "gate": caller.gate,
            "tool": tool,
            "outcome": status,
            "user_id": caller.caller.user_id,
            "token_id": caller.caller.token_id,
            "duration_ms": round(seconds * 1000, 1),
        },
    )
