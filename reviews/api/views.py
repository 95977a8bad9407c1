"""REST endpoints of the audit: history, records, revealed values."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews.audit import history, reveals
from reviews.decisions.edits import ReviewInvalid
from reviews.models import Decision, HumanReviewRecord
from workflows.api.openapi import BODY, problems
from workflows.api.parsers import (
    PAGINATION_PARAMETERS,
    DecisionJSONParser,
    object_body,
    query_params,
    reject_query_params,
)
from workflows.api.permissions import HasScope, caller, token_of
from workflows.api.problems import register
from workflows.api.serializers import ID_PATTERN

from .serializers import (
    RecordRowSerializer,
    RecordSerializer,
    RevealedSerializer,
    RevealSerializer,
)

register(reveals.MaskedValueNotFound, status=404, code="not_found")


class RevealView(APIView):
    """Have a masked value shown."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_reveal",
        request=RevealSerializer,
        responses={200: RevealedSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request) -> Response:
        """The value behind one mark; kept, before it is given, with who asked and when."""
        asked = RevealSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        place = asked.validated_data["place"]
        secret = reveals.reveal(
            place=place,
            number=asked.validated_data["number"],
            user=caller(request),
            source="rest",
            token=token_of(request),
        )
        told = {
            "place": place,
            "number": secret.number,
            "paths": list(secret.paths),
            "value": secret.value,
        }
        headers = {"Cache-Control": "no-store"}
        return Response(RevealedSerializer(told).data, headers=headers)


_FILTERS = [
    OpenApiParameter("execution", pattern=ID_PATTERN),
    OpenApiParameter("node"),
    OpenApiParameter("reviewer", description="User name; `system` for what time decided."),
    OpenApiParameter("decision", enum=Decision.values),
    OpenApiParameter("phase", enum=["BEFORE_EXECUTION", "AFTER_EXECUTION"]),
    OpenApiParameter("edited", OpenApiTypes.BOOL),
    OpenApiParameter("from", description="Date or ISO 8601 time, inclusive."),
    OpenApiParameter("to", description="Date (inclusive) or ISO 8601 time (exclusive)."),
    OpenApiParameter("workflow", description="Title of the run."),
    OpenApiParameter("q", description="Task, tool, comment, run or person."),
]


class HistoryView(ListAPIView[HumanReviewRecord]):
    """Every decision I may know of."""

    serializer_class = RecordRowSerializer
    permission_classes = [HasScope("decide")]
    orderings = {"-reviewed_at": ("-id",), "reviewed_at": ("id",)}
    queryset = HumanReviewRecord.objects.none()

    @extend_schema(
        operation_id="reviews_history",
        parameters=_FILTERS,
        responses={200: RecordRowSerializer(many=True), **problems(403, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Decisions, newest first, without the payload."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[HumanReviewRecord]:
        query_params(self.request, also=PAGINATION_PARAMETERS | {each.name for each in _FILTERS})
        filters = history.parse_filters(self.request.query_params)
        if filters.errors:
            raise ReviewInvalid(filters.errors)
        rows = history.filtered(history.records(caller(self.request)), filters)
        return history.with_executed_digest(rows)


class RecordView(RetrieveAPIView[HumanReviewRecord]):
    """One decision."""

    serializer_class = RecordSerializer
    permission_classes = [HasScope("decide")]
    queryset = HumanReviewRecord.objects.none()

    @extend_schema(
        operation_id="reviews_record",
        parameters=[OpenApiParameter("id", str, OpenApiParameter.PATH, pattern=ID_PATTERN)],
        responses={200: RecordSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A decision with what was shown, what was decided, and its place in the chain."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[HumanReviewRecord]:
        reject_query_params(self.request)
        rows = history.records(caller(self.request)).select_related("execution")
        return history.with_executed_digest(rows)
