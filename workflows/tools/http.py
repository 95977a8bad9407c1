"""Built-in tool for HTTP requests, sent with `workflows.common.outbound_http`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import Field
from typing_extensions import TypedDict

from workflows.common import outbound_http
from workflows.engine.policy.permissions import PermissionSet, named, smallest_cover
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed
from workflows.engine.values.bounded_json import BoundedJSONError
from workflows.engine.values.bounded_json import parse as parse_document
from workflows.permissions import deny_list

from .context import ToolContext
from .registry import tool
from .root_directory import permanent_failure

#: A response becomes one JSON value; therefore its limit applies.
MAX_RESPONSE_BYTES = 256 * 1024

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class HTTPAnswer(TypedDict):
    """`headers` by lower-case name; `body` is the JSON value of a JSON response, else its text."""

    status: int
    reason: str
    url: str
    headers: dict[str, str]
    body: Any


@tool(permission_set="network-api", title="HTTP request")
def http_request(
    url: Annotated[str, Field(max_length=8192, description="An https address of a public host.")],
    ctx: ToolContext,
    *,
    method: Method = "GET",
    headers: Annotated[dict[str, str], Field(max_length=64)] | None = None,
    body: Annotated[Any, Field(description="Text is sent as it is, other values as JSON.")] = None,
    timeout_seconds: Annotated[float, Field(gt=0, le=120, allow_inf_nan=False)] = 10.0,
    fail_on_error: Annotated[
        bool, Field(description="Let the task fail on a status of 400 and above.")
    ] = True,
) -> HTTPAnswer:
    """Send an HTTP request to a web API and return status, headers and body.

    Only public hosts are reached, unless a private one is granted by name and port; redirects are
    checked hop by hop.  A request that changes something carries an Idempotency-Key header that
    stays the same when the attempt is repeated.
    """
    grants = _grants(ctx)
    data, content_type = _encoded(body)
    try:
        answer = outbound_http.request(
            method,
            url,
            grants=grants,
            headers=_headers(headers or {}, content_type, method, ctx),
            body=data,
            limits=outbound_http.NetLimits(
                total_seconds=_timeout(timeout_seconds, ctx), max_response_bytes=MAX_RESPONSE_BYTES
            ),
            should_stop=ctx.cancelled.is_set,
            problem=deny_list.task_address_problem,
        )
    except outbound_http.NetworkForbidden as forbidden:
        raise permanent_failure(f"the request is not allowed: {forbidden}") from None
    except outbound_http.NetworkDenied as denied:
        raise _denied(denied, grants, ctx) from None
    except outbound_http.NetworkFailed as failed:
        raise TaskFailed(f"the request failed: {failed}") from None
    if fail_on_error and answer.status >= 400:
        message = f"{method} {answer.url} answered {answer.status} {answer.reason}"
        raise TaskFailed(message, retryable=answer.status == 429 or answer.status >= 500)
    return HTTPAnswer(
        status=answer.status,
        reason=answer.reason,
        url=answer.url,
        headers=_joined(answer.headers),
        body=_decoded(answer),
    )


def _grants(ctx: ToolContext) -> PermissionSet:
    """Return the hosts of the task; add HOLDPOINT["http_allow_hosts"] unless there are none.

    Without permissions from the caller: public hosts on the TLS port.
    """
    grants = ctx.permissions or named("network-api")
    if not grants.hosts:
        return grants
    try:
        extra = tuple(settings.HOLDPOINT.get("http_allow_hosts", ()))
        return grants.union(PermissionSet(hosts=extra))
    except ValueError as error:
        raise permanent_failure(
            f"the setting HOLDPOINT['http_allow_hosts'] is wrong: {error}"
        ) from None


def _timeout(seconds: float, ctx: ToolContext) -> float:
    left = ctx.remaining()
    return seconds if left is None else max(0.01, min(seconds, left))


def _encoded(body: Any) -> tuple[bytes | None, str]:
    if body is None:
        return None, ""
    try:
        if isinstance(body, str):
            return body.encode("utf-8"), "text/plain; charset=utf-8"
        return json.dumps(body, allow_nan=False).encode("ascii"), "application/json"
    except ValueError as error:
        raise permanent_failure(f"argument 'body': {error}") from None


def _headers(
    given: dict[str, str], content_type: str, method: str, ctx: ToolContext
) -> dict[str, str]:
    names = {name.lower() for name in given}
    headers = dict(given)
    if content_type and "content-type" not in names:
        headers["Content-Type"] = content_type
    changes = method not in ("GET", "HEAD", "OPTIONS")
    if changes and ctx.idempotency_key and "idempotency-key" not in names:
        headers["Idempotency-Key"] = ctx.idempotency_key
    return headers


def _denied(
    denied: outbound_http.NetworkDenied, current: PermissionSet, ctx: ToolContext
) -> TaskFailed | PermissionEscalationNeeded:
    """A question to a person where the caller keeps grants, else a plain failure."""
    if ctx.permissions is None:
        return permanent_failure(f"the request is not allowed: {denied}")
    need = smallest_cover("net", denied.resource)
    problem = deny_list.problem_of(need)
    if problem:
        return permanent_failure(f"the request is not allowed: {problem}")
    requested = current.union(need)
    return PermissionEscalationNeeded(
        operation="net", resource=denied.resource, current=current, requested=requested
    )


def _joined(pairs: outbound_http.Headers) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in pairs:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _decoded(answer: outbound_http.Response) -> Any:
    kind = (answer.header("content-type") or "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return parse_document(answer.body) if answer.body else None
        except BoundedJSONError as error:
            raise permanent_failure(f"the response's JSON is refused: {error}") from None
    return answer.text().replace("\x00", "\ufffd")
