"""ETag, If-Match and If-None-Match headers."""

from __future__ import annotations

import re

from rest_framework.request import Request
from rest_framework.response import Response

from workflows.engine.plans.validation import Problem
from workflows.executions.validation import InvalidRequest
from workflows.models import Workflow

from .problems import PreconditionFailed

_VERSION = re.compile(r'(?:W/)?"([0-9]{1,18})"')
_TAG = re.compile(r'(?:W/)?"[!#-~]*"')
_TAGS = re.compile(rf"{_TAG.pattern}(?:\s*,\s*{_TAG.pattern})*")


def execution_etag(version: int) -> str:
    """Return the ETag of an execution: its version."""
    return f'"{version}"'


def workflow_etag(workflow: Workflow) -> str:
    """Return the ETag of a workflow: the time of its last change, in microseconds."""
    return f'"{int(workflow.updated_at.timestamp() * 1_000_000)}"'


def if_match_version(request: Request) -> int | None:
    """Return the execution version in If-Match; None without the header or for `*`.

    Raises InvalidRequest for a value that is not the ETag of an execution.
    """
    header = request.headers.get("If-Match", "*").strip()
    if header == "*":
        return None
    match = _VERSION.fullmatch(header)
    if match is None:
        message = 'must be the ETag of the execution, as in "12"'
        raise InvalidRequest((Problem("If-Match", "not_a_version", message),))
    return int(match[1])


def check_if_match(request: Request, etag: str) -> None:
    """Raise PreconditionFailed unless If-Match is absent, `*` or contains `etag`."""
    sent = request.headers.get("If-Match", "*").strip()
    if sent != "*" and etag not in _tags("If-Match", sent):
        raise PreconditionFailed


def _tags(header: str, sent: str) -> list[str]:
    if not _TAGS.fullmatch(sent):
        message = 'must be an ETag as it was sent, as in "12"'
        raise InvalidRequest((Problem(header, "malformed", message),))
    return [tag.removeprefix("W/") for tag in _TAG.findall(sent)]


def not_modified_response(request: Request, etag: str) -> Response | None:
    """Return a 304 response if the client already has this state, else None."""
    sent = request.headers.get("If-None-Match", "").strip()
    known = sent == "*" or etag in [tag.removeprefix("W/") for tag in _TAG.findall(sent)]
    return Response(status=304, headers={"ETag": etag}) if known else None
