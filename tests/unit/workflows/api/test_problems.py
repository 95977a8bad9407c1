"""Which exception becomes which problem."""

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import DataError
from django.http import Http404
from rest_framework import exceptions as drf

from workflows.api import problems
from workflows.api.problems import CODES, IdempotencyMismatch, problem_handler
from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.engine.values.bounded_json import BoundedJSONError
from workflows.executions.validation import InvalidRequest
from workflows.journal.writer import ExecutionNotFound

FAULT = (Problem("plan.tasks[0].tool", "unknown_tool", "there is no such tool"),)


def handled(error: Exception, context: dict[str, Any] | None = None) -> Any:
    response = problem_handler(error, context or {})
    assert response is not None
    assert response.content_type == "application/problem+json"
    assert response.data["status"] == response.status_code
    assert response.data["code"] in CODES
    return response


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidRequest(FAULT), 422, "invalid"),
        (Refused("held", "Decide first."), 409, "refused"),
        (Refused("invalid_plan", "no such tool", FAULT), 422, "invalid"),
        (ExecutionNotFound(), 404, "not_found"),
        (Http404(), 404, "not_found"),
        (PermissionDenied("no"), 403, "forbidden"),
        (BoundedJSONError("a.b", "is not a finite number"), 400, "malformed"),
        (DataError("x"), 400, "malformed"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), 400, "malformed"),
        (RequestDataTooBig(), 413, "too_large"),
        (SuspiciousOperation("secret detail"), 400, "malformed"),
        (DjangoValidationError({"name": ["bad"]}), 422, "invalid"),
        (drf.ValidationError({"name": ["bad"]}), 422, "invalid"),
        (drf.ParseError(), 400, "malformed"),
        (drf.NotAuthenticated(), 401, "unauthenticated"),
        (drf.AuthenticationFailed(), 401, "unauthenticated"),
        (drf.PermissionDenied(), 403, "forbidden"),
        (drf.NotFound(), 404, "not_found"),
        (drf.MethodNotAllowed("PATCH"), 405, "method_not_allowed"),
        (drf.NotAcceptable(), 406, "not_acceptable"),
        (drf.UnsupportedMediaType("a/b"), 415, "unsupported_media_type"),
        (drf.Throttled(30), 429, "throttled"),
        (IdempotencyMismatch(), 422, "idempotency_mismatch"),
    ],
)
def test_each_exception_has_its_code(error: Exception, status: int, code: str) -> None:
    response = handled(error)
    assert (response.status_code, response.data["code"]) == (status, code)
    assert response.data["detail"]


def test_internal_errors_are_left_to_django() -> None:
    assert problem_handler(RuntimeError("bug"), {}) is None
    assert problem_handler(KeyError("bug"), {}) is None


@pytest.mark.parametrize("error", [DataError("SELECT secret"), SuspiciousOperation("secret")])
def test_internal_messages_are_not_shown(error: Exception) -> None:
    assert "secret" not in str(handled(error).data)


def test_reason_errors_and_state_are_passed_on() -> None:
    refused = handled(Refused("held", "Decide first."))
    assert (refused.data["reason"], refused.data["detail"]) == ("held", "Decide first.")
    stale = StaleVersion()
    stale.state = {"version": 3}  # type: ignore[attr-defined]
    assert handled(stale).data["state"] == {"version": 3}
    invalid = handled(InvalidRequest((*FAULT, Problem("title", "too_long", "is too long"))))
    assert invalid.data["detail"] == ("plan.tasks[0].tool: there is no such tool (and 1 more)")
    assert invalid.data["errors"][1] == {
        "path": "title",
        "code": "too_long",
        "message": "is too long",
    }
    assert "state" not in invalid.data


def test_nested_errors_of_serializers_get_paths() -> None:
    detail = {
        "tasks": [{}, {"name": ["may not be blank"]}],
        "inner": {"non_field_errors": ["no"], "deep": {3: ["three"]}},
        "plain": ["one", "two"],
    }
    found = [(e["path"], e["message"]) for e in handled(drf.ValidationError(detail)).data["errors"]]
    assert found == [
        ("tasks[1].name", "may not be blank"),
        ("inner", "no"),
        ("inner.deep[3]", "three"),
        ("plain", "one"),
        ("plain", "two"),
    ]


def test_headers_of_drf_are_preserved() -> None:
    failed = drf.AuthenticationFailed()
    failed.auth_header = "Bearer"  # type: ignore[attr-defined]
    assert handled(failed).headers["WWW-Authenticate"] == "Bearer"
    assert handled(drf.Throttled(12.3)).headers["Retry-After"] == "13"


def test_another_app_registers_its_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    class NotAllowed(Exception):
        code = "four_eyes"
        message = "You started it."

    class Kin(NotAllowed):
        """Counts as what it is a kind of."""

    monkeypatch.setattr(problems, "_KINDS", dict(problems._KINDS))
    problems.register(NotAllowed, status=403, code="forbidden")
    response = handled(Kin())
    assert (response.status_code, response.data["reason"]) == (403, "four_eyes")
    assert response.data["detail"] == "You started it."
