"""REST endpoints of the audit log: history, records, revealed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews.audit import history, reveals
from reviews.audit.history import receipts_of
from reviews.audit.reveals import record_place, record_views
from reviews.decisions.api import MaskSerializer
from reviews.decisions.api_context import masks_of
from reviews.decisions.edits import ReviewInvalid, edit_warnings, schema_of
from reviews.decisions.masking import Masked
from reviews.models import Decision, HumanReviewRecord
from workflows.api.openapi import BODY, problems
from workflows.api.parsers import (
    PAGINATION_PARAMETERS,
    DecisionJSONParser,
    query_params,
    reject_query_params,
    validated_body,
)
from workflows.api.permission_classes import HasScope, caller, token_of
from workflows.api.problems import register
from workflows.api.serializers import ID_PATTERN, StrictSerializer, WarningSerializer
from workflows.models import ExecutionReceipt

register(reveals.MaskedValueNotFound, status=404, code="not_found")


# --- serializers ----------------------------------------------------------------------------------


class RevealSerializer(StrictSerializer):
    """A masked value to reveal."""

    place = serializers.CharField(max_length=200)
    number = serializers.IntegerField(min_value=1, max_value=999_999)


class RevealedSerializer(MaskSerializer):
    """The value behind a mark.  The reveal is recorded."""

    value = serializers.JSONField(allow_null=True)


class RecordRowSerializer(serializers.ModelSerializer[HumanReviewRecord]):
    """One decision, without the payload."""

    id = serializers.CharField()
    execution_id = serializers.CharField()
    hold_id = serializers.CharField()
    withdraws = serializers.CharField(source="withdraws_id", allow_null=True)
    reviewer = serializers.SerializerMethodField()
    comment = serializers.CharField(help_text="Secrets in it are masked.")
    is_erased = serializers.BooleanField(
        help_text="Whether retention erased the payload and the comment; the digests are left."
    )
    executed_digest = serializers.CharField(
        allow_null=True,
        help_text="SHA-256 of the data that the task ran with after this decision, from its newest "
        "execution receipt; null if nothing ran, or not yet.",
    )

    class Meta:
        model = HumanReviewRecord
        fields = (
            "id", "execution_id", "hold_id", "node_id", "workflow_title", "reason",
            "trigger_phase", "target", "reviewer", "actor", "on_behalf_of", "source", "decision",
            "is_edited", "change_count", "comment", "version", "waited_seconds", "reviewed_at",
            "withdraws", "is_erased", "shown_digest", "decided_digest", "executed_digest",
        )  # fmt: skip

    def get_reviewer(self, record: HumanReviewRecord) -> str | None:
        return record.actor if record.reviewer_id else None


class ReceiptSerializer(serializers.ModelSerializer[ExecutionReceipt]):
    """Execution receipt: the inputs of one attempt of an approved task, or its approved output.

    `digest` equals the record's `decided_digest` unless the executed data differs from the approved
    data.
    """

    class Meta:
        model = ExecutionReceipt
        fields = (
            "attempt", "phase", "digest", "executed_at", "sequence", "decision_hash", "canonical",
            "previous_hash", "hash",
        )  # fmt: skip


class RecordSerializer(RecordRowSerializer):
    """One decision: the data shown, decided and executed, and its position in the chain.

    Secrets are replaced by marks, listed in `masked`; the digests cover the real values.
    `warnings` lists keys that the edit added and the tool's current schema does not declare.
    """

    receipts = serializers.SerializerMethodField()

    original_data = serializers.SerializerMethodField()
    modified_data = serializers.SerializerMethodField()
    masked = serializers.SerializerMethodField()
    warnings = serializers.SerializerMethodField()

    class Meta(RecordRowSerializer.Meta):
        fields = (  # type: ignore[assignment]
            *RecordRowSerializer.Meta.fields, "original_data", "modified_data", "masked",
            "warnings", "canonical", "previous_hash", "hash", "signature", "receipts",
        )  # fmt: skip

    @extend_schema_field(ReceiptSerializer(many=True))
    def get_receipts(self, record: HumanReviewRecord) -> Any:
        return ReceiptSerializer(receipts_of(record), many=True).data

    @extend_schema_field(OpenApiTypes.ANY)
    def get_original_data(self, record: HumanReviewRecord) -> Any:
        return _views(record)["original"].value

    @extend_schema_field(OpenApiTypes.ANY)
    def get_modified_data(self, record: HumanReviewRecord) -> Any:
        return _views(record)["edited"].value

    @extend_schema_field(WarningSerializer(many=True))
    def get_warnings(self, record: HumanReviewRecord) -> list[dict[str, str]]:
        if not record.is_edited or record.reason != "node_review":
            return []
        schema = schema_of(record.target, record.trigger_phase)
        found = edit_warnings(schema, record.original_data, record.modified_data)
        return [{"path": each.path, "message": each.message} for each in found]

    @extend_schema_field(MaskSerializer(many=True))
    def get_masked(self, record: HumanReviewRecord) -> list[dict[str, Any]]:
        views = _views(record)
        return [
            each
            for column in ("original", "edited")
            for each in masks_of(views[column], record_place(record.pk, column))
        ]


def _views(record: HumanReviewRecord) -> Mapping[str, Masked]:
    """Return the masked columns of a record; cached on the record."""
    known: Mapping[str, Masked] | None = getattr(record, "masked_views", None)
    if known is None:
        known = record_views(record, [])
        record.masked_views = known  # type: ignore[attr-defined]
    return known


# --- views ----------------------------------------------------------------------------------------


class RevealView(APIView):
    """Reveal a masked value."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_reveal",
        request=RevealSerializer,
        responses={200: RevealedSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request) -> Response:
        """Return the value behind one mark; the reveal is recorded first, with user and time."""
        fields = validated_body(RevealSerializer, request)
        place = fields["place"]
        secret = reveals.reveal(
            place=place,
            number=fields["number"],
            user=caller(request),
            source="rest",
            token=token_of(request),
        )
        revealed = {
            "place": place,
            "number": secret.number,
            "paths": list(secret.paths),
            "value": secret.value,
        }
        headers = {"Cache-Control": "no-store"}
        return Response(RevealedSerializer(revealed).data, headers=headers)


_FILTERS = [
    OpenApiParameter("execution", pattern=ID_PATTERN),
    OpenApiParameter("node"),
    OpenApiParameter("reviewer", description="User name; `system` for timeouts."),
    OpenApiParameter("decision", enum=Decision.values),
    OpenApiParameter("phase", enum=["BEFORE_EXECUTION", "AFTER_EXECUTION"]),
    OpenApiParameter("edited", OpenApiTypes.BOOL),
    OpenApiParameter("from", description="Date or ISO 8601 time, inclusive."),
    OpenApiParameter("to", description="Date (inclusive) or ISO 8601 time (exclusive)."),
    OpenApiParameter("workflow", description="Title of the run."),
    OpenApiParameter("q", description="Words in task, tool, comment, run or person."),
]


class HistoryView(ListAPIView[HumanReviewRecord]):
    """Decisions of the runs that the caller may see."""

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
        """List decisions, newest first, without the payload."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[HumanReviewRecord]:
        query_params(self.request, also=PAGINATION_PARAMETERS | {each.name for each in _FILTERS})
        filters = history.parse_filters(self.request.query_params)
        if filters.errors:
            raise ReviewInvalid(filters.errors)
        rows = history.filtered(history.records(caller(self.request)).with_keys(), filters)
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
        """Return a decision with the data shown and decided, and its position in the chain."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[HumanReviewRecord]:
        reject_query_params(self.request)
        rows = history.records(caller(self.request)).with_keys().select_related("execution")
        return history.with_executed_digest(rows)
