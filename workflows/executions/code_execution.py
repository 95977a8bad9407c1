"""Run the code of code tasks and capabilities in the sandbox."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workflows import conf
from workflows.common.schemas import FieldError, schema_errors
from workflows.engine.plans.dag import CapabilityTask, CodeTask
from workflows.engine.policy.permissions import is_scratch_path
from workflows.engine.protocol.ports import TaskCall, TaskFailed
from workflows.engine.values.reasons import Reason
from workflows.permissions import deny_list
from workflows.permissions.capabilities import StoredCode
from workflows.permissions.effective import EffectivePermissions
from workflows.sandbox import CodeRequest, CodeResult, SandboxConfig, clear_leftovers, run_code
from workflows.tools.approved_files import check_approved_files
from workflows.tools.run_folders import run_folder

logger = logging.getLogger(__name__)


def granted_values(names: Iterable[str]) -> dict[str, str]:
    """Return the worker's values of these environment variables, except the product's own."""
    return {
        name: os.environ[name]
        for name in names
        if name in os.environ and not deny_list.variable_problem(name)
    }


def sandbox_config() -> SandboxConfig:
    """Return the sandbox settings of this installation, and create the folder for its runs."""
    root = conf.sandbox_root()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SandboxConfig(
        temp_root=root,
        landlock=conf.sandbox_landlock(),
        allow_root=conf.sandbox_allow_root(),
    )


def clear_sandbox() -> None:
    """Delete the folders, and end the processes, that killed workers left in the sandbox."""
    root = conf.sandbox_root()
    cleared = clear_leftovers(root) if root.is_dir() else 0
    if cleared:
        logger.info("deleted %s sandbox folders of ended workers", cleared)


def run_task_code(
    call: TaskCall, effective: EffectivePermissions, seconds: float, should_stop: Callable[[], bool]
) -> CodeResult:
    """Run the code of a code or capability task in this thread; raises as `run_code` does.

    Inputs and output of a capability must match its schemas. Code that can open the run's files
    fails if a file that a person approved has changed, before or while it runs.
    """
    code = effective.code
    if isinstance(call.task, CapabilityTask):
        _check_inputs(call.task, code, call.inputs)
    request = code_request(call, effective, seconds)
    if request.scratch_dir is None:
        result = run_code(request, should_stop)
    else:
        check_again = check_approved_files(int(call.execution_id))
        result = run_code(request, should_stop)
        check_again()
    if code is not None:
        _check_output(code, result)
    return result


def code_request(call: TaskCall, effective: EffectivePermissions, seconds: float) -> CodeRequest:
    """Return the sandbox request for a task, with a time limit of `seconds`.

    Code with a permission for files works in the folder of its run, other code in an empty one.
    """
    task = call.task if isinstance(call.task, CodeTask) else effective.code
    if task is None:
        raise TaskFailed(Reason("no_code"), retryable=False)
    paths = (*effective.permissions.read_paths, *effective.permissions.write_paths)
    uses_files = any(map(is_scratch_path, paths))
    return CodeRequest(
        language=task.language,
        code=task.code,
        inputs=call.inputs,
        permissions=effective.permissions,
        timeout_seconds=seconds,
        memory_mb=conf.sandbox_memory_mb(),
        scratch_dir=run_folder(int(call.execution_id)) if uses_files else None,
        env=granted_values(effective.permissions.env_names),
        config=sandbox_config(),
    )


def _check_inputs(task: CapabilityTask, code: StoredCode | None, inputs: Mapping[str, Any]) -> None:
    if code is None:
        reason = Reason("no_such_capability", {"capability": task.capability})
        raise TaskFailed(reason, retryable=False)
    errors = schema_errors(code.input_schema, dict(inputs))
    if errors:
        message = f"the inputs do not match the capability {code.name}: {_joined(errors)}"
        raise TaskFailed(message, retryable=False)


def _check_output(code: StoredCode, result: CodeResult) -> None:
    errors = schema_errors(code.output_schema, result.value)
    if errors:
        message = f"the output does not match the capability {code.name}: {_joined(errors)}"
        failure = TaskFailed(message, retryable=False)
        failure.logs = result.logs
        raise failure


def _joined(errors: Iterable[FieldError]) -> str:
    return "; ".join(str(each) for each in errors)
