"""Versions of a workflow over REST: list, read and restore."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.api.etags import check_if_match, workflow_etag
from workflows.api.idempotency_header import idempotent
from workflows.api.openapi import IDEMPOTENCY_KEY, IF_MATCH, problems
from workflows.api.parsers import query_params, reject_query_params
from workflows.api.permission_classes import AdminWrites, HasRole, HasScope, caller
from workflows.api.serializers import ID_PATTERN, PlainSerializer
from workflows.api.workflows import SavedWorkflowSerializer, saved_body
from workflows.executions import access, definitions
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import Workflow, WorkflowVersion

from .definition_view import listed_secrets, shown_definition, shown_fields
from .rights import may_save

_NAME = OpenApiParameter(
    "workflow_name", str, OpenApiParameter.PATH, pattern="^[-a-zA-Z0-9_]{1,100}$"
)
_NUMBER = OpenApiParameter(
    "number", str, OpenApiParameter.PATH, description="Digits.", pattern=ID_PATTERN
)


class VersionDefinitionSerializer(PlainSerializer):
    """What a version stores of the workflow; secrets are masked."""

    title = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    plan = serializers.DictField()
    policy = serializers.DictField()
    inputs_schema = serializers.DictField()
    default_inputs = serializers.DictField()


class VersionRowSerializer(PlainSerializer):
    """A version in a list.  `restored` is the older version that it repeats."""

    number = serializers.IntegerField()
    author = serializers.CharField(source="author_name", allow_blank=True)
    comment = serializers.CharField(allow_blank=True, help_text="Secrets in it are masked.")
    restored = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()


class VersionSerializer(VersionRowSerializer):
    """A version with its definition."""

    definition = serializers.SerializerMethodField()

    @extend_schema_field(VersionDefinitionSerializer)
    def get_definition(self, version: WorkflowVersion) -> Any:
        # As the difference of two versions, with the references of the plan.
        definition = version.definition
        shown, _view = shown_fields(definition, listed_secrets(definition))
        return {**shown, **shown_definition(Workflow(**definition))}


class VersionsView(ListAPIView[WorkflowVersion]):
    """List the versions of a workflow."""

    permission_classes = (HasRole, HasScope("admin"))
    orderings = {"-number": ("-number",), "number": ("number",)}
    serializer_class = VersionRowSerializer
    queryset = WorkflowVersion.objects.none()

    def get_queryset(self) -> QuerySet[WorkflowVersion]:
        query_params(self.request)
        workflow = _workflow(self.request, self.kwargs["workflow_name"])
        return WorkflowVersion.objects.filter(workflow=workflow)

    @extend_schema(
        operation_id="workflow_versions_list",
        summary="Versions of a workflow, newest first",
        parameters=[_NAME],
        responses={200: VersionRowSerializer(many=True), **problems(403, 404, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class VersionView(APIView):
    """Read a version of a workflow."""

    permission_classes = (HasRole, HasScope("admin"))

    @extend_schema(
        operation_id="workflow_versions_get",
        summary="One version with its definition; secrets are masked",
        parameters=[_NAME, _NUMBER],
        responses={200: VersionSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, workflow_name: str, number: int) -> Response:
        reject_query_params(request)
        rows = WorkflowVersion.objects.filter(workflow=_workflow(request, workflow_name))
        version = rows.filter(number=number).first()
        if version is None:
            raise Http404
        return Response(VersionSerializer(version).data)


class VersionRestoreView(APIView):
    """Restore a version of a workflow."""

    permission_classes = (HasRole, HasScope("admin"), AdminWrites)

    @extend_schema(
        operation_id="workflow_versions_restore",
        summary="Save an older version as the newest one",
        description="Refused with 422 if the definition is not valid any more.",
        parameters=[_NAME, _NUMBER, IF_MATCH, IDEMPOTENCY_KEY],
        request=None,
        responses={200: SavedWorkflowSerializer, **problems(403, 404, 412, 422)},
    )
    def post(self, request: Request, workflow_name: str, number: int) -> Response:
        reject_query_params(request)
        return idempotent(request, lambda: self._restore(request, workflow_name, number))

    def _restore(self, request: Request, name: str, number: int) -> StoredResponse:
        with transaction.atomic():
            # Compare under the lock, so that only one of two concurrent changes succeeds.
            workflow = _workflow(request, name, lock=True)
            check_if_match(request, workflow_etag(workflow))
            try:
                saved = definitions.restore_version(
                    actor=caller(request), workflow=workflow, number=number
                )
            except WorkflowVersion.DoesNotExist:
                raise Http404 from None
        return StoredResponse(status=200, text=json_text(saved_body(request, saved)))


def _workflow(request: Request, name: str, *, lock: bool = False) -> Workflow:
    """Return a workflow, with `lock` locked until the transaction ends; raise Http404.

    Only admins see disabled ones, as on the desk.
    """
    rows = access.workflows_for(request.user).select_related("created_by")
    rows = rows.select_for_update(of=("self",)) if lock else rows
    rows = rows if may_save(caller(request)) else rows.filter(enabled=True)
    workflow = rows.filter(name=name).first() if "\0" not in name else None
    if workflow is None:
        raise Http404
    return workflow
