"""Errors of SCIM: RFC 7644, section 3.12."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions as drf
from rest_framework.response import Response
from rest_framework.views import exception_handler

from reviews.people.rights import ChangeRefused
from workflows.engine.bounded_json import BoundedJSONError

SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"


class ScimError(Exception):
    """The request was refused; `kind` is the `scimType` of RFC 7644, "" for none."""

    def __init__(self, detail: str, *, kind: str = "", status: int = 400) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status = status


def invalid(detail: str) -> ScimError:
    """Return the error for a value that an attribute does not take."""
    return ScimError(detail, kind="invalidValue")


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return the response for an exception of a SCIM view."""
    kind = ""
    if isinstance(error, ScimError):
        status, kind = error.status, error.kind
    elif isinstance(error, BoundedJSONError):
        status, kind = 400, "invalidSyntax"
    elif isinstance(error, ChangeRefused | PermissionDenied):
        status = 403
    elif isinstance(error, Http404):
        status = 404
    elif isinstance(error, drf.APIException):
        status = error.status_code
    else:
        return None
    headers = {}
    if (known := exception_handler(error, context)) is not None:
        headers = dict(known.headers)
        headers.pop("Content-Type", None)
    detail = str(error) or HTTPStatus(status).phrase
    body = {"schemas": [SCHEMA], "status": str(status), "detail": detail}
    if kind:
        body["scimType"] = kind
    return Response(body, status=status, headers=headers)
