"""Run the tasks of a layer concurrently: Python tools, MCP tools, code, capabilities.

Synchronous calls run in threads, asynchronous ones on the background loop.  The calling thread
waits for both; its heartbeat renews the lease and checks for an abort.  A thread cannot be killed:
a synchronous tool that exceeds its time limit continues in the background, and its result is
discarded.

Waking a thread takes longer than a quick tool.  One thread therefore starts with the synchronous
tasks of a layer, and the tasks that it has not started after a moment get further threads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.db import connections

from workflows import conf
from workflows.common import background_loop
from workflows.common.crashpoints import crashpoint
from workflows.common.secret_encryption import UndecryptedText
from workflows.common.stored_text import storable
from workflows.engine.plans.dag import ExternalActionTask, ToolTask
from workflows.engine.protocol.ports import (
    Failure,
    Heartbeat,
    PermissionEscalationNeeded,
    Submitted,
    Success,
    TaskCall,
    TaskFailed,
    TaskResult,
)
from workflows.engine.values.reasons import Reason
from workflows.models import McpServer
from workflows.permissions import deny_list
from workflows.permissions.effective import EffectivePermissions, GrantWatch, effective_permissions
from workflows.remote import services as remote
from workflows.sandbox import CodeResult
from workflows.tools import registry
from workflows.tools.approved_files import approved_files, check_approved_files
from workflows.tools.context import ToolContext
from workflows.tools.invocation import call as call_async
from workflows.tools.invocation import call_sync
from workflows.tools.mcp_client import (
    McpServerSpec,
    paths_problem,
    pool,
    ports_problem,
)
from workflows.tools.run_folders import run_folder

from .code_execution import run_task_code

#: Seconds that the sandbox has to end a program after its time limit.
_GRACE = 1.0
#: Seconds between two heartbeats; the journal renews the lease less often.
_TICK = 0.1
_MAX_THREADS = 64
#: Characters of an error or of logs that an attempt keeps.
_MAX_TEXT = 20_000
#: Seconds before further threads join the first one.
_HEAD_START = 0.001


# One pool per process, made at first use and never replaced.
@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_MAX_THREADS, thread_name_prefix="task")


class _CallQueue:
    """The synchronous calls of one layer, and the threads that run them in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()

    def add(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, function, args))
        return future

    def add_threads(self, number: int) -> None:
        """Let up to `number` more threads run calls, at most one for each waiting call."""
        for _ in range(min(number, len(self._waiting))):
            # Log lines of the thread name the same execution and request.
            _threads().submit(copy_context().run, self._run)

    def _run(self) -> None:
        try:
            while True:
                future, function, args = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    _run_call(future, function, args)
        except IndexError:
            return
        finally:
            # A tool may have opened a database connection in this thread.
            for connection in connections.all(initialized_only=True):
                connection.close()


def _run_call(future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        value = function(*args)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(value)


@dataclass(slots=True)
class _Running:
    """A task that runs."""

    call: TaskCall
    future: Future[Any]
    cancelled: threading.Event
    started: float
    deadline: float
    effective: EffectivePermissions

    def result(self) -> TaskResult:
        crashpoint("task.result")
        duration = (time.perf_counter() - self.started) * 1000
        try:
            value = self.future.result(timeout=0)
        except PermissionEscalationNeeded as need:
            duration = (time.perf_counter() - self.started) * 1000
            denied = deny_list.problem_of(need.requested.difference(need.current))
            if denied:
                # No one may grant it, so the task fails instead of opening a hold.
                params = {
                    name: storable(str(value), _MAX_TEXT) for name, value in denied.params.items()
                }
                reason = Reason(denied.code, params)
                failed = Failure(reason.text, duration, logs=need.logs, reason=reason)
                return TaskResult(self.call, failed)
            return TaskResult(self.call, need)
        except TaskFailed as failure:
            message, logs = storable(failure.message, _MAX_TEXT), storable(failure.logs, _MAX_TEXT)
            outcome = Failure(message, duration, failure.retryable, logs, failure.reason)
            return TaskResult(self.call, outcome)
        except Exception as error:
            message = storable(f"{type(error).__name__}: {error}", _MAX_TEXT)
            return TaskResult(self.call, Failure(message, duration, retryable=True))
        if isinstance(value, Submitted):
            return TaskResult(self.call, value)
        if isinstance(value, CodeResult):
            logs = storable(value.logs, _MAX_TEXT)
            return TaskResult(self.call, Success(value.value, duration, logs))
        return TaskResult(self.call, Success(value, duration))

    def permission_lost(self) -> TaskResult:
        duration = (time.perf_counter() - self.started) * 1000
        reason = Reason("permission_lost")
        return TaskResult(self.call, Failure(reason.text, duration, reason=reason))

    def timed_out(self) -> TaskResult:
        limit = time_limit(self.call)
        reason = Reason("task_timed_out", {"seconds": f"{limit:g}"})
        outcome = Failure(reason.text, limit * 1000, retryable=True, reason=reason)
        return TaskResult(self.call, outcome)


def time_limit(call: TaskCall) -> float:
    """Return the time limit of a task in seconds."""
    return call.task.timeout_seconds or conf.task_timeout_seconds()


@dataclass
class LayerRunner:
    """engine.ports.TaskRunner."""

    window: Callable[[], float] = field(default=conf.commit_window_seconds)

    def run(
        self, calls: Sequence[TaskCall], heartbeat: Heartbeat
    ) -> Iterator[Sequence[TaskResult]]:
        queue = _CallQueue()
        effective = effective_permissions(calls)
        grant_watch = GrantWatch(effective.values())
        running = [_start(call, effective[call.task.id], queue) for call in calls]
        window = self.window()
        try:
            queue.add_threads(1)
            wait([each.future for each in running], timeout=_HEAD_START)
            queue.add_threads(_MAX_THREADS)
            wait([each.future for each in running], timeout=window)
            while running:
                batch, running = _collect(running, grant_watch.lapsed())
                if batch or window:
                    yield batch
                if heartbeat() or not running:
                    return
                window = 0.0
                if _wait_for_one(running):
                    wait([each.future for each in running], timeout=self.window())
        finally:
            for each in running:
                _stop(each)


def _wait_for_one(running: Sequence[_Running]) -> bool:
    """Wait until a task is done, for one tick at most; returns whether one is."""
    return bool(wait([each.future for each in running], _TICK, FIRST_COMPLETED).done)


def _collect(
    running: Sequence[_Running], lapsed: frozenset[int]
) -> tuple[list[TaskResult], list[_Running]]:
    """Return the results of tasks that ended, and the tasks that still run.

    Tasks that exceeded their time limit or lost a permission are stopped.
    """
    results, still_running = [], []
    for each in running:
        if each.future.done():
            results.append(each.result())
        elif not lapsed.isdisjoint(each.effective.grants):
            _stop(each)
            results.append(each.permission_lost())
        elif time.monotonic() > each.deadline:
            _stop(each)
            results.append(each.timed_out())
        else:
            still_running.append(each)
    return results, still_running


def _stop(each: _Running) -> None:
    each.cancelled.set()
    each.future.cancel()


def _start(call: TaskCall, effective: EffectivePermissions, queue: _CallQueue) -> _Running:
    cancelled = threading.Event()
    # The sandbox has its own time limit, and its error message says more.
    grace = 0.0 if isinstance(call.task, ToolTask) else _GRACE
    deadline = time.monotonic() + time_limit(call) + grace
    started = time.perf_counter()
    try:
        future = _submit(call, effective, cancelled, deadline, queue)
    except TaskFailed as failure:
        future = Future()
        future.set_exception(failure)
    return _Running(call, future, cancelled, started, deadline, effective)


def _submit(
    call: TaskCall,
    effective: EffectivePermissions,
    cancelled: threading.Event,
    deadline: float,
    queue: _CallQueue,
) -> Future[Any]:
    task = call.task
    if isinstance(task, ExternalActionTask):
        return _completed(task.result(call.inputs))
    effective.check()
    execution_id = int(call.execution_id)
    if not isinstance(task, ToolTask):
        return queue.add(run_task_code, call, effective, time_limit(call), cancelled.is_set)
    if task.runner is not None:
        return queue.add(remote.submit, call, effective.permissions, time_limit(call))
    tool = registry.get(task.tool)
    if tool is not None:
        ctx = ToolContext(
            idempotency_key=call.key,
            execution_id=call.execution_id,
            task_id=task.id,
            deadline=deadline,
            cancelled=cancelled,
            permissions=effective.permissions,
            feedback=call.feedback,
            folder=partial(run_folder, execution_id),
            approved_files=partial(approved_files, execution_id),
        )
        if tool.is_async:
            return background_loop.submit(call_async(tool, call.inputs, ctx))
        return queue.add(call_sync, tool, call.inputs, ctx)
    server, _, name = task.tool.partition(".")
    spec = server_spec(server, execution_id=call.execution_id)
    check_again = check_approved_files(execution_id) if spec.transport == "stdio" else None
    remaining = deadline - time.monotonic()
    answer = pool().call(spec, name, call.inputs, remaining, cancelled.is_set)
    return background_loop.submit(_checked(answer, check_again) if check_again else answer)


async def _checked(answer: Coroutine[Any, Any, Any], check_again: Callable[[], None]) -> Any:
    """Return the answer of a program that opens files, if the approved ones stayed as they were."""
    value = await answer
    await asyncio.to_thread(check_again)
    return value


def _completed(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def server_spec(name: str, *, execution_id: str = "") -> McpServerSpec:
    """Return the connection parameters of an enabled MCP server; raises TaskFailed.

    A stdio server has a process for each execution, which starts in the folder of the run.
    """
    row = McpServer.objects.filter(name=name, enabled=True).first()
    if row is None:
        raise TaskFailed(Reason("no_tool_server", {"server": name}), retryable=False)
    try:
        spec = spec_of(row)
    except ValueError as error:
        raise TaskFailed(str(error), retryable=False) from None
    if spec.transport != "stdio" or not execution_id:
        return spec
    has_folder = bool(settings.HOLDPOINT.get("file_root"))
    folder = str(run_folder(int(execution_id))) if has_folder else ""
    return replace(spec, run=execution_id, folder=folder)


def spec_of(row: McpServer) -> McpServerSpec:
    """Convert a server's row; raises ValueError if a part is malformed or cannot be decrypted."""
    for kind, texts in (("variable", row.env), ("header", row.headers)):
        lost = sorted(name for name, text in texts.items() if isinstance(text, UndecryptedText))
        if lost:
            raise ValueError(
                f"the {kind} {', '.join(lost)} of {row.name} was encrypted with a SECRET_KEY that "
                "is no longer configured; an admin has to enter it again"
            )
    for name, problem in (
        ("read_paths", paths_problem(row.read_paths, "read")),
        ("write_paths", paths_problem(row.write_paths, "write")),
        ("tcp_ports", ports_problem(row.tcp_ports)),
    ):
        if problem:
            raise ValueError(f"{name} of {row.name}: {problem}")
    return McpServerSpec(
        name=row.name,
        transport="stdio" if row.transport == McpServer.Transport.STDIO else "http",
        command=row.command,
        args=tuple(row.args),
        env=MappingProxyType(dict(row.env)),
        url=row.url,
        headers=MappingProxyType(dict(row.headers)),
        read_paths=tuple(row.read_paths),
        write_paths=tuple(row.write_paths),
        tcp_ports=tuple(row.tcp_ports),
    )
