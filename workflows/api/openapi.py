"""What the OpenAPI document says about problems and parameters."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from .problems import CODES, CONTENT_TYPE
from .serializers import ID_PATTERN, PlainSerializer

_WORDS = {
    400: "Malformed JSON",
    401: "No valid token or session",
    403: "The role or the token's scope does not allow it",
    404: "There is no such thing, or it is not visible to the caller",
    406: "Accept names nothing that can be written",
    409: "It has moved on, or the present state does not allow it",
    411: "The body came without a Content-Length",
    412: "It was changed since the state that If-Match names",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "Fields are at fault; `errors` names them",
    429: "Too many requests in a minute, or too many open streams",
    500: "Our own fault; the log has it under `request_id`",
}

EXECUTION_ID = OpenApiParameter(
    "execution_id", str, OpenApiParameter.PATH, description="Digits.", pattern=ID_PATTERN
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "pattern": "^[!-~]{1,200}$"},
    OpenApiParameter.HEADER,
    description="The same key with the same body gets the same answer, for 24 hours.",
)

IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": '^(\\*|"[0-9]{1,18}")$'},
    OpenApiParameter.HEADER,
    description="The ETag of what you saw; `*` for whatever is there.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag you have; the answer is 304 while nothing has changed.",
)
ETAG = OpenApiParameter("ETag", str, OpenApiParameter.HEADER, response=[200])


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the document describes API tokens."""

    target_class = "workflows.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "hp_…"}


class FaultSerializer(PlainSerializer):
    """One fault: where, a stable code, plain words."""

    path = serializers.CharField(allow_blank=True)
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(PlainSerializer):
    """A refusal (RFC 9457).

    `reason` says more for `refused`; `state` is the present one where the sender's is stale.
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
    """Responses for `extend_schema`: the problems an operation may answer with, 401 included."""
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, _WORDS[status])
        for status in sorted({401, *statuses})
    }


def add_problem_responses(result: Any, **about: Any) -> Any:
    """A spectacular hook: the refusals that any operation may answer with, where none is named."""
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
    """A spectacular hook: "any value, or null" is any value.

    As `oneOf` the two exclude each other, and null, which fits both, would fit neither.
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
        "description": _WORDS[status],
        "content": {CONTENT_TYPE: {"schema": schema}},
    }
    if status == 429:
        answer["headers"] = {
            "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}
        }
    return answer


#: What an operation with a JSON body may say about it.
BODY = (400, 413, 415, 422)
