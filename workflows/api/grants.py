"""REST API of grants: list and revoke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import Grant
from workflows.permissions import grants

from .executions import parse_id
from .idempotency_header import idempotent
from .openapi import IDEMPOTENCY_KEY, problems
from .parsers import query_params
from .permission_classes import HasRole, HasScope, caller, require
from .serializers import PlainSerializer

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    GrantModel = serializers.ModelSerializer[Grant]
else:
    GrantModel = serializers.ModelSerializer

_ID = OpenApiParameter("grant_id", str, OpenApiParameter.PATH, pattern="^[0-9]{1,19}$")


class GrantSerializer(GrantModel):
    """A granted permission or a standing answer: its scope, its giver, how often it was used."""

    id = serializers.CharField()
    execution_id = serializers.CharField()
    node_id = serializers.CharField(source="task_id")
    hold_id = serializers.CharField()
    workflow = serializers.SerializerMethodField()
    capability = serializers.SerializerMethodField()
    permissions = serializers.DictField()
    agent = serializers.SerializerMethodField()
    arguments = serializers.DictField(
        allow_null=True,
        help_text="The arguments of a standing answer that may differ from the approved ones.",
    )
    max_uses = serializers.IntegerField(
        allow_null=True, help_text="How many actions a standing answer covers."
    )
    sums = serializers.DictField(
        help_text="The sums so far of the arguments that a standing answer limits with `in_all`."
    )
    revoked_by = serializers.SerializerMethodField()
    why = serializers.CharField(help_text="Secrets in it are masked.")

    class Meta:
        model = Grant
        fields = (
            "id", "scope", "execution_id", "node_id", "hold_id", "workflow", "capability",
            "operation", "resource", "permissions", "agent", "arguments", "granted_by", "why",
            "granted_at", "expires_at", "uses", "max_uses", "sums", "last_used_at", "revoked_at",
            "revoked_by",
        )  # fmt: skip
        read_only_fields = fields

    def get_workflow(self, grant: Grant) -> str | None:
        return grant.workflow.name if grant.workflow else None

    def get_capability(self, grant: Grant) -> str | None:
        return grant.capability.name if grant.capability else None

    def get_agent(self, grant: Grant) -> str | None:
        is_standing = grant.scope == Grant.Scope.STANDING
        return grant.execution.approval.agent if is_standing else None

    def get_revoked_by(self, grant: Grant) -> str | None:
        return grant.revoked_by or None


class InForceSerializer(PlainSerializer):
    """Filter of the list."""

    in_force = serializers.BooleanField(
        default=True, help_text="Only grants that a task could still use; `false` for all."
    )


class GrantsView(ListAPIView[Grant]):
    """Grants of the executions that the caller may see."""

    permission_classes = (HasRole, HasScope("read"))
    orderings = {"-granted_at": ("-id",), "granted_at": ("id",)}
    serializer_class = GrantSerializer

    def get_queryset(self) -> QuerySet[Grant]:
        filters = query_params(self.request, InForceSerializer)
        user = caller(self.request)
        return grants.in_force(user) if filters["in_force"] else grants.visible_grants(user)

    @extend_schema(
        operation_id="grants_list",
        summary="Grants, newest first",
        parameters=[InForceSerializer],
        responses={200: GrantSerializer(many=True), **problems(403, 404, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class RevokeView(APIView):
    """Revoke a grant."""

    permission_classes = (HasRole, HasScope("decide"))

    @extend_schema(
        operation_id="grants_revoke",
        summary="Revoke a grant at once",
        description="Tasks that run with the grant are stopped; later tasks have to ask again.",
        parameters=[_ID, IDEMPOTENCY_KEY],
        request=None,
        responses={200: GrantSerializer, **problems(403, 404, 409)},
    )
    def post(self, request: Request, grant_id: str) -> Response:
        user = caller(request)
        grant = grants.visible_grants(user).filter(pk=parse_id(grant_id)).first()
        if grant is None:
            raise Http404
        allowed = grants.may_revoke(user, grant)
        require(allowed, "Operators, admins and the user who granted it can revoke it.")
        return idempotent(request, lambda: _revoked(grant, user))


def _revoked(grant: Grant, user: User) -> StoredResponse:
    return StoredResponse(
        200, json_text(GrantSerializer(grants.revoke(grant=grant, user=user)).data)
    )
