"""REST API of MCP servers, for admins. Environment and headers are written, never read."""

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

from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import McpServer
from workflows.permissions import step_up
from workflows.planning.planner import tools_of_server
from workflows.tools import catalogue_sync, mcp_servers

from .executions import parse_id
from .idempotency_header import idempotent
from .openapi import BODY, IDEMPOTENCY_KEY, problems
from .parsers import object_body, query_params, reject_query_params
from .permission_classes import (
    AdminOnly,
    HasRole,
    HasScope,
    caller,
    has_scope,
    session_confirmed_at,
)
from .problems import register
from .serializers import ID_PATTERN, PlainSerializer, StrictSerializer

register(mcp_servers.ConfirmationNeeded, status=403, code="step_up")
register(mcp_servers.SuperuserNeeded, status=403, code="superuser_needed")

_ID = OpenApiParameter("server_id", str, OpenApiParameter.PATH, pattern=ID_PATTERN)


class McpServerSerializer(serializers.ModelSerializer[McpServer]):
    """An MCP server; of its environment and headers only the names."""

    id = serializers.CharField()
    args = serializers.ListField(child=serializers.CharField(allow_blank=True))
    read_paths = serializers.ListField(child=serializers.CharField())
    write_paths = serializers.ListField(child=serializers.CharField())
    tcp_ports = serializers.ListField(child=serializers.IntegerField())
    env_names = serializers.SerializerMethodField()
    header_names = serializers.SerializerMethodField()

    class Meta:
        model = McpServer
        fields = (
            "id", "name", "transport", "command", "args", "env_names", "read_paths", "write_paths",
            "tcp_ports", "url", "header_names",
            "enabled", "synced_at", "sync_error",
        )  # fmt: skip
        read_only_fields = fields

    def get_env_names(self, server: McpServer) -> list[str]:
        return sorted(server.env)

    def get_header_names(self, server: McpServer) -> list[str]:
        return sorted(server.headers)


class McpServerFieldsSerializer(StrictSerializer):
    """A server to write. PATCH changes the given fields, env and headers as a whole."""

    name = serializers.SlugField(max_length=60)
    transport = serializers.ChoiceField(
        choices=McpServer.Transport.choices, default=McpServer.Transport.STDIO.value
    )
    command = serializers.CharField(max_length=500, allow_blank=True, default="")
    args = serializers.ListField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=list
    )
    env = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=dict
    )
    read_paths = serializers.ListField(child=serializers.CharField(), default=list)
    write_paths = serializers.ListField(child=serializers.CharField(), default=list)
    tcp_ports = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=65_535), default=list
    )
    url = serializers.CharField(max_length=500, allow_blank=True, default="")
    headers = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False), default=dict
    )
    enabled = serializers.BooleanField(default=True)


class SyncSerializer(PlainSerializer):
    """What a synchronization found: the names of the server's tools, or the error."""

    tools = serializers.ListField(child=serializers.CharField())
    error = serializers.CharField(allow_blank=True)


def _fields(request: Request, *, partial: bool = False) -> dict[str, Any]:
    serializer = McpServerFieldsSerializer(data=object_body(request.data), partial=partial)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def _server(server_id: str) -> McpServer:
    found = McpServer.objects.filter(pk=parse_id(server_id)).first()
    if found is None:
        raise Http404
    return found


def _confirmed(request: Request) -> bool:
    """Whether a session confirmed with a code recently, or a token has the scope for it."""
    if request.auth is not None:
        return has_scope(request, step_up.SCOPE)
    return step_up.is_recent(session_confirmed_at(request))


class McpServersView(ListAPIView[McpServer]):
    """List and create MCP servers."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)
    orderings = {"name": ("name",), "-name": ("-name",)}
    serializer_class = McpServerSerializer

    def get_queryset(self) -> QuerySet[McpServer]:
        query_params(self.request)
        return McpServer.objects.all()

    @extend_schema(
        operation_id="mcp_servers_list",
        summary="List MCP servers",
        responses={200: McpServerSerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="mcp_servers_create",
        summary="Add an MCP server",
        parameters=[IDEMPOTENCY_KEY],
        request=McpServerFieldsSerializer,
        responses={201: McpServerSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._create(request))

    def _create(self, request: Request) -> StoredResponse:
        made = mcp_servers.save_server(
            actor=caller(request),
            fields=_fields(request),
            confirmed=_confirmed(request),
            by_token=request.auth is not None,
        )
        location = reverse("mcp-server", kwargs={"server_id": str(made.pk)})
        return StoredResponse(201, json_text(McpServerSerializer(made).data), location)


class McpServerView(APIView):
    """One MCP server."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)

    @extend_schema(
        operation_id="mcp_servers_get",
        summary="One MCP server",
        parameters=[_ID],
        responses={200: McpServerSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, server_id: str) -> Response:
        reject_query_params(request)
        return Response(McpServerSerializer(_server(server_id)).data)

    @extend_schema(
        operation_id="mcp_servers_change",
        summary="Change some fields of an MCP server",
        parameters=[_ID],
        request=McpServerFieldsSerializer,
        responses={200: McpServerSerializer, **problems(403, 404, *BODY)},
    )
    def patch(self, request: Request, server_id: str) -> Response:
        saved = mcp_servers.save_server(
            actor=caller(request),
            fields=_fields(request, partial=True),
            confirmed=_confirmed(request),
            by_token=request.auth is not None,
            server=_server(server_id),
        )
        return Response(McpServerSerializer(saved).data)

    @extend_schema(
        operation_id="mcp_servers_delete",
        summary="Delete an MCP server",
        parameters=[_ID],
        responses={204: None, **problems(403, 404)},
    )
    def delete(self, request: Request, server_id: str) -> Response:
        mcp_servers.delete_server(actor=caller(request), server=_server(server_id))
        return Response(status=204)


class McpServerSyncView(APIView):
    """Synchronize one server's tools."""

    permission_classes = (HasRole, HasScope("admin"), AdminOnly)

    @extend_schema(
        operation_id="mcp_servers_sync",
        summary="Read the tools of an MCP server",
        parameters=[_ID],
        request=None,
        responses={200: SyncSerializer, **problems(403, 404)},
    )
    def post(self, request: Request, server_id: str) -> Response:
        server = _server(server_id)
        result = catalogue_sync.sync_server(server)
        tools = [] if result.error else tools_of_server(server.name)
        return Response({"tools": tools, "error": result.error})
