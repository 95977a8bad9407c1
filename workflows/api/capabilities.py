"""REST API of capabilities: every role reads; operators of an execution create one from it."""

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

from workflows.engine.policy.permissions import PermissionSet
from workflows.executions import access
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import Capability
from workflows.permissions import capabilities
from workflows.tools import catalogue_sync

from .executions import visible_execution
from .idempotency_header import idempotent
from .openapi import BODY, IDEMPOTENCY_KEY, problems
from .parsers import query_params, reject_query_params, validated_body
from .permission_classes import HasRole, HasScope, caller, require
from .problems import register
from .serializers import StrictSerializer

register(capabilities.CapabilityInvalid, status=422, code="invalid")

_NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, pattern="^[-a-zA-Z0-9_]{1,100}$")


def _as_lists(permissions: PermissionSet) -> dict[str, list[str]]:
    return {name: list(entries) for name, entries in permissions.model_dump().items()}


class CapabilityRowSerializer(serializers.ModelSerializer[Capability]):
    """A capability in a list. `granted` holds the permissions granted beyond its own set."""

    input_schema = serializers.DictField()
    output_schema = serializers.JSONField(allow_null=True)
    permission_set = serializers.SerializerMethodField()
    granted = serializers.SerializerMethodField()
    created_by = serializers.SerializerMethodField()
    from_execution = serializers.SerializerMethodField()

    class Meta:
        model = Capability
        fields = (
            "name", "description", "language", "input_schema", "output_schema", "permission_set",
            "granted", "approval_mode", "enabled", "success_count", "created_by",
            "from_execution", "from_task", "created_at",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = fields

    def get_permission_set(self, row: Capability) -> dict[str, list[str]]:
        """Return its current permissions, including grants."""
        return _as_lists(self._raised(row))

    def get_granted(self, row: Capability) -> dict[str, list[str]]:
        return _as_lists(self._raised(row).difference(capabilities.declared_set(row)))

    def _raised(self, row: Capability) -> PermissionSet:
        """Return the set of one row; the sets of a page are read in one query."""
        sets: dict[int, PermissionSet] = getattr(self, "_raised_sets", {})
        if row.pk not in sets:
            rows = getattr(self.parent, "instance", None) or [row]
            sets = self._raised_sets = capabilities.raised_sets(rows)
        return sets[row.pk]

    def get_created_by(self, row: Capability) -> str | None:
        return row.created_by.get_username() if row.created_by else None

    def get_from_execution(self, row: Capability) -> str | None:
        return str(row.from_execution_id) if row.from_execution_id else None


class CapabilitySerializer(CapabilityRowSerializer):
    """A capability with its code."""

    class Meta(CapabilityRowSerializer.Meta):
        fields = (*CapabilityRowSerializer.Meta.fields, "code")  # type: ignore[assignment]
        read_only_fields = fields


class MakeSerializer(StrictSerializer):
    """A code task that succeeded, and the name of the new capability."""

    execution_id = serializers.CharField(max_length=20)
    task_id = serializers.CharField(max_length=64)
    name = serializers.CharField(max_length=100)
    description = serializers.CharField(max_length=10_000, allow_blank=True, default="")
    approval_mode = serializers.ChoiceField(
        choices=Capability.ApprovalMode.choices,
        default=Capability.ApprovalMode.ASK.value,
        help_text="ask: a person approves each use; auto: it runs without approval.",
    )
    input_schema = serializers.DictField(
        required=False, help_text="Default: inferred from the inputs of the task."
    )
    output_schema = serializers.DictField(
        required=False, help_text="Default: the type of the output of the task."
    )


def _rows() -> QuerySet[Capability]:
    return Capability.objects.select_related("created_by")


class CapabilitiesView(ListAPIView[Capability]):
    """List and create capabilities."""

    permission_classes = (HasRole, HasScope("run"))
    orderings = {
        "name": ("name",),
        "-name": ("-name",),
        "-created_at": ("-created_at", "-id"),
        "created_at": ("created_at", "id"),
    }
    serializer_class = CapabilityRowSerializer

    def get_queryset(self) -> QuerySet[Capability]:
        query_params(self.request)
        return _rows()

    @extend_schema(
        operation_id="capabilities_list",
        summary="List capabilities",
        responses={200: CapabilityRowSerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="capabilities_create",
        summary="Make a capability from a code task that succeeded",
        parameters=[IDEMPOTENCY_KEY],
        request=MakeSerializer,
        responses={201: CapabilitySerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._make(request))

    def _make(self, request: Request) -> StoredResponse:
        fields = validated_body(MakeSerializer, request)
        execution = visible_execution(request, fields.pop("execution_id"))
        allowed = access.may_operate(request.user, execution)
        require(
            allowed,
            "Only operators, admins and the user who started the run create capabilities from it.",
        )
        made = catalogue_sync.keep_capability(actor=caller(request), execution=execution, **fields)
        text = json_text(CapabilitySerializer(made).data)
        return StoredResponse(201, text, reverse("capability", kwargs={"name": made.name}))


class CapabilityView(APIView):
    """One capability."""

    permission_classes = (HasRole, HasScope("read"))

    @extend_schema(
        operation_id="capabilities_get",
        summary="One capability with its code",
        parameters=[_NAME],
        responses={200: CapabilitySerializer, **problems(403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        reject_query_params(request)
        capability = _rows().filter(name=name).first() if "\0" not in name else None
        if capability is None:
            raise Http404
        return Response(CapabilitySerializer(capability).data)
