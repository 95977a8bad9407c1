"""Runs a layer's tasks side by side: Python tools, MCP tools, code, capabilities.

Sync work goes to threads, async work to the background loop; the calling thread waits for both,
keeps the lease alive meanwhile and hears of an abort.  A thread cannot be killed: a sync tool that
runs past its time goes on alone, and its result is dropped.

Waking a thread costs more than a quick tool does.  So one thread begins with a layer's sync tasks,
and only what it has not got to after a moment is given a thread of its own.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db import connections

from workflows import conf
from workflows.common import background_loop
from workflows.common.crashpoints import crashpoint
from workflows.common.secret_encryption import UndecryptedText
from workflows.engine.dag import ToolTask
from workflows.engine.ports import (
    Failure,
    PermissionEscalationNeeded,
    Success,
    TaskCall,
    TaskFailed,
    TaskResult,
    Watch,
)
from workflows.models import McpServer
from workflows.permissions import deny_list
from workflows.permissions.effective import EffectivePermissions, GrantWatch, effective_permissions
from workflows.sandbox import CodeResult
from workflows.tools import registry
from workflows.tools.context import ToolContext
from workflows.tools.invocation import call as call_async
from workflows.tools.invocation import call_sync
from workflows.tools.mcp_client import McpServerSpec, pool

from .code_execution import run_task_code

#: Seconds by which the sandbox may end a program before it is called late here.
_GRACE = 1.0
#: How often the waiting thread looks after the lease, in seconds.
_TICK = 0.1
_THREADS = 64
#: How long one thread works alone on a layer, in seconds.
_HEAD_START = 0.001


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="task")


class _Lane:
    """The sync calls of one layer, taken in order by as many threads as were let in."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()

    def add(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, function, args))
        return future

    def let_in(self, threads: int) -> None:
        """Have up to this many more threads take calls, no more than there are calls."""
        for _ in range(min(threads, len(self._waiting))):
            # In a context like ours: log lines name the same execution and request.
            _threads().submit(copy_context().run, self._take)

    def _take(self) -> None:
        try:
            while True:
                future, function, args = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    _fulfil(future, function, args)
        except IndexError:
            return
        finally:
            # A tool may use the database; its thread must not keep the connection.
            for connection in connections.all(initialized_only=True):
                connection.close()


def _fulfil(future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        value = function(*args)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


@dataclass(slots=True)
class _Running:
    """A task under way."""

    call: TaskCall
    future: Future[Any]
    cancelled: threading.Event
    started: float
    deadline: float
    permit: EffectivePermissions

    def result(self) -> TaskResult:
        crashpoint("task.result")
        duration = (time.perf_counter() - self.started) * 1000
        try:
            value = self.future.result(timeout=0)
        except PermissionEscalationNeeded as need:
            duration = (time.perf_counter() - self.started) * 1000
            denied = deny_list.problem_of(need.requested.difference(need.current))
            if denied:
                # Nobody may grant it, so nobody is asked.
                return TaskResult(self.call, Failure(_clean(denied), duration, logs=need.logs))
            return TaskResult(self.call, need)
        except TaskFailed as failure:
            message, logs = _clean(failure.message), _clean(failure.logs)
            return TaskResult(self.call, Failure(message, duration, failure.retryable, logs))
        except Exception as error:
            message = _clean(f"{type(error).__name__}: {error}")
            return TaskResult(self.call, Failure(message, duration, retryable=True))
        if isinstance(value, CodeResult):
            logs = _clean(value.logs)
            return TaskResult(self.call, Success(value.value, duration, logs))
        return TaskResult(self.call, Success(value, duration))

    def lapsed(self) -> TaskResult:
        duration = (time.perf_counter() - self.started) * 1000
        message = "a permission it ran with was taken back, or its time was over"
        return TaskResult(self.call, Failure(message, duration))

    def timed_out(self) -> TaskResult:
        limit = time_limit(self.call)
        outcome = Failure(f"did not finish within {limit:g} s", limit * 1000, retryable=True)
        return TaskResult(self.call, outcome)


def _clean(text: str) -> str:
    """Text that PostgreSQL takes: no NUL, no lone surrogates, bounded."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:20_000]


def time_limit(call: TaskCall) -> float:
    """Seconds this task may take."""
    return call.task.timeout_seconds or conf.task_timeout_seconds()


@dataclass
class LayerRunner:
    """engine.ports.TaskRunner."""

    window: Callable[[], float] = field(default=conf.commit_window_seconds)

    def run(self, calls: Sequence[TaskCall], watch: Watch) -> Iterator[Sequence[TaskResult]]:
        lane = _Lane()
        permits = effective_permissions(calls)
        ledger = GrantWatch(permits.values())
        running = [_start(call, permits[call.task.id], lane) for call in calls]
        window = self.window()
        try:
            lane.let_in(1)
            wait([each.future for each in running], timeout=_HEAD_START)
            lane.let_in(_THREADS)
            wait([each.future for each in running], timeout=window)
            while running:
                batch, running = _sort(running, ledger.lapsed())
                if batch or window:
                    yield batch
                if watch() or not running:
                    return
                window = 0.0
                if _wait_for_one(running):
                    wait([each.future for each in running], timeout=self.window())
        finally:
            for each in running:
                _stop(each)


def _wait_for_one(running: Sequence[_Running]) -> bool:
    """Wait a tick, or until a task is done; True when one is."""
    return bool(wait([each.future for each in running], _TICK, FIRST_COMPLETED).done)


def _sort(
    running: Sequence[_Running], lapsed: frozenset[int]
) -> tuple[list[TaskResult], list[_Running]]:
    """Results of what is done, out of time or out of permission, and what still runs."""
    results, still = [], []
    for each in running:
        if each.future.done():
            results.append(each.result())
        elif not lapsed.isdisjoint(each.permit.grants):
            _stop(each)
            results.append(each.lapsed())
        elif time.monotonic() > each.deadline:
            _stop(each)
            results.append(each.timed_out())
        else:
            still.append(each)
    return results, still


def _stop(each: _Running) -> None:
    each.cancelled.set()
    each.future.cancel()


def _start(call: TaskCall, permit: EffectivePermissions, lane: _Lane) -> _Running:
    cancelled = threading.Event()
    # The sandbox keeps its own time and says more about how it ended.
    grace = 0.0 if isinstance(call.task, ToolTask) else _GRACE
    deadline = time.monotonic() + time_limit(call) + grace
    started = time.perf_counter()
    try:
        future = _submit(call, permit, cancelled, deadline, lane)
    except TaskFailed as failure:
        future = Future()
        future.set_exception(failure)
    return _Running(call, future, cancelled, started, deadline, permit)


def _submit(
    call: TaskCall,
    permit: EffectivePermissions,
    cancelled: threading.Event,
    deadline: float,
    lane: _Lane,
) -> Future[Any]:
    permit.check()
    task = call.task
    if not isinstance(task, ToolTask):
        return lane.add(run_task_code, call, permit, time_limit(call), cancelled.is_set)
    tool = registry.get(task.tool)
    if tool is not None:
        ctx = ToolContext(
            idempotency_key=call.key,
            execution_id=call.execution_id,
            task_id=task.id,
            deadline=deadline,
            cancelled=cancelled,
            permissions=permit.permissions,
            feedback=call.feedback,
        )
        if tool.is_async:
            return background_loop.submit(call_async(tool, call.inputs, ctx))
        return lane.add(call_sync, tool, call.inputs, ctx)
    server, _, name = task.tool.partition(".")
    spec = server_spec(server)
    remaining = deadline - time.monotonic()
    return background_loop.submit(pool().call(spec, name, call.inputs, remaining, cancelled.is_set))


def server_spec(name: str) -> McpServerSpec:
    """How to reach an enabled MCP server; TaskFailed when there is none of this name."""
    row = McpServer.objects.filter(name=name, enabled=True).first()
    if row is None:
        message = f"there is no tool server {name!r}, or it is disabled"
        raise TaskFailed(message, retryable=False)
    try:
        return spec_of(row)
    except ValueError as error:
        raise TaskFailed(str(error), retryable=False) from None


def spec_of(row: McpServer) -> McpServerSpec:
    """A server's row as the client's spec; ValueError when a part is malformed or lost."""
    for what, texts in (("variable", row.env), ("header", row.headers)):
        lost = sorted(name for name, text in texts.items() if isinstance(text, UndecryptedText))
        if lost:
            raise ValueError(
                f"the {what} {', '.join(lost)} of {row.name} was sealed with a SECRET_KEY that is "
                "gone; an admin has to enter it again"
            )
    return McpServerSpec(
        name=row.name,
        transport="stdio" if row.transport == McpServer.Transport.STDIO else "http",
        command=row.command,
        args=tuple(row.args),
        env=dict(row.env),
        url=row.url,
        headers=dict(row.headers),
    )
