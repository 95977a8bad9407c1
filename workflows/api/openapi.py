"""Problems and parameters in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from .problems import CODES, CONTENT_TYPE
from .serializers import ID_PATTERN, PlainSerializer

_DESCRIPTIONS = {
    400: "Malformed JSON",
    401: "No valid token or session",
    403: "The role or the token's scope does not allow it",
    404: "It does not exist, or it is not visible to the caller",
    406: "Accept names no supported media type",
    409: "It has changed, or its current state does not allow it",
    411: "The body came without a Content-Length",
    412: "It has changed since the state in If-Match",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "Invalid fields; `errors` names them",
    429: "Too many requests in a minute, or too many open streams",
    500: "Internal error; the log has it under `request_id`",
}

EXECUTION_ID = OpenApiParameter(
    "execution_id", str, OpenApiParameter.PATH, description="Digits.", pattern=ID_PATTERN
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "pattern": "^[!-~]{1,200}$"},
    OpenApiParameter.HEADER,
    description="The same key with the same body gets the same response for 24 hours.",
)

IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": '^(\\*|"[0-9]{1,18}")$'},
    OpenApiParameter.HEADER,
    description="The ETag that you have read; `*` for any state.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag that you have; the response is 304 if nothing has changed.",
)
ETAG = OpenApiParameter("ETag", str, OpenApiParameter.HEADER, response=[200])


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """API tokens in the OpenAPI document."""

    target_class = "workflows.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "hp_…"}


class FaultSerializer(PlainSerializer):
    """One error: path, stable code, message."""

    path = serializers.CharField(allow_blank=True)
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(PlainSerializer):
    """An error (RFC 9457).

    `reason` is a more specific code for `refused`; `state` is the current state after a stale
    version.
    """

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.ChoiceField(choices=list(CODES))
    detail = serializers.CharField()
    reason = serializers.CharField(required=False)
    errors = FaultSerializer(many=True, required=False)  # type: ignore[assignment]
    state = serializers.DictField(required=False)
    request_id = serializers.CharField(required=False)


def problems(*statuses: int) -> dict[Any, Any]:
    """Return responses for `extend_schema`: the given problems and 401."""
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, _DESCRIPTIONS[status])
        for status in sorted({401, *statuses})
    }


def add_problem_responses(result: Any, **about: Any) -> Any:
    """Postprocessing hook of drf-spectacular: add the problems common to all operations."""
    for path, item in result["paths"].items():
        for operation in item.values():
            if not isinstance(operation, dict) or "responses" not in operation:
                continue
            statuses = {401, 403, 406, 429, 500}
            if "requestBody" in operation:
                statuses |= {*BODY, 411}
            if operation.get("parameters"):
                statuses |= {404, 422} if "{" in path else {422}
            for status in sorted(statuses):
                operation["responses"].setdefault(str(status), _described(status))
            operation["responses"] = dict(sorted(operation["responses"].items()))
    return result


def simplify_any_schema(result: Any, **about: Any) -> Any:
    """Postprocessing hook of drf-spectacular: replace "oneOf: any value or null" by any value.

    null matches both alternatives of that `oneOf`, so it would not be valid.
    """
    _simplify(result)
    return result


def _simplify(node: Any) -> None:
    if isinstance(node, dict):
        choice = node.get("oneOf")
        if isinstance(choice, list) and {} in choice:
            del node["oneOf"]
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            _simplify(each)


def _described(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    answer: dict[str, Any] = {
        "description": _DESCRIPTIONS[status],
        "content": {CONTENT_TYPE: {"schema": schema}},
    }
    if status == 429:
        answer["headers"] = {
            "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}
        }
    return answer


#: Statuses that every operation with a JSON body may return.
BODY = (400, 413, 415, 422)
