"""What the OpenAPI document says about problems and parameters."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from .problems import CODES, CONTENT_TYPE
from .serializers import Plain

_WORDS = {
    400: "Malformed JSON",
    401: "No valid token or session",
    403: "The role or the token's scope does not allow it",
    404: "There is no such thing, or it is not visible to the caller",
    409: "It has moved on, or the present state does not allow it",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "Fields are at fault; `errors` names them",
}

EXECUTION_ID = OpenApiParameter(
    "execution_id", str, OpenApiParameter.PATH, description="Digits.", pattern="^[0-9]{1,19}$"
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "pattern": "^[!-~]{1,200}$"},
    OpenApiParameter.HEADER,
    description="The same key with the same body gets the same answer, for 24 hours.",
)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the document describes API tokens."""

    target_class = "workflows.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "hp_…"}


class FaultSerializer(Plain):
    """One fault: where, a stable code, plain words."""

    path = serializers.CharField(allow_blank=True)
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(Plain):
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


def problems(*statuses: int) -> dict[Any, Any]:
    """Responses for `extend_schema`: the problems an operation may answer with, 401 included."""
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, _WORDS[status])
        for status in sorted({401, *statuses})
    }


#: What an operation with a JSON body may say about it.
BODY = (400, 413, 415, 422)
