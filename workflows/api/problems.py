"""Error responses of the API as `application/problem+json` (RFC 9457), with stable codes.

    {"type": "about:blank", "title": "Conflict", "status": 409, "code": "stale_version",
     "detail": "the execution has moved on", "reason": "…", "errors": [{path, code, message}],
     "state": {id, status, version, holds}}

`code` is one of CODES; `reason` is a more specific code for `refused` and `forbidden`; `errors`
names fields; `state` is the current state for a caller with an old version.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import DataError
from django.http import Http404, JsonResponse
from rest_framework import exceptions as drf
from rest_framework.response import Response

from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.engine.values.bounded_json import BoundedJSONError
from workflows.executions.validation import InvalidRequest
from workflows.journal.writer import ExecutionNotFound
from workflows.models import Execution, Hold

#: Every error below these paths is a problem document.
ROOTS = ("/api/", "/access/")
CONTENT_TYPE = "application/problem+json"
CODES = (
    "malformed",
    "invalid",
    "unauthenticated",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "not_acceptable",
    "refused",
    "stale_version",
    "precondition_failed",
    "length_required",
    "too_large",
    "unsupported_media_type",
    "idempotency_mismatch",
    "throttled",
    "internal_error",
    "unavailable",
)


class BodyTooLarge(drf.APIException):
    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"


class PreconditionFailed(drf.APIException):
    """`If-Match` names a state that is not the current one."""

    status_code = HTTPStatus.PRECONDITION_FAILED
    default_code = "precondition_failed"
    default_detail = "It was changed meanwhile. Read it again and send the ETag of that answer."


class IdempotencyMismatch(drf.APIException):
    """The Idempotency-Key was used before with another body."""

    status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    default_code = "idempotency_mismatch"
    default_detail = "This Idempotency-Key was used with another body."


@dataclass(frozen=True, slots=True)
class _Kind:
    status: int
    code: str


#: Exceptions of this project and of Django; the first match in the MRO applies.
_KINDS: dict[type[Exception], _Kind] = {
    InvalidRequest: _Kind(422, "invalid"),
    StaleVersion: _Kind(409, "stale_version"),
    Refused: _Kind(409, "refused"),
    ExecutionNotFound: _Kind(404, "not_found"),
    Http404: _Kind(404, "not_found"),
    PermissionDenied: _Kind(403, "forbidden"),
    BoundedJSONError: _Kind(400, "malformed"),
    DjangoValidationError: _Kind(422, "invalid"),
    RequestDataTooBig: _Kind(413, "too_large"),
    SuspiciousOperation: _Kind(400, "malformed"),
    # Text that PostgreSQL or UTF-8 cannot store and that no earlier check rejected.
    DataError: _Kind(400, "malformed"),
    UnicodeEncodeError: _Kind(400, "malformed"),
}
_DRF_CODES = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "too_large",
    415: "unsupported_media_type",
    429: "throttled",
}
_HIDDEN_DETAIL = (DataError, UnicodeEncodeError, SuspiciousOperation)


def register(exception: type[Exception], *, status: int, code: str) -> None:
    """Convert `exception` to a problem document.

    `detail` is its `message` (or its text), `reason` its `code`, `errors` its `problems` or
    `errors` (each with path, message and, if it has one, code), `state` its `state`.
    """
    _KINDS[exception] = _Kind(status, code)


def problem(
    *,
    status: int,
    code: str,
    detail: str,
    reason: str = "",
    errors: Iterable[Problem] = (),
    state: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem document as a response."""
    body = _body(status, code, detail)
    field_errors = [{"path": e.path, "code": e.code, "message": e.message} for e in errors]
    for key, value in (("reason", reason), ("errors", field_errors), ("state", state)):
        if value:
            body[key] = value
    return Response(body, status=status, content_type=CONTENT_TYPE, headers=dict(headers or {}))


def _body(status: int, code: str, detail: str) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
    }


def plain_problem(*, status: int, code: str, detail: str, **more: Any) -> JsonResponse:
    """Return a problem document outside of REST framework: no view matched, or a view failed."""
    body = {**_body(status, code, detail), **more}
    return JsonResponse(body, status=status, content_type=CONTENT_TYPE)


def problem_handler(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """EXCEPTION_HANDLER of REST framework: a problem, or None for an internal error (500)."""
    if isinstance(exc, drf.APIException):
        return _drf_problem(exc)
    kind = next((_KINDS[each] for each in type(exc).__mro__ if each in _KINDS), None)
    return None if kind is None else _known_problem(exc, kind, context)


# --- known exceptions -----------------------------------------------------------------------------


def _known_problem(exc: Exception, kind: _Kind, context: Mapping[str, Any]) -> Response:
    errors = _errors(exc)
    if isinstance(exc, Refused) and errors:
        kind = _Kind(422, "invalid")
    return problem(
        status=kind.status,
        code=kind.code,
        detail=_detail(exc, kind, errors),
        reason=str(getattr(exc, "code", "") or ""),
        errors=errors,
        state=_state(exc, context),
    )


def _errors(exc: Exception) -> tuple[Problem, ...]:
    if isinstance(exc, BoundedJSONError):
        return (Problem(exc.path, "malformed", exc.message),)
    if isinstance(exc, DjangoValidationError):
        return tuple(_validation_errors(exc))
    listed = getattr(exc, "problems", None) or getattr(exc, "errors", None) or ()
    return tuple(Problem(e.path, getattr(e, "code", "invalid"), e.message) for e in listed)


def _validation_errors(exc: DjangoValidationError) -> Iterable[Problem]:
    fields = exc.message_dict if hasattr(exc, "error_dict") else {"": exc.messages}
    for name, messages in fields.items():
        for message in messages:
            yield Problem("" if name == "__all__" else name, "invalid", message)


def _detail(exc: Exception, kind: _Kind, errors: tuple[Problem, ...]) -> str:
    if errors:
        first = errors[0]
        text = f"{first.path}: {first.message}" if first.path else first.message
        return text if len(errors) == 1 else f"{text} (and {len(errors) - 1} more)"
    if kind.code == "not_found":
        return "There is nothing here."
    if isinstance(exc, _HIDDEN_DETAIL):
        return "The request contains text or numbers that cannot be stored."
    return str(getattr(exc, "message", "") or exc) or HTTPStatus(kind.status).phrase


def _state(exc: Exception, context: Mapping[str, Any]) -> Mapping[str, Any] | None:
    state = getattr(exc, "state", None)
    if isinstance(state, Mapping) or not isinstance(exc, StaleVersion):
        return state if isinstance(state, Mapping) else None
    execution_id = (context.get("kwargs") or {}).get("execution_id")
    return current_state(int(execution_id)) if execution_id else None


def current_state(execution_id: int) -> dict[str, Any]:
    """Return id, status, version and open holds for a caller with a stale version."""
    row = Execution.objects.values("status", "version").get(pk=execution_id)
    holds = Hold.objects.filter(execution_id=execution_id, status=Hold.Status.OPEN)
    return {
        "id": str(execution_id),
        **row,
        "holds": [
            {"id": hold.id, "node_id": hold.task_id, "phase": hold.phase or None}
            for hold in holds.order_by("opened_seq")
        ],
    }


# --- DRF's exceptions -----------------------------------------------------------------------------


def _drf_problem(exc: drf.APIException) -> Response:
    headers = {}
    if getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = str(getattr(exc, "auth_header", ""))
    if getattr(exc, "wait", None):
        headers["Retry-After"] = str(math.ceil(getattr(exc, "wait", 0)))
    if isinstance(exc, drf.ValidationError):
        errors = tuple(_flattened(exc.detail, ""))
        detail = _detail(exc, _Kind(422, "invalid"), errors)
        return problem(status=422, code="invalid", detail=detail, errors=errors, headers=headers)
    code = _DRF_CODES.get(exc.status_code) or str(getattr(exc.detail, "code", exc.default_code))
    return problem(status=exc.status_code, code=code, detail=str(exc.detail), headers=headers)


def _flattened(detail: Any, path: str) -> Iterable[Problem]:
    """Yield a serializer's nested errors with paths like `tasks[2].name`."""
    if isinstance(detail, dict):
        for key, value in detail.items():
            inner = path if key == "non_field_errors" else _child_path(path, key)
            yield from _flattened(value, inner)
    elif isinstance(detail, list | tuple):
        plain = all(isinstance(each, str) for each in detail)
        for index, value in enumerate(detail):
            yield from _flattened(value, path if plain else f"{path}[{index}]")
    else:
        yield Problem(path, str(getattr(detail, "code", "invalid")), str(detail))


def _child_path(path: str, key: Any) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else str(key)
