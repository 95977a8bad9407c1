"""The function that a remote runner calls in its own processes.

These processes have Holdpoint and the tools installed, but no settings, database, Redis or secrets:
nothing here reads them.  Request and result are JSON.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Mapping
from functools import reduce
from importlib import import_module
from typing import Any

from workflows.engine.plans.task_errors import (
    PermissionEscalationNeeded,
    TaskFailed,
    attempt_reason,
)
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.values.reasons import Reason
from workflows.tools.context import ToolContext
from workflows.tools.signatures import Signature

from .capture import Capture, Publish, capturing


def run(request: str, publish: Publish) -> str:
    """Call a tool; returns `{"output": …}` or `{"error": …, "retryable": …}`.

    `publish` receives what the tool prints, while it runs and at its end.
    """
    with capturing(publish) as capture:
        return _result(request, capture)


def _result(request: str, capture: Capture) -> str:
    try:
        return json.dumps({"output": _output(json.loads(request), capture)})
    except TaskFailed as failure:
        return _failed(failure.message, retryable=failure.retryable)
    except PermissionEscalationNeeded as need:
        attempt = attempt_reason(need.operation, need.resource)
        return _failed(Reason("remote_permission", {"attempt": attempt}).text, retryable=False)
    except Exception as error:
        return _failed(f"{type(error).__name__}: {error}", retryable=True)


def _failed(message: str, *, retryable: bool) -> str:
    return json.dumps({"error": message[:2000], "retryable": retryable})


def _output(call: Mapping[str, Any], capture: Capture) -> Any:
    module: Any = import_module(call["module"])
    function: Any = reduce(getattr, call["function"].split("."), module)
    signature = Signature.of(function)
    context = ToolContext(
        idempotency_key=call["key"],
        execution_id=call["execution"],
        task_id=call["task"],
        deadline=time.monotonic() + call["seconds"],
        permissions=PermissionSet.model_validate(call["permissions"]),
        feedback=tuple(call["feedback"]),
        on_progress=capture.report,
    )
    value = function(**signature.bind(call["arguments"], context))
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    return signature.result(value)
