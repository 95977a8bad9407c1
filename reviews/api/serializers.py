"""Shapes of the review endpoints: what comes in, what goes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from reviews.audit.history import receipts_of
from reviews.audit.reveals import record_place, record_views
from reviews.decisions.edits import edit_warnings, schema_of
from reviews.decisions.masking import Masked
from reviews.decisions.review_context import masks_of
from reviews.decisions.services import MAX_COMMENT
from reviews.models import ANSWERS, HumanReviewRecord
from reviews.queue import extensions
from workflows.api.serializers import GivenId, OverrideSerializer, Strict, WarningSerializer
from workflows.engine.commands import LONGEST_UNDO
from workflows.models import ExecutionReceipt, Hold

_LARGEST = 2**63 - 1


class ResumeSerializer(Strict):
    """The answer to a hold, at the version its sender saw.

    The version may be in If-Match instead.  Decisions in the words of other products (`approve`,
    `edit`, `respond`, `ignore`, `chosen_options`, `decline`, …) are understood too.
    """

    execution_id = GivenId()
    hold_id = serializers.CharField(max_length=40, required=False)
    node_id = serializers.CharField(max_length=64, required=False)
    version = serializers.IntegerField(min_value=0, max_value=_LARGEST, required=False)
    decision = serializers.ChoiceField(
        choices=ANSWERS,
        help_text="REQUEST_CHANGES has the task run again with `comment`, which is then required.",
    )
    edits = serializers.JSONField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Before a task: an object laid over its inputs. After it: the whole new output. "
        'A plan review: {"drop": [ids]}. Absent or null: no change.',
    )
    set_output_null = serializers.BooleanField(
        required=False,
        default=False,
        help_text="After a task: approve with null in place of its output. Not beside edits.",
    )
    comment = serializers.CharField(
        required=False, allow_blank=True, max_length=MAX_COMMENT, trim_whitespace=False, default=""
    )
    grant_scope = serializers.ChoiceField(
        choices=["task", "execution", "capability", "until"], required=False, default="task"
    )
    grant_seconds = serializers.FloatField(
        required=False, allow_null=True, default=None, min_value=1, max_value=2_592_000
    )

    undo_seconds = serializers.FloatField(
        required=False,
        default=0,
        min_value=0,
        max_value=LONGEST_UNDO,
        help_text="For how long the decision can be taken back; the run rests until then.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("hold_id" in attrs) == ("node_id" in attrs):
            raise serializers.ValidationError({"hold_id": ["give either hold_id or node_id"]})
        return attrs


class WithdrawSerializer(Strict):
    """Why it is taken back; goes into the record."""

    comment = serializers.CharField(
        required=False, allow_blank=True, max_length=MAX_COMMENT, trim_whitespace=False, default=""
    )


class WithdrawnSerializer(serializers.Serializer[Any]):
    """`what` is `decision`, or `vote` for one approval of a quorum; the hold is open again."""

    hold_id = serializers.CharField()
    execution_id = serializers.CharField()
    what = serializers.ChoiceField(choices=["decision", "vote"])
    record_id = serializers.CharField()
    withdraws = serializers.CharField()
    status = serializers.CharField()
    version = serializers.IntegerField()


class ExtendSerializer(Strict):
    """How much more time a hold gets."""

    seconds = serializers.IntegerField(min_value=extensions.SHORTEST, max_value=extensions.LONGEST)


class ExtendedSerializer(serializers.Serializer[Any]):
    """`outcome` is `queued` while a worker moves the run on: the new deadline comes with it."""

    hold_id = serializers.CharField()
    execution_id = serializers.CharField()
    outcome = serializers.ChoiceField(choices=["applied", "queued"])
    expires_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class HoldRowSerializer(serializers.ModelSerializer[Hold]):
    """One hold of the queue, without its payload."""

    hold_id = serializers.CharField(source="id")
    execution_id = serializers.CharField()
    node_id = serializers.SerializerMethodField()
    trigger_phase = serializers.SerializerMethodField()
    workflow = serializers.SerializerMethodField()
    title = serializers.CharField(source="execution.title")
    status = serializers.CharField(source="execution.status")
    version = serializers.IntegerField(source="execution.version")
    claimed_by = serializers.SerializerMethodField()

    class Meta:
        model = Hold
        fields = (
            "hold_id", "execution_id", "node_id", "trigger_phase", "reason", "target", "workflow",
            "title", "status", "version", "layer", "why", "critical", "groups", "quorum",
            "approvals", "on_reject", "on_timeout", "opened_at", "expires_at", "claimed_by",
        )  # fmt: skip

    def get_node_id(self, hold: Hold) -> str | None:
        return hold.task_id or None

    def get_trigger_phase(self, hold: Hold) -> str | None:
        return hold.phase or None

    def get_workflow(self, hold: Hold) -> str | None:
        workflow = hold.execution.workflow
        return workflow.name if workflow else None

    def get_claimed_by(self, hold: Hold) -> str | None:
        claim = getattr(hold, "claim", None)
        return claim.user.get_username() if claim else None


def hold_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """What HoldRowSerializer makes of a hold, of `selectors.light_rows`: a fifth of the time."""
    row = {name: values[name] for name in _AS_THEY_ARE}
    return {
        "hold_id": values["id"],
        "execution_id": str(values["execution_id"]),
        "node_id": values["task_id"] or None,
        "trigger_phase": values["phase"] or None,
        "status": values["run_status"],
        **row,
    }


_TURNED = ("hold_id", "execution_id", "node_id", "trigger_phase", "status")
_AS_THEY_ARE = tuple(each for each in HoldRowSerializer.Meta.fields if each not in _TURNED)


class RightSerializer(serializers.Serializer[Any]):
    """What the asking person may do with a hold, and the reason when something is missing."""

    approve = serializers.BooleanField()
    reject = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True)


class MaskSerializer(serializers.Serializer[Any]):
    """A masked value: its number stands in its mark, `[•••••••• 3]`; `paths` are its places."""

    place = serializers.CharField()
    number = serializers.IntegerField()
    paths = serializers.ListField(child=serializers.CharField(allow_blank=True))


class RevealSerializer(Strict):
    """A masked value to be shown."""

    place = serializers.CharField(max_length=200)
    number = serializers.IntegerField(min_value=1, max_value=999_999)


class RevealedSerializer(MaskSerializer):
    """The value behind a mark.  That it was given is kept."""

    value = serializers.JSONField(allow_null=True)


class HoldDetailSerializer(HoldRowSerializer):
    """A hold with what is decided: payload, its JSON Schema, instructions, and my right.

    Secrets of the payload are marks, listed in `masked`.
    """

    payload = serializers.JSONField()
    masked = MaskSerializer(many=True)
    schema = serializers.JSONField(allow_null=True)
    right = RightSerializer()
    cannot_be_approved = serializers.BooleanField(
        help_text="Too few people are left who may approve it: its groups are empty or too small."
    )

    class Meta(HoldRowSerializer.Meta):
        fields = (  # type: ignore[assignment]
            *HoldRowSerializer.Meta.fields, "instructions", "payload", "masked", "schema", "right",
            "cannot_be_approved",
            "round", "previous", "changes_left",
        )  # fmt: skip


class ContextTaskSerializer(serializers.Serializer[Any]):
    """A task of the run, as a reviewer needs it."""

    id = serializers.CharField()
    target = serializers.CharField()
    layer = serializers.IntegerField()
    status = serializers.CharField()
    inputs = serializers.JSONField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    edited = serializers.BooleanField(source="is_edited")


class ContextSerializer(serializers.Serializer[Any]):
    """Everything around the open holds of one execution."""

    execution_id = serializers.CharField()
    title = serializers.CharField()
    workflow = serializers.CharField(allow_null=True)
    status = serializers.CharField()
    version = serializers.IntegerField()
    layer = serializers.IntegerField()
    total_layers = serializers.IntegerField()
    inputs = serializers.JSONField()
    context = serializers.JSONField()  # type: ignore[assignment]
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    policy_overrides = OverrideSerializer(many=True)
    holds = HoldDetailSerializer(many=True)
    tasks = ContextTaskSerializer(many=True)
    messages = serializers.ListField(child=serializers.JSONField())
    decisions = serializers.ListField(child=serializers.JSONField())


class OpenHoldSerializer(serializers.Serializer[Any]):
    """An open hold in a state."""

    id = serializers.CharField()
    node_id = serializers.CharField(allow_blank=True)
    trigger_phase = serializers.CharField(allow_blank=True)


class ResumedSerializer(serializers.Serializer[Any]):
    """The state a decision led to.  `complete` is false for one approval of a quorum.

    `warnings` names the keys that an edit added and the tool's schema does not name.
    """

    execution_id = serializers.CharField()
    hold_id = serializers.CharField()
    decision = serializers.CharField()
    edited = serializers.BooleanField()
    complete = serializers.BooleanField()
    undo_until = serializers.DateTimeField(allow_null=True)
    record_id = serializers.CharField()
    warnings = WarningSerializer(many=True)
    status = serializers.CharField()
    version = serializers.IntegerField()
    holds = OpenHoldSerializer(many=True)
    paused_node_id = serializers.CharField(allow_null=True)
    paused_phase = serializers.CharField(allow_null=True)


class ClaimSerializer(serializers.Serializer[Any]):
    """A claim: claiming again before `expires_at` renews it."""

    hold_id = serializers.CharField()
    claimed_by = serializers.CharField(source="user.username")
    claimed_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class ReleasedSerializer(serializers.Serializer[Any]):
    """Whether there was a claim to give back."""

    released = serializers.BooleanField()


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
