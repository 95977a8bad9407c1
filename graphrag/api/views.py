"""The catalogue over REST: read it and search it."""

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from graphrag import ranking
from graphrag.api.permissions import MayPlan
from graphrag.api.serializers import (
    Plain,
    SuggestionSerializer,
    SuggestSerializer,
    ToolFilterSerializer,
    ToolSearchAnswerSerializer,
    ToolSearchSerializer,
    ToolSerializer,
)
from graphrag.catalogue import selectors as catalogue_selectors
from graphrag.models import Tool
from graphrag.planning import services as planning_services
from graphrag.retrieval import search as retrieval_search

if TYPE_CHECKING:
    ToolViews = ReadOnlyModelViewSet[Tool]
else:
    ToolViews = ReadOnlyModelViewSet

_NEAREST = 10
_NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, description="As in `git.git_log`.")
#: What the pages look at, whatever class they are of.
_OF_PAGES = frozenset({"cursor", "page_size", "ordering"})


def _found(found: retrieval_search.Found) -> dict[str, Any]:
    tool = found.tool
    return {
        "name": tool.name,
        "kind": tool.kind,
        "server": tool.server,
        "title": tool.title,
        "description": tool.description,
        "permission_set": tool.permission_set,
        "read_only": tool.read_only,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "similarity": round(found.similarity, 4),
        "reasons": list(ranking.match_reasons(found)),
    }


def _query(
    request: Request, shape: type[Plain], also: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The query parameters; raises ValidationError for one that neither `shape` nor `also` has."""
    given: dict[str, str] = request.query_params.dict()
    unknown = sorted(given.keys() - shape().fields.keys() - also)
    if unknown:
        raise ValidationError({name: ["is not a known parameter"] for name in unknown}, "unknown")
    return given


@extend_schema_view(
    list=extend_schema(
        summary="Tools of the catalogue",
        parameters=[ToolFilterSerializer],
    ),
    retrieve=extend_schema(summary="One tool with its schemas", parameters=[_NAME]),
)
class ToolViewSet(ToolViews):
    """Read and search the catalogue."""

    serializer_class = ToolSerializer
    permission_classes = (MayPlan,)
    orderings = {
        "name": ("name",),
        "-name": ("-name",),
        "-pagerank": ("-pagerank", "name"),
        "pagerank": ("pagerank", "name"),
    }
    lookup_field = "name"
    lookup_value_regex = ".+"

    def get_queryset(self) -> QuerySet[Tool]:
        """Tools by the filters of the query string; raises ValidationError for a bad one."""
        rows = catalogue_selectors.tools()
        for name, value in self._filters().items():
            if value not in (None, ""):
                rows = rows.filter(**{name: value})
        return rows

    def _filters(self) -> dict[str, Any]:
        asked = ToolFilterSerializer(data=_query(self.request, ToolFilterSerializer, _OF_PAGES))
        asked.is_valid(raise_exception=True)
        return dict(asked.validated_data)

    def _search(self, asked: Any) -> Response:
        question = ToolSearchSerializer(data=asked)
        question.is_valid(raise_exception=True)
        wanted = question.validated_data
        filters = retrieval_search.Filters(
            kind=wanted.get("kind"),
            server=wanted.get("server"),
            read_only=wanted.get("read_only"),
        )
        answer = retrieval_search.search(wanted["query"], limit=wanted["limit"], filters=filters)
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
        if request.method == "GET":
            return self._search(_query(request, ToolSearchSerializer))
        return self._search(request.data)

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
        found = planning_services.suggest(wanted["intent"], wanted.get("inputs"))
        answer = SuggestionSerializer(found).data
        answer["nearest"] = answer["nearest"][: wanted.get("limit", _NEAREST)]
        return Response(answer)
