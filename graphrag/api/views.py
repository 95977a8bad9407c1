"""The catalogue over REST: read it and search it."""

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from graphrag import catalogue, planning, ranking, retrieval
from graphrag.api.permissions import MayPlan
from graphrag.api.serializers import (
    SuggestionSerializer,
    SuggestSerializer,
    ToolSearchAnswerSerializer,
    ToolSearchSerializer,
    ToolSerializer,
)
from graphrag.models import Tool

if TYPE_CHECKING:
    ToolViews = ReadOnlyModelViewSet[Tool]
else:
    ToolViews = ReadOnlyModelViewSet

_NEAREST = 10
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class ToolPages(CursorPagination):
    """Pages by name, 50 tools each unless asked otherwise (at most 200)."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
    ordering = "name"


def _found(found: retrieval.Found) -> dict[str, Any]:
    tool = found.tool
    return {
        "name": tool.name,
        "kind": tool.kind,
        "server": tool.server,
        "title": tool.title,
        "description": tool.description,
        "permission_set": tool.permission_set,
        "read_only": tool.read_only,
        "similarity": round(found.similarity, 4),
        "reasons": list(ranking.match_reasons(found)),
    }


@extend_schema_view(
    list=extend_schema(
        summary="Tools of the catalogue",
        parameters=[
            OpenApiParameter("server", str, description="Only tools of this server."),
            OpenApiParameter("kind", str, enum=["python", "mcp", "capability"]),
            OpenApiParameter("enabled", bool, description="Only enabled, or only disabled ones."),
            OpenApiParameter("read_only", bool, description="Only tools that change nothing."),
        ],
    ),
    retrieve=extend_schema(summary="One tool with its schemas"),
)
class ToolViewSet(ToolViews):
    """Read and search the catalogue."""

    serializer_class = ToolSerializer
    permission_classes = (MayPlan,)
    pagination_class = ToolPages
    lookup_field = "name"
    lookup_value_regex = ".+"

    def get_queryset(self) -> QuerySet[Tool]:
        """Tools by the filters of the query string; flags that are neither true nor false
        are ignored."""
        asked = self.request.query_params
        rows = catalogue.tools()
        for name in ("server", "kind"):
            if asked.get(name):
                rows = rows.filter(**{name: asked[name].replace("\x00", "")})
        for name in ("enabled", "read_only"):
            flag = _FLAGS.get(asked.get(name, "").lower())
            if flag is not None:
                rows = rows.filter(**{name: flag})
        return rows

    def _search(self, asked: Any) -> Response:
        question = ToolSearchSerializer(data=asked)
        question.is_valid(raise_exception=True)
        wanted = question.validated_data
        filters = retrieval.Filters(
            kind=wanted.get("kind"),
            server=wanted.get("server"),
            read_only=wanted.get("read_only"),
        )
        answer = retrieval.search(wanted["query"], limit=wanted["limit"], filters=filters)
        return Response(
            {
                "results": [_found(found) for found in answer.found],
                "warnings": list(answer.warnings),
            }
        )

    @extend_schema(
        methods=["GET"],
        summary="Search tools by meaning and words",
        parameters=[ToolSearchSerializer],
        responses=ToolSearchAnswerSerializer,
        filters=False,
    )
    @extend_schema(
        methods=["POST"],
        summary="Search tools by meaning and words",
        request=ToolSearchSerializer,
        responses=ToolSearchAnswerSerializer,
    )
    @action(detail=False, methods=["get", "post"], pagination_class=None)
    def search(self, request: Request) -> Response:
        """Enabled tools that fit a question in plain words, best first."""
        return self._search(request.query_params if request.method == "GET" else request.data)

    @extend_schema(
        summary="Suggest a plan for an intent",
        request=SuggestSerializer,
        responses=SuggestionSerializer,
    )
    @action(detail=False, methods=["post"], pagination_class=None)
    def suggest(self, request: Request) -> Response:
        """A plan with layers, confidence and reasons; or none, with the nearest tools."""
        question = SuggestSerializer(data=request.data)
        question.is_valid(raise_exception=True)
        wanted = question.validated_data
        found = planning.suggest(wanted["intent"], wanted.get("inputs"))
        answer = SuggestionSerializer(found).data
        answer["nearest"] = answer["nearest"][: wanted.get("limit", _NEAREST)]
        return Response(answer)
