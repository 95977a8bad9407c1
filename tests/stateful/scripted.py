"""A task runner whose tasks act by their names and may die in the middle of a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.ports import (
    Failure,
    Heartbeat,
    PermissionEscalationNeeded,
    Success,
    TaskCall,
    TaskResult,
)


class PowerCut(BaseException):
    """The process is gone; nothing may be tidied up on its behalf."""


def host_of(task_id: str) -> str:
    """The host that an `ask` task needs."""
    return f"{task_id}.example:443"


def need_of(task_id: str, current: PermissionSet) -> PermissionEscalationNeeded:
    """What an `ask` task says when it was not granted its host."""
    return PermissionEscalationNeeded(
        operation="net",
        resource=host_of(task_id),
        current=current,
        requested=PermissionSet(hosts=(host_of(task_id),)),
    )


class ScriptedRunner:
    """engine.ports.TaskRunner; `calls` is what it was asked to run, `cut` says when it dies.

    `batch_size` results come at a time, so that a layer is recorded in several steps.
    """

    def __init__(self, *, batch_size: int = 1, cut: Callable[[], bool] = lambda: False) -> None:
        self.calls: list[TaskCall] = []
        self._batch_size = batch_size
        self.cut = cut

    def run(
        self, calls: Sequence[TaskCall], heartbeat: Heartbeat
    ) -> Iterator[Sequence[TaskResult]]:
        for start in range(0, len(calls), self._batch_size):
            part = calls[start : start + self._batch_size]
            self.calls += part
            if self.cut():
                raise PowerCut
            yield [TaskResult(call, outcome(call)) for call in part]
            if heartbeat():
                return


def outcome(call: TaskCall) -> Success | Failure | PermissionEscalationNeeded:
    """How one attempt of a task ends."""
    task: Any = call.task
    kind = task.tool.rpartition(".")[2]
    if kind == "fail":
        return Failure("no such thing")
    if kind == "late":
        return Failure("did not finish in time", retryable=True)
    if kind == "flaky" and call.attempt <= call.inputs["failures"]:
        return Failure("not yet", retryable=True)
    if kind == "ask":
        granted = [PermissionSet.model_validate(each) for each in call.grants]
        if not any(each.allows("net", host_of(task.id)) for each in granted):
            return need_of(task.id, PermissionSet())
    return Success(call.inputs.get("value"), 1.0)
