"""Code of tasks and capabilities on its way into the sandbox: request, schemas, place."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workflows import conf
from workflows.common.schemas import FieldError, schema_errors
from workflows.engine.dag import CapabilityTask, CodeTask
from workflows.engine.ports import TaskCall, TaskFailed
from workflows.permissions import deny_list
from workflows.permissions.capabilities import StoredCode
from workflows.permissions.effective import EffectivePermissions
from workflows.sandbox import CodeRequest, CodeResult, SandboxConfig, clear_leftovers, run_code

logger = logging.getLogger(__name__)


def granted_values(names: Iterable[str]) -> dict[str, str]:
    """The worker's own values of these environment names, those of the product left out."""
    return {
        name: os.environ[name]
        for name in names
        if name in os.environ and not deny_list.variable_problem(name)
    }


def sandbox_config() -> SandboxConfig:
    """The installation's bounds; makes the folder in which runs have theirs."""
    root = conf.sandbox_root()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SandboxConfig(
        temp_root=root,
        landlock=conf.sandbox_landlock(),
        allow_root=conf.sandbox_allow_root(),
    )


def clear_sandbox() -> None:
    """At a worker's start: delete what killed workers left, end what still runs there."""
    root = conf.sandbox_root()
    cleared = clear_leftovers(root) if root.is_dir() else 0
    if cleared:
        logger.info("cleared %s folders that ended workers left in the sandbox", cleared)


def run_task_code(
    call: TaskCall, permit: EffectivePermissions, seconds: float, should_stop: Callable[[], bool]
) -> CodeResult:
    """Run the code of a code or capability task in this thread; raises as `run_code` does.

    A capability's inputs and output have to fit its schemas.
    """
    code = permit.code
    if isinstance(call.task, CapabilityTask):
        _check_inputs(call.task, code, call.inputs)
    result = run_code(code_request(call, permit, seconds), should_stop)
    if code is not None:
        _check_output(code, result)
    return result


def code_request(call: TaskCall, permit: EffectivePermissions, seconds: float) -> CodeRequest:
    """The sandbox's request for a task, at most `seconds` of wall clock."""
    task = call.task if isinstance(call.task, CodeTask) else permit.code
    if task is None:
        raise TaskFailed("there is no code to run", retryable=False)
    return CodeRequest(
        language=task.language,
        code=task.code,
        inputs=call.inputs,
        permissions=permit.permissions,
        timeout_seconds=seconds,
        memory_mb=conf.sandbox_memory_mb(),
        env=granted_values(permit.permissions.env_names),
        config=sandbox_config(),
    )


def _check_inputs(task: CapabilityTask, code: StoredCode | None, inputs: Mapping[str, Any]) -> None:
    if code is None:
        message = f"there is no capability {task.capability!r}, or it is disabled"
        raise TaskFailed(message, retryable=False)
    errors = schema_errors(code.input_schema, dict(inputs))
    if errors:
        message = f"the inputs do not fit the capability {code.name}: {_told(errors)}"
        raise TaskFailed(message, retryable=False)


def _check_output(code: StoredCode, result: CodeResult) -> None:
    errors = schema_errors(code.output_schema, result.value)
    if errors:
        message = f"the output does not fit the capability {code.name}: {_told(errors)}"
        failure = TaskFailed(message, retryable=False)
        failure.logs = result.logs
        raise failure


def _told(errors: Iterable[FieldError]) -> str:
    return "; ".join(str(each) for each in errors)
