"""Send a call to its MCP server and record the answer.

A held call is sent by a task of its own: a client that goes away after the approval does not stop
an action that people have approved, and asking again returns its answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError

from workflows import conf
from workflows.engine.protocol.ports import TaskFailed
from workflows.mcp_server.threads import in_thread
from workflows.models import GateCall
from workflows.tools.mcp_client import pool
from workflows.tools.mcp_client.session_pool import NotSent

from . import calls
from .callers import GateCaller
from .calls import Answer, Sending
from .elicitation import Questions

Report = Callable[[float, float | None, str | None], Awaitable[None]]

#: Tasks that send held calls in this process, by the call's id. Only the event loop changes it.
_under_way: dict[str, asyncio.Task[Answer]] = {}

logger = logging.getLogger(__name__)


async def send(caller: GateCaller, sending: Sending, report: Report) -> Answer:
    """Send a call, record its answer and return it; a cancellation is passed to the server."""
    try:
        answer = await _answer(caller, sending, report)
    except BaseException as error:
        # The request was cancelled, or this is a defect: the server may have executed the call.
        text = "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
        lost = Answer(GateCall.Outcome.UNKNOWN, error=f"The call was interrupted: {text}.")
        with anyio.CancelScope(shield=True):
            await in_thread(calls.record, sending.call_id, lost)
        raise
    await in_thread(calls.record, sending.call_id, answer)
    return answer


async def _answer(caller: GateCaller, sending: Sending, report: Report) -> Answer:
    target = sending.target
    loop = asyncio.get_running_loop()
    last = 0.0

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        # Called on the loop of the pool.
        nonlocal last
        last = progress
        asyncio.run_coroutine_threadsafe(_reported(report, progress, total, message), loop)

    async def on_waiting(text: str) -> None:
        # The value of a progress has to increase; the server's next one is larger than this.
        nonlocal last
        last += 0.001
        await _reported(report, last, None, text)

    try:
        async with Questions(caller, sending.call_id, on_waiting) as questions:
            result = await pool().call_unchanged(
                target.spec,
                target.tool,
                sending.arguments,
                timeout=conf.gate_call_seconds(),
                on_progress=on_progress,
                on_elicit=questions.answer,
            )
    except NotSent as error:
        text = f"The server {target.spec.name} cannot be reached: {error}"
        return Answer(GateCall.Outcome.NOT_SENT, error=text)
    except MCPError as error:
        body = error.error.model_dump(mode="json", exclude_none=True)
        return Answer(GateCall.Outcome.ERROR, body, error.error.message)
    except TaskFailed as error:
        return Answer(GateCall.Outcome.UNKNOWN, error=str(error))
    body = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    outcome = GateCall.Outcome.TOOL_ERROR if result.is_error else GateCall.Outcome.ANSWERED
    return Answer(outcome, body)


async def _reported(
    report: Report, progress: float, total: float | None, message: str | None
) -> None:
    # The client may be gone.
    with suppress(Exception):
        await report(progress, total, message)


async def send_held(caller: GateCaller, uid: str, report: Report) -> Answer | None:
    """Send an approved call unless another process does; return its answer if this one sent it."""
    task = _under_way.get(uid)
    if task is None:
        sending = await in_thread(calls.claim, caller, uid)
        if sending is None:
            return None
        task = asyncio.create_task(send(caller, sending, report), name=f"gate-call-{uid}")
        _under_way[uid] = task
        task.add_done_callback(lambda done: _forget(uid, done))
    return await asyncio.shield(task)


def _forget(uid: str, task: asyncio.Task[Answer]) -> None:
    _under_way.pop(uid, None)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a call of a gate failed", exc_info=error)


def stop(uid: str) -> None:
    """Pass a cancellation to the server if this process has sent the call."""
    task = _under_way.get(uid)
    if task is not None:
        task.cancel()


def is_under_way(uid: str) -> bool:
    """Whether this process is sending the call."""
    return uid in _under_way


def start_held(caller: GateCaller, uid: str, report: Report) -> None:
    """Send an approved call without waiting for its answer."""
    work: Any = send_held(caller, uid, report)
    task = asyncio.create_task(work)
    _starting.add(task)
    task.add_done_callback(_starting.discard)


#: Keeps a reference to tasks that nobody awaits.
_starting: set[asyncio.Task[Any]] = set()
