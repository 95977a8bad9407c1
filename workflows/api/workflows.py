"""REST API of workflows: every role reads; admins create, change and delete."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.executions import access, definitions
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import Workflow

from . import examples
from .etags import check_if_match, not_modified_response, workflow_etag
from .idempotency_header import idempotent
from .openapi import BODY, ETAG, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, problems
from .parsers import PlanJSONParser, query_params, reject_query_params, validated_body
from .permission_classes import AdminWrites, HasRole, HasScope, caller, has_scope, require
from .serializers import PlainSerializer, StrictSerializer

_NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, pattern="^[-a-zA-Z0-9_]{1,100}$")


class WorkflowRowSerializer(serializers.ModelSerializer[Workflow]):
    """A workflow in a list, with its inputs; secrets are masked unless the caller may change it."""

    id = serializers.CharField()
    created_by = serializers.SerializerMethodField()
    inputs_schema = serializers.DictField()
    default_inputs = serializers.DictField()

    class Meta:
        model = Workflow
        fields = (
            "id", "name", "title", "description", "enabled", "inputs_schema", "default_inputs",
            "created_by", "created_at", "updated_at",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = fields

    def to_representation(self, workflow: Workflow) -> dict[str, Any]:
        body = dict(super().to_representation(workflow))
        if not _may_change(self.context["request"]):
            shown = definitions.shown_definition(workflow)
            body |= {name: value for name, value in shown.items() if name in body}
        return body

    def get_created_by(self, workflow: Workflow) -> str | None:
        return workflow.created_by.get_username() if workflow.created_by else None


class WorkflowSerializer(WorkflowRowSerializer):
    """A workflow with its plan and policy."""

    plan = serializers.DictField()
    policy = serializers.DictField()

    class Meta(WorkflowRowSerializer.Meta):
        fields = (*WorkflowRowSerializer.Meta.fields, "plan", "policy")  # type: ignore[assignment]
        read_only_fields = fields


class SavedWorkflowSerializer(WorkflowSerializer):
    """A saved workflow; `warnings` name groups in which nobody may decide."""

    warnings = serializers.ListField(child=serializers.CharField(), required=False)

    class Meta(WorkflowSerializer.Meta):
        fields = (*WorkflowSerializer.Meta.fields, "warnings")  # type: ignore[assignment]
        read_only_fields = fields  # type: ignore[assignment]


class DefinitionSerializer(StrictSerializer):
    """A workflow as an admin writes it. PUT replaces all fields."""

    name = serializers.SlugField(max_length=100)
    title = serializers.CharField(max_length=200)
    description = serializers.CharField(max_length=10_000, allow_blank=True, default="")
    plan = serializers.DictField()
    policy = serializers.DictField(default=dict)
    inputs_schema = serializers.DictField(default=dict)
    default_inputs = serializers.DictField(default=dict)
    enabled = serializers.BooleanField(default=True)


class EnabledSerializer(PlainSerializer):
    """Filter of the list."""

    enabled = serializers.BooleanField(required=False, allow_null=True, default=None)


def _may_change(request: Request) -> bool:
    """Whether the caller is an admin, with a credential that may change workflows."""
    return access.ADMIN in access.roles_of(request.user) and has_scope(request, "admin")


def _workflow(request: Request, name: str, *, lock: bool = False) -> Workflow:
    """Return a workflow, with `lock` locked until the transaction ends; raise Http404."""
    rows = access.workflows_for(request.user).select_related("created_by")
    rows = rows.select_for_update(of=("self",)) if lock else rows
    workflow = rows.filter(name=name).first() if "\0" not in name else None
    if workflow is None:
        raise Http404
    return workflow


def _body(request: Request, workflow: Workflow) -> dict[str, Any]:
    return dict(WorkflowSerializer(workflow, context={"request": request}).data)


def saved_body(request: Request, workflow: Workflow) -> dict[str, Any]:
    """Return the response body of a change, with warnings about the workflow's groups."""
    body = _body(request, workflow)
    if warnings := definitions.workflow_warnings(workflow):
        body["warnings"] = warnings
    return body


class WorkflowsView(ListAPIView[Workflow]):
    """List and create workflows."""

    permission_classes = (HasRole, HasScope("admin"), AdminWrites)
    parser_classes = (PlanJSONParser,)
    orderings = {
        "name": ("name",),
        "-name": ("-name",),
        "-updated_at": ("-updated_at", "-id"),
        "updated_at": ("updated_at", "id"),
    }
    serializer_class = WorkflowRowSerializer

    def get_queryset(self) -> QuerySet[Workflow]:
        enabled = query_params(self.request, EnabledSerializer)["enabled"]
        rows = access.workflows_for(self.request.user).select_related("created_by")
        return rows if enabled is None else rows.filter(enabled=enabled)

    @extend_schema(
        operation_id="workflows_list",
        summary="List workflows",
        parameters=[EnabledSerializer],
        responses={200: WorkflowRowSerializer(many=True), **problems(403, 404, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="workflows_create",
        summary="Add a workflow",
        parameters=[IDEMPOTENCY_KEY],
        request=DefinitionSerializer,
        examples=examples.WORKFLOW,
        responses={201: SavedWorkflowSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._create(request))

    def _create(self, request: Request) -> StoredResponse:
        unlimited = access.allowed_workflow_ids(caller(request)) is None
        require(unlimited, "This token is limited to certain workflows.")
        fields = validated_body(DefinitionSerializer, request)
        workflow = definitions.save_workflow(actor=caller(request), fields=fields)
        text = json_text(saved_body(request, workflow))
        location = reverse("workflow", kwargs={"name": workflow.name})
        return StoredResponse(status=201, text=text, location=location)


class WorkflowView(APIView):
    """One workflow."""

    permission_classes = (HasRole, HasScope("admin"), AdminWrites)
    parser_classes = (PlanJSONParser,)

    @extend_schema(
        operation_id="workflows_get",
        summary="One workflow with plan and policy",
        parameters=[_NAME, IF_NONE_MATCH, ETAG],
        responses={200: WorkflowSerializer, 304: None, **problems(403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        reject_query_params(request)
        workflow = _workflow(request, name)
        etag = workflow_etag(workflow)
        not_modified = not_modified_response(request, etag)
        return not_modified or Response(_body(request, workflow), headers={"ETag": etag})

    @extend_schema(
        operation_id="workflows_replace",
        summary="Replace a workflow",
        parameters=[_NAME, IF_MATCH, ETAG],
        request=DefinitionSerializer,
        responses={200: SavedWorkflowSerializer, **problems(403, 404, 412, *BODY)},
    )
    def put(self, request: Request, name: str) -> Response:
        return self._update(request, name, partial=False)

    @extend_schema(
        operation_id="workflows_change",
        summary="Change some fields of a workflow",
        parameters=[_NAME, IF_MATCH, ETAG],
        request=DefinitionSerializer,
        responses={200: SavedWorkflowSerializer, **problems(403, 404, 412, *BODY)},
    )
    def patch(self, request: Request, name: str) -> Response:
        return self._update(request, name, partial=True)

    def _update(self, request: Request, name: str, *, partial: bool) -> Response:
        _workflow(request, name)
        fields = validated_body(DefinitionSerializer, request, partial=partial)
        with transaction.atomic():
            # Compare under the lock, so that only one of two concurrent changes succeeds.
            workflow = _workflow(request, name, lock=True)
            check_if_match(request, workflow_etag(workflow))
            saved = definitions.save_workflow(
                actor=caller(request), fields=fields, workflow=workflow
            )
        return Response(saved_body(request, saved), headers={"ETag": workflow_etag(saved)})

    @extend_schema(
        operation_id="workflows_delete",
        summary="Delete a workflow that was never run",
        parameters=[_NAME, IF_MATCH],
        responses={204: None, **problems(403, 404, 409, 412, 422)},
    )
    def delete(self, request: Request, name: str) -> Response:
        with transaction.atomic():
            workflow = _workflow(request, name, lock=True)
            check_if_match(request, workflow_etag(workflow))
            definitions.delete_workflow(workflow=workflow)
        return Response(status=204)
