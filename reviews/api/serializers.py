"""Serializers of the audit endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from reviews.audit.history import receipts_of
from reviews.audit.reveals import record_place, record_views
from reviews.decisions.api import MaskSerializer
from reviews.decisions.edits import edit_warnings, schema_of
from reviews.decisions.masking import Masked
from reviews.decisions.review_context import masks_of
from reviews.models import HumanReviewRecord
from workflows.api.serializers import StrictSerializer, WarningSerializer
from workflows.models import ExecutionReceipt


class RevealSerializer(StrictSerializer):
    """A masked value to be shown."""

    place = serializers.CharField(max_length=200)
    number = serializers.IntegerField(min_value=1, max_value=999_999)


class RevealedSerializer(MaskSerializer):
    """The value behind a mark.  That it was given is kept."""

    value = serializers.JSONField(allow_null=True)


class RecordRowSerializer(serializers.ModelSerializer[HumanReviewRecord]):
    """One decision, without the payload."""

    id = serializers.CharField()
    execution_id = serializers.CharField()
    hold_id = serializers.CharField()
    withdraws = serializers.CharField(source="withdraws_id", allow_null=True)
    reviewer = serializers.SerializerMethodField()
    executed_digest = serializers.CharField(
        allow_null=True,
        help_text="SHA-256 of what ran after this decision, as its newest receipt has it; null "
        "when nothing ran, or not yet.",
    )

    class Meta:
        model = HumanReviewRecord
        fields = (
            "id", "execution_id", "hold_id", "node_id", "workflow_title", "reason",
            "trigger_phase", "target", "reviewer", "actor", "source", "decision", "is_edited",
            "change_count", "comment", "version", "waited_seconds", "reviewed_at", "withdraws",
            "shown_digest", "decided_digest", "executed_digest",
        )  # fmt: skip

    def get_reviewer(self, record: HumanReviewRecord) -> str | None:
        return record.actor if record.reviewer_id else None


class ReceiptSerializer(serializers.ModelSerializer[ExecutionReceipt]):
    """What one try of an approved task ran with, or what output later tasks read.

    `digest` equals the record's `decided_digest` unless something else ran than was approved.
    """

    class Meta:
        model = ExecutionReceipt
        fields = (
            "attempt", "phase", "digest", "executed_at", "sequence", "decision_hash", "canonical",
            "previous_hash", "hash",
        )  # fmt: skip


class RecordSerializer(RecordRowSerializer):
    """One decision as it was taken: what was shown, decided and executed, its place in the chain.

    Secrets are marks, listed in `masked`; the digests are of the true values.  `warnings` names
    the keys that the edit added and the tool's schema, as it is now, does not name.
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
    """What is shown of a record, worked out once."""
    known: Mapping[str, Masked] | None = getattr(record, "masked_views", None)
    if known is None:
        known = record_views(record, [])
        record.masked_views = known  # type: ignore[attr-defined]
    return known
