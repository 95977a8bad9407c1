"""REST API of retention policies and legal holds, for admins."""

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

from reviews.decisions.edits import ReviewInvalid
from reviews.models import LegalHold, RetentionPolicy
from workflows.api.executions import parse_id
from workflows.api.idempotency_header import idempotent
from workflows.api.openapi import BODY, IDEMPOTENCY_KEY, problems
from workflows.api.parsers import object_body, query_params, reject_query_params
from workflows.api.permission_classes import AdminOnly, HasRole, HasScope, caller
from workflows.api.serializers import (
    ID_PATTERN,
    PlainSerializer,
    RequestIdField,
    StrictSerializer,
)
from workflows.common.schemas import FieldError
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import Execution, Gate, Workflow

from . import selectors, services

_POLICY_ID = OpenApiParameter("retention_policy_id", str, OpenApiParameter.PATH, pattern=ID_PATTERN)
_HOLD_ID = OpenApiParameter("legal_hold_id", str, OpenApiParameter.PATH, pattern=ID_PATTERN)
_ORDERINGS = {"id": ("id",), "-id": ("-id",)}


# --- policies -------------------------------------------------------------------------------------


class RetentionPolicySerializer(StrictSerializer, serializers.ModelSerializer[RetentionPolicy]):
    """A retention policy: of one workflow, or (null) of all other runs.

    It can be enabled only once it is stored with the same other fields.
    """

    id = serializers.CharField(read_only=True)
    workflow = serializers.SlugRelatedField(
        slug_field="name", queryset=Workflow.objects.all(), allow_null=True, required=False
    )

    class Meta:
        model = RetentionPolicy
        fields = ("id", "workflow", "keep_days", "erase_records", "enabled")


class RetentionPreviewSerializer(PlainSerializer):
    """What the policy erases now.  `rows` and `records` are of the oldest `counted` runs."""

    runs = serializers.IntegerField()
    oldest = serializers.DateTimeField(allow_null=True)
    newest = serializers.DateTimeField(allow_null=True)
    counted = serializers.IntegerField()
    rows = serializers.DictField(child=serializers.IntegerField())
    records = serializers.IntegerField()


def _save(request: Request, policy: RetentionPolicy, *, partial: bool) -> RetentionPolicy:
    serializer = RetentionPolicySerializer(policy, data=object_body(request.data), partial=partial)
    serializer.is_valid(raise_exception=True)
    for name, value in serializer.validated_data.items():
        setattr(policy, name, value)
    policy.full_clean()
    return services.save_policy(actor=caller(request), policy=policy)


def _policy(retention_policy_id: str) -> RetentionPolicy:
    rows = RetentionPolicy.objects.select_related("workflow")
    found = rows.filter(pk=parse_id(retention_policy_id)).first()
    if found is None:
        raise Http404
    return found


class RetentionPoliciesView(ListAPIView[RetentionPolicy]):
    """List and create retention policies."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)
    orderings = _ORDERINGS
    serializer_class = RetentionPolicySerializer

    def get_queryset(self) -> QuerySet[RetentionPolicy]:
        query_params(self.request)
        return RetentionPolicy.objects.select_related("workflow")

    @extend_schema(
        operation_id="retention_policies_list",
        summary="List retention policies",
        responses={200: RetentionPolicySerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="retention_policies_create",
        summary="Add a retention policy",
        description="It erases nothing before a PATCH enables it; look at its preview first.",
        parameters=[IDEMPOTENCY_KEY],
        request=RetentionPolicySerializer,
        responses={201: RetentionPolicySerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._create(request))

    def _create(self, request: Request) -> StoredResponse:
        made = _save(request, RetentionPolicy(), partial=False)
        location = reverse("api-retention-policy", kwargs={"retention_policy_id": str(made.pk)})
        return StoredResponse(201, json_text(RetentionPolicySerializer(made).data), location)


class RetentionPolicyView(APIView):
    """One retention policy."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)

    @extend_schema(
        operation_id="retention_policies_get",
        summary="One retention policy",
        parameters=[_POLICY_ID],
        responses={200: RetentionPolicySerializer, **problems(403, 404)},
    )
    def get(self, request: Request, retention_policy_id: str) -> Response:
        reject_query_params(request)
        return Response(RetentionPolicySerializer(_policy(retention_policy_id)).data)

    @extend_schema(
        operation_id="retention_policies_change",
        summary="Change some fields of a retention policy",
        parameters=[_POLICY_ID],
        request=RetentionPolicySerializer,
        responses={200: RetentionPolicySerializer, **problems(403, 404, *BODY)},
    )
    def patch(self, request: Request, retention_policy_id: str) -> Response:
        saved = _save(request, _policy(retention_policy_id), partial=True)
        return Response(RetentionPolicySerializer(saved).data)

    @extend_schema(
        operation_id="retention_policies_delete",
        summary="Delete a retention policy",
        parameters=[_POLICY_ID],
        responses={204: None, **problems(403, 404)},
    )
    def delete(self, request: Request, retention_policy_id: str) -> Response:
        services.delete_policy(actor=caller(request), policy=_policy(retention_policy_id))
        return Response(status=204)


class RetentionPreviewView(APIView):
    """What a retention policy erases now."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)

    @extend_schema(
        operation_id="retention_policies_preview",
        summary="What a retention policy erases now, also if it is not enabled",
        parameters=[_POLICY_ID],
        responses={200: RetentionPreviewSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, retention_policy_id: str) -> Response:
        reject_query_params(request)
        return Response(
            RetentionPreviewSerializer(selectors.preview(_policy(retention_policy_id))).data
        )


# --- legal holds ----------------------------------------------------------------------------------


class LegalHoldSerializer(PlainSerializer):
    """A legal hold of one run, of all runs of a workflow, or of all calls of an MCP gate."""

    id = serializers.CharField()
    execution_id = serializers.CharField(allow_null=True)
    workflow = serializers.CharField(source="workflow.name", default=None, allow_null=True)
    gate = serializers.CharField(source="gate.name", default=None, allow_null=True)
    reason = serializers.CharField()
    placed_by = serializers.CharField(source="placed_by.username")
    placed_at = serializers.DateTimeField()
    lifted_by = serializers.CharField(source="lifted_by.username", default=None, allow_null=True)
    lifted_at = serializers.DateTimeField(allow_null=True)


class NewLegalHoldSerializer(StrictSerializer):
    """One of `execution_id`, `workflow` and `gate` (their names), and why."""

    execution_id = RequestIdField(required=False)
    workflow = serializers.SlugRelatedField(
        slug_field="name", queryset=Workflow.objects.all(), required=False
    )
    gate = serializers.SlugRelatedField(
        slug_field="name", queryset=Gate.objects.all(), required=False
    )
    reason = serializers.CharField(max_length=2000)


class LiftLegalHoldSerializer(StrictSerializer):
    """Why the hold is lifted; the retention log keeps it."""

    reason = serializers.CharField(max_length=2000)


def _holds() -> QuerySet[LegalHold]:
    return LegalHold.objects.select_related("workflow", "gate", "placed_by", "lifted_by")


def _hold(legal_hold_id: str) -> LegalHold:
    found = _holds().filter(pk=parse_id(legal_hold_id)).first()
    if found is None:
        raise Http404
    return found


class LegalHoldsView(ListAPIView[LegalHold]):
    """List and place legal holds."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)
    serializer_class = LegalHoldSerializer

    def get_queryset(self) -> QuerySet[LegalHold]:
        query_params(self.request)
        return _holds()

    @extend_schema(
        operation_id="legal_holds_list",
        summary="List legal holds, also lifted ones",
        responses={200: LegalHoldSerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="legal_holds_place",
        summary="Place a legal hold",
        description="It keeps the data of the run, of all runs of the workflow, or of all calls of"
        " the MCP gate with the runs of those that were held.",
        parameters=[IDEMPOTENCY_KEY],
        request=NewLegalHoldSerializer,
        responses={201: LegalHoldSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._place(request))

    def _place(self, request: Request) -> StoredResponse:
        serializer = NewLegalHoldSerializer(data=object_body(request.data))
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        number = values.get("execution_id")
        if len(values.keys() & {"execution_id", "workflow", "gate"}) != 1:
            problem = "give either a run, a workflow or an MCP gate"
            raise ReviewInvalid([FieldError("execution_id", problem)])
        execution = None if number is None else Execution.objects.filter(pk=number).first()
        gone = ReviewInvalid([FieldError("execution_id", "there is no data of such a run")])
        if number is not None and execution is None:
            raise gone
        try:
            made = services.place_legal_hold(
                actor=caller(request),
                reason=values["reason"],
                execution=execution,
                workflow=values.get("workflow"),
                gate=values.get("gate"),
            )
        except services.AlreadyErased:
            raise gone from None
        body = LegalHoldSerializer(_holds().get(pk=made.pk)).data
        location = reverse("api-legal-hold", kwargs={"legal_hold_id": str(made.pk)})
        return StoredResponse(201, json_text(body), location)


class LegalHoldView(APIView):
    """One legal hold."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)

    @extend_schema(
        operation_id="legal_holds_get",
        summary="One legal hold",
        parameters=[_HOLD_ID],
        responses={200: LegalHoldSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, legal_hold_id: str) -> Response:
        reject_query_params(request)
        return Response(LegalHoldSerializer(_hold(legal_hold_id)).data)


class LegalHoldLiftView(APIView):
    """Lift a legal hold."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)

    @extend_schema(
        operation_id="legal_holds_lift",
        summary="Lift a legal hold",
        description="A hold that was lifted before stays as it is.",
        parameters=[_HOLD_ID, IDEMPOTENCY_KEY],
        request=LiftLegalHoldSerializer,
        responses={200: LegalHoldSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request, legal_hold_id: str) -> Response:
        return idempotent(request, lambda: self._lift(request, legal_hold_id))

    def _lift(self, request: Request, legal_hold_id: str) -> StoredResponse:
        hold = _hold(legal_hold_id)
        serializer = LiftLegalHoldSerializer(data=object_body(request.data))
        serializer.is_valid(raise_exception=True)
        reason = serializer.validated_data["reason"]
        services.lift_legal_hold(actor=caller(request), hold=hold, reason=reason)
        return StoredResponse(200, json_text(LegalHoldSerializer(_hold(legal_hold_id)).data))
