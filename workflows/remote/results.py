"""Results of calls as the processes of a cluster return them, which are not trusted."""

from __future__ import annotations

from typing import Final

from workflows.common.stored_text import storable
from workflows.engine.protocol.ports import Failure, Success
from workflows.engine.values.bounded_json import BoundedJSONError, parse
from workflows.engine.values.reasons import Reason

#: As `remote_process` cuts it, which a process of the cluster need not do.
_MAX_MESSAGE: Final = 2000


def result_of(text: object, logs: str = "") -> Success | Failure:
    """Return the result in the JSON of `remote_process.run`."""
    try:
        value = parse(text if isinstance(text, str) else "")
    except BoundedJSONError as error:
        return refused(str(error), logs)
    match value:
        case {"output": output}:
            return Success(output, 0, logs)
        case {"error": str(message), "retryable": bool(retryable)}:
            return failed(message, retryable=retryable, logs=logs)
    return refused("it is no result of a call", logs)


def failed(message: str, *, retryable: bool, logs: str = "") -> Failure:
    """Return the failure of a call, with as much of its message as a run stores."""
    return Failure(storable(message, _MAX_MESSAGE), retryable=retryable, logs=logs)


def refused(error: str, logs: str = "") -> Failure:
    """Return the failure of a call with an invalid result."""
    reason = Reason("remote_result_refused", {"error": error})
    return Failure(reason.text, logs=logs, reason=reason)


def lost(runner: str) -> Failure:
    """Return the failure of a call that its runner does not know any more."""
    reason = Reason("remote_call_lost", {"runner": runner})
    return Failure(reason.text, retryable=True, reason=reason)
