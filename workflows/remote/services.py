"""Submit tasks to remote runners, and read their results."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from workflows.common.stored_text import storable
from workflows.engine.plans.dag import Runner, ToolTask
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.ports import Failure, Submitted, Success, TaskCall, TaskFailed
from workflows.engine.protocol.state import RemoteCall
from workflows.engine.values.reasons import Reason
from workflows.tools import registry

from . import live_output
from .port import RunnerUnavailable
from .registry import configured_runners

logger = logging.getLogger(__name__)

_MAX_ERROR = 500


def runner_of(task: ToolTask) -> Runner | None:
    """Return the runner that the task names, or else its tool; None is a worker."""
    tool = registry.get(task.tool)
    return task.runner or (tool.runner if tool is not None else None)


def runner_problem(task: ToolTask, path: str) -> Problem | None:
    """Return why the task cannot run on its runner, at `path` of the field."""
    runner = runner_of(task)
    if runner is None:
        return None
    if runner not in configured_runners():
        message = Reason("runner_not_configured", {"runner": runner}).text
        return Problem(path, "runner_not_configured", message)
    tool = registry.get(task.tool)
    if tool is None or not tool.remote:
        message = f"{task.tool} is no Python tool that is declared with remote=True"
        return Problem(path, "not_remote", message)
    return None


def submit(call: TaskCall, permissions: PermissionSet, seconds: float) -> Submitted:
    """Submit a tool task under the key of its attempt; raises TaskFailed."""
    task = call.task
    if not isinstance(task, ToolTask) or task.runner is None:
        raise TypeError(f"{task.id} has no remote runner")
    runner, tool = configured_runners().get(task.runner), registry.get(task.tool)
    if runner is None or tool is None or not tool.remote:
        # Plans are checked when a run starts; the installation has changed since.
        reason = Reason("runner_not_configured", {"runner": task.runner})
        raise TaskFailed(reason, retryable=False)
    request = {
        "module": tool.function.__module__,
        "function": tool.function.__qualname__,
        "arguments": call.inputs,
        "key": call.key,
        "execution": call.execution_id,
        "task": task.id,
        "seconds": seconds,
        "permissions": permissions.model_dump(mode="json"),
        "feedback": call.feedback,
    }
    try:
        handle = runner.submit(call.key, json.dumps(request))
    except RunnerUnavailable as error:
        params = {"runner": task.runner, "error": storable(str(error), _MAX_ERROR)}
        raise TaskFailed(Reason("runner_unavailable", params)) from error
    return Submitted(task.runner, handle, seconds)


def results(calls: Sequence[RemoteCall]) -> dict[str, Success | Failure]:
    """Return by handle the results of the calls that have ended.

    A call whose runner cannot be reached counts as running until its time limit.
    """
    by_runner: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        by_runner[call.runner].append(call.handle)
    runners = configured_runners()
    found: dict[str, Success | Failure] = {}
    for name, handles in by_runner.items():
        if name not in runners:
            continue
        try:
            found.update(runners[name].look(handles))
        except RunnerUnavailable as error:
            logger.warning("cannot read results of the runner %s: %s", name, error)
    return _with_logs(found)


def _with_logs(found: Mapping[str, Success | Failure]) -> dict[str, Success | Failure]:
    """Add the lines that were read while a call ran, where the cluster has none any more."""
    stored = live_output.read([handle for handle, outcome in found.items() if not outcome.logs])
    return {
        handle: replace(outcome, logs=stored[handle].logs) if handle in stored else outcome
        for handle, outcome in found.items()
    }
