"""REST API of the caller's own API tokens."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.executions import access
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import ApiToken
from workflows.permissions import step_up, tokens

from . import examples
from .executions import parse_id
from .idempotency_header import idempotent
from .openapi import BODY, IDEMPOTENCY_KEY, problems
from .parsers import query_params, reject_query_params, validated_body
from .permission_classes import HasRole, HasScope, caller, has_scope, require, session_confirmed_at
from .serializers import StrictSerializer

_ID = OpenApiParameter("token_id", str, OpenApiParameter.PATH, pattern="^[0-9]{1,19}$")


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token without its secret; `prefix` is its beginning."""

    id = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=list(tokens.SCOPES)))
    workflows = serializers.SerializerMethodField()
    gates = serializers.SerializerMethodField()

    class Meta:
        model = ApiToken
        fields: tuple[str, ...] = (
            "id", "name", "prefix", "scopes", "workflows", "gates", "created_at", "expires_at",
            "revoked_at", "last_used_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_workflows(self, token: ApiToken) -> list[str] | None:
        """Return the names of its workflows; null for all that its user may see."""
        return tokens.workflow_names(token)

    def get_gates(self, token: ApiToken) -> list[str] | None:
        """Return the names of its MCP gates; null for all that its user may use."""
        return tokens.gate_names(token)


class NewTokenSerializer(TokenSerializer):
    """A new token with its secret, which no other response contains."""

    token = serializers.CharField()

    class Meta(TokenSerializer.Meta):
        fields = (*TokenSerializer.Meta.fields, "token")
        read_only_fields = fields


class TokenRequestSerializer(StrictSerializer):
    """Scopes, workflows and expiry of a new token."""

    name = serializers.CharField(max_length=100, allow_blank=True, default="")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=list(tokens.SCOPES)), min_length=1, max_length=20
    )
    expires_at = serializers.DateTimeField(allow_null=True, default=None)
    workflows = serializers.ListField(
        child=serializers.CharField(max_length=100),
        min_length=1,
        max_length=100,
        allow_null=True,
        default=None,
        help_text="Names: the token can see and start only these workflows.",
    )
    gates = serializers.ListField(
        child=serializers.CharField(max_length=60),
        min_length=1,
        max_length=100,
        allow_null=True,
        default=None,
        help_text="Names: the token, with no other scope than `gate`, calls only these MCP gates.",
    )


class TokensView(ListAPIView[ApiToken]):
    """List and create tokens; with a token, creating requires the scope `admin`."""

    permission_classes = (HasRole, HasScope("admin"))
    orderings = {"-created_at": ("-id",), "created_at": ("id",)}
    serializer_class = TokenSerializer

    def get_queryset(self) -> QuerySet[ApiToken]:
        query_params(self.request)
        return ApiToken.objects.filter(user=self.request.user.pk)

    @extend_schema(
        operation_id="tokens_list",
        summary="My tokens, newest first",
        responses={200: TokenSerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="tokens_create",
        summary="Create a token",
        description="The response contains the token. It is not shown again.",
        parameters=[IDEMPOTENCY_KEY],
        request=TokenRequestSerializer,
        examples=examples.TOKEN,
        responses={201: NewTokenSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._make(request))

    def _make(self, request: Request) -> StoredResponse:
        fields = validated_body(TokenRequestSerializer, request)
        missing = [each for each in fields["scopes"] if not has_scope(request, each)]
        require(not missing, "A token can create tokens only with its own scopes.")
        is_unlimited = (
            fields["workflows"] is None and access.allowed_workflow_ids(caller(request)) is not None
        )
        require(not is_unlimited, "A token limited to workflows can create tokens only for these.")
        # A token has all of these scopes, as checked above; a session needs a recent confirmation.
        confirmed = request.auth is not None or step_up.is_recent(session_confirmed_at(request))
        token, text = tokens.create_token(user=caller(request), confirmed=confirmed, **fields)
        token.refresh_from_db()
        body = json_text(TokenSerializer(token).data)
        location = reverse("token", kwargs={"token_id": str(token.pk)})
        return StoredResponse(201, body, location, secrets={"token": text})


class TokenView(APIView):
    """One of my tokens."""

    permission_classes = (HasRole, HasScope("admin"))

    def _mine(self, request: Request, token_id: str) -> QuerySet[ApiToken]:
        rows = ApiToken.objects.filter(user=request.user.pk, pk=parse_id(token_id))
        if not rows.exists():
            raise Http404
        return rows

    @extend_schema(
        operation_id="tokens_get",
        summary="One of my tokens",
        parameters=[_ID],
        responses={200: TokenSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, token_id: str) -> Response:
        reject_query_params(request)
        return Response(TokenSerializer(self._mine(request, token_id).get()).data)

    @extend_schema(
        operation_id="tokens_revoke",
        summary="Revoke a token",
        parameters=[_ID],
        responses={204: None, **problems(403, 404)},
    )
    def delete(self, request: Request, token_id: str) -> Response:
        tokens.revoke(tokens=self._mine(request, token_id), by=caller(request))
        return Response(status=204)
