"""REST API of approval policies, for admins."""

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

from workflows.api.executions import parse_id
from workflows.api.idempotency_header import idempotent
from workflows.api.openapi import BODY, IDEMPOTENCY_KEY, problems
from workflows.api.parsers import object_body, query_params, reject_query_params
from workflows.api.permission_classes import AdminOnly, HasRole, HasScope, caller
from workflows.api.serializers import ID_PATTERN, StrictSerializer
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import ApprovalPolicy

from . import policy_services

_ID = OpenApiParameter("policy_id", str, OpenApiParameter.PATH, pattern=ID_PATTERN)


class ApprovalPolicySerializer(StrictSerializer, serializers.ModelSerializer[ApprovalPolicy]):
    """An approval policy.  PATCH changes the given fields."""

    id = serializers.CharField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)

    class Meta:
        model = ApprovalPolicy
        fields = "__all__"
        extra_kwargs = {"groups": {"required": True, "allow_empty": False}}


def _fields(request: Request, policy: ApprovalPolicy | None = None) -> dict[str, Any]:
    serializer = ApprovalPolicySerializer(
        policy, data=object_body(request.data), partial=policy is not None
    )
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def _policy(policy_id: str) -> ApprovalPolicy:
    found = ApprovalPolicy.objects.filter(pk=parse_id(policy_id)).first()
    if found is None:
        raise Http404
    return found


class ApprovalPoliciesView(ListAPIView[ApprovalPolicy]):
    """List and create approval policies."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)
    orderings = {"pattern": ("pattern",), "-pattern": ("-pattern",)}
    serializer_class = ApprovalPolicySerializer

    def get_queryset(self) -> QuerySet[ApprovalPolicy]:
        query_params(self.request)
        return ApprovalPolicy.objects.all()

    @extend_schema(
        operation_id="approval_policies_list",
        summary="List approval policies",
        responses={200: ApprovalPolicySerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="approval_policies_create",
        summary="Add an approval policy",
        description="It applies to the next request; approvals that were asked for keep theirs.",
        parameters=[IDEMPOTENCY_KEY],
        request=ApprovalPolicySerializer,
        responses={201: ApprovalPolicySerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._create(request))

    def _create(self, request: Request) -> StoredResponse:
        made = policy_services.save_policy(actor=caller(request), fields=_fields(request))
        made.refresh_from_db()
        location = reverse("approval-policy", kwargs={"policy_id": str(made.pk)})
        return StoredResponse(201, json_text(ApprovalPolicySerializer(made).data), location)


class ApprovalPolicyView(APIView):
    """One approval policy."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)

    @extend_schema(
        operation_id="approval_policies_get",
        summary="One approval policy",
        parameters=[_ID],
        responses={200: ApprovalPolicySerializer, **problems(403, 404)},
    )
    def get(self, request: Request, policy_id: str) -> Response:
        reject_query_params(request)
        return Response(ApprovalPolicySerializer(_policy(policy_id)).data)

    @extend_schema(
        operation_id="approval_policies_change",
        summary="Change some fields of an approval policy",
        parameters=[_ID],
        request=ApprovalPolicySerializer,
        responses={200: ApprovalPolicySerializer, **problems(403, 404, *BODY)},
    )
    def patch(self, request: Request, policy_id: str) -> Response:
        policy = _policy(policy_id)
        fields = _fields(request, policy)
        saved = policy_services.save_policy(actor=caller(request), fields=fields, policy=policy)
        return Response(ApprovalPolicySerializer(saved).data)

    @extend_schema(
        operation_id="approval_policies_delete",
        summary="Delete an approval policy",
        parameters=[_ID],
        responses={204: None, **problems(403, 404)},
    )
    def delete(self, request: Request, policy_id: str) -> Response:
        policy_services.delete_policy(actor=caller(request), policy=_policy(policy_id))
        return Response(status=204)
