"""REST API of the catalogue: list, search, suggest a plan."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.module_loading import import_string
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from graphrag import prediction, ranking
from graphrag.api.serializers import (
    Plain,
    PredictionsSerializer,
    PredictSerializer,
    SuggestAnswerSerializer,
    SuggestionSerializer,
    SuggestSerializer,
    ToolFilterSerializer,
    ToolMemorySerializer,
    ToolSearchAnswerSerializer,
    ToolSearchSerializer,
    ToolSerializer,
)
from graphrag.catalogue import selectors as catalogue_selectors
from graphrag.models import Tool
from graphrag.planning import services as planning_services
from graphrag.planning.draft import nothing_refused
from graphrag.retrieval import search as retrieval_search

_MAX_NEAREST = 10
_NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, description="As in `git.git_log`.")
#: Parameters that pagination and ordering read.
_PAGE_PARAMETERS = frozenset({"cursor", "page_size", "ordering"})


def _rejections(memory: Any) -> str:
    total = memory.approved + memory.rejected
    return f"People rejected {memory.rejected} of the last {total} calls of {memory.tool}."


def _refused(
    memory_of: Callable[[Collection[str]], Mapping[str, Any]], tools: Collection[str]
) -> set[str]:
    """Return the tools of which people refused most of the latest calls."""
    return {each.tool for each in memory_of(tools).values() if each.is_mostly_rejected}


def _search_result(found: retrieval_search.Found) -> dict[str, Any]:
    tool = found.tool
    return {
        "name": tool.name,
        "kind": tool.kind,
        "server": tool.server,
        "title": tool.title,
        "description": tool.description,
        "permission_set": tool.permission_set,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "similarity": round(found.similarity, 4),
        "reasons": list(ranking.match_reasons(found)),
    }


def _query(
    request: Request, shape: type[Plain], also: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Return the query parameters; raise ValidationError for an unknown one."""
    parameters: dict[str, str] = request.query_params.dict()
    unknown = sorted(parameters.keys() - shape().fields.keys() - also)
    if unknown:
        raise ValidationError({name: ["is not a known parameter"] for name in unknown}, "unknown")
    return parameters


def _scopes(request: Request) -> Collection[str] | None:
    """Return the scopes of the request's token; None for a session, which has every scope."""
    scopes: Collection[str] | None = getattr(request.auth, "scopes", None)
    return scopes


class CanPlan(BasePermission):
    """Allow signed-in people, and tokens with the scope ``read`` or ``run``, as in MCP."""

    message = "This token has neither the scope 'read' nor 'run'."
    scopes = frozenset({"read", "run"})

    def has_permission(self, request: Request, view: Any) -> bool:
        """Refuse anonymous requests, and tokens with neither scope."""
        if not (request.user and request.user.is_authenticated):
            return False
        granted = _scopes(request)
        return granted is None or not self.scopes.isdisjoint(granted)


@extend_schema_view(
    list=extend_schema(
        summary="Tools of the catalogue",
        parameters=[ToolFilterSerializer],
    ),
    retrieve=extend_schema(summary="One tool with its schemas", parameters=[_NAME]),
)
class ToolViewSet(ReadOnlyModelViewSet[Tool]):
    """Read and search the catalogue."""

    serializer_class = ToolSerializer
    permission_classes = (CanPlan,)
    orderings = {
        "name": ("name",),
        "-name": ("-name",),
        "-pagerank": ("-pagerank", "name"),
        "pagerank": ("pagerank", "name"),
    }
    lookup_field = "name"
    lookup_value_regex = ".+"

    def get_queryset(self) -> QuerySet[Tool]:
        """Filter tools by the query string; raise ValidationError for an invalid filter."""
        rows = catalogue_selectors.tools()
        for name, value in self._filters().items():
            if value not in (None, ""):
                rows = rows.filter(**{name: value})
        return rows

    def _filters(self) -> dict[str, Any]:
        serializer = ToolFilterSerializer(
            data=_query(self.request, ToolFilterSerializer, _PAGE_PARAMETERS)
        )
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def _search(self, data: Any) -> Response:
        serializer = ToolSearchSerializer(data=data)
        serializer.is_valid(raise_exception=True)
        params = serializer.validated_data
        filters = retrieval_search.Filters(
            kind=params.get("kind"),
            server=params.get("server"),
            read_only=params.get("read_only"),
        )
        response = retrieval_search.search(params["query"], limit=params["limit"], filters=filters)
        return Response(
            {
                "results": [_search_result(found) for found in response.found],
                "warnings": list(response.warnings),
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
        summary="Predict the next tools of a run",
        parameters=[PredictSerializer],
        responses=PredictionsSerializer,
        filters=False,
    )
    @action(detail=False, methods=["get"], pagination_class=None)
    def next(self, request: Request) -> Response:
        """Enabled tools that probably run next, with the probability from past runs."""
        _query(request, PredictSerializer)
        serializer = PredictSerializer(data=request.query_params)
        serializer.is_valid(raise_exception=True)
        params = serializer.validated_data
        found = prediction.predict_next(params["done"], limit=params["limit"])
        return Response(PredictionsSerializer({"results": found}).data)

    @extend_schema(
        summary="Suggest a plan for an intent",
        request=SuggestSerializer,
        responses=SuggestAnswerSerializer,
    )
    @action(detail=False, methods=["post"], pagination_class=None)
    def suggest(self, request: Request) -> Response:
        """A plan with layers, confidence and reasons; or none, with the nearest tools."""
        serializer = SuggestSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        params = serializer.validated_data
        scopes = _scopes(request)
        may_read = scopes is None or "read" in scopes
        memory_of = partial(import_string(settings.HOLDPOINT["tool_memory"]), request.user)
        suggestion = planning_services.suggest(
            params["intent"],
            params.get("inputs"),
            refused=partial(_refused, memory_of) if may_read else nothing_refused,
        )
        body = SuggestionSerializer(suggestion).data
        body["nearest"] = body["nearest"][: params.get("limit", _MAX_NEAREST)]
        tools = {reason.tool for reason in suggestion.reasons} if may_read else set()
        memory = memory_of(tools).values()
        body["decisions"] = ToolMemorySerializer(memory, many=True).data
        body["warnings"] += [_rejections(each) for each in memory if each.is_mostly_rejected]
        return Response(body)
