"""Serializers of executions: requests and responses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.module_loading import import_string
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from workflows.common.redaction import mask_secrets
from workflows.engine.protocol.decision_history import decision_of
from workflows.engine.protocol.status import ExecutionStatus
from workflows.executions.selectors import TaskView
from workflows.models import Checkpoint, Execution, ExecutionEvent, Hold
from workflows.planning.planner import MAX_INTENT

if TYPE_CHECKING:
    PlainSerializer = serializers.Serializer[Any]
    IdField = serializers.Field[int, Any, str, Any]
    ExecutionModel = serializers.ModelSerializer[Execution]
    HoldModel = serializers.ModelSerializer[Hold]
    CheckpointModel = serializers.ModelSerializer[Checkpoint]
else:
    PlainSerializer = serializers.Serializer
    IdField = serializers.Field
    ExecutionModel = HoldModel = CheckpointModel = serializers.ModelSerializer


class StrictSerializer(PlainSerializer):
    """A request serializer that rejects unknown fields."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(set(data) - set(self.fields))
            if unknown:
                messages = ["is not a known field"]
                raise serializers.ValidationError(dict.fromkeys(unknown, messages), code="unknown")
        return super().to_internal_value(data)


#: Pattern of ids in responses; a request may also send a number.
ID_PATTERN = "^[0-9]{1,19}$"
_MAX_ID = 2**63 - 1


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "pattern": ID_PATTERN},
            {"type": "integer", "minimum": 1, "maximum": _MAX_ID},
        ]
    }
)
class RequestIdField(IdField):
    """An id in a request, as text or number; the value is an int."""

    default_error_messages = {"invalid": "must be an id: digits, as text or as a number"}

    def to_internal_value(self, data: Any) -> int:
        text = str(data) if isinstance(data, (int, str)) and not isinstance(data, bool) else ""
        if not re.fullmatch(ID_PATTERN, text) or not 1 <= int(text) <= _MAX_ID:
            self.fail("invalid")
        return int(text)

    def to_representation(self, value: int) -> str:
        return str(value)


# --- requests -------------------------------------------------------------------------------------


class StartSerializer(StrictSerializer):
    """One of `workflow` (its name or id), `plan` and `intent`; the rest is optional."""

    workflow = serializers.CharField(max_length=100, required=False)
    plan = serializers.DictField(required=False)
    intent = serializers.CharField(max_length=MAX_INTENT, required=False)
    inputs = serializers.DictField(required=False)
    policy = serializers.DictField(required=False)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        sources = [name for name in ("workflow", "plan", "intent") if name in attrs]
        if len(sources) != 1:
            where = sources[1] if sources else "workflow"
            message = "give exactly one of workflow, plan and intent"
            raise serializers.ValidationError({where: [message]}, code="required")
        return attrs


class FilterSerializer(PlainSerializer):
    """Filters of the list of executions."""

    status = serializers.ChoiceField(choices=[s.value for s in ExecutionStatus], required=False)
    workflow = serializers.CharField(max_length=100, required=False, help_text="A workflow's name.")
    created_by = serializers.CharField(
        max_length=150, required=False, help_text="A user name, or `me`."
    )
    created_from = serializers.DateTimeField(required=False, help_text="Inclusive.")
    created_to = serializers.DateTimeField(required=False, help_text="Exclusive.")


class RevealQuery(PlainSerializer):
    """Whether to show masked values."""

    reveal = serializers.BooleanField(
        default=False, help_text="Show the real values of masked data; the access is recorded."
    )


class MaskedValueSerializer(PlainSerializer):
    """A masked value: `number` is in its mark, `[•••••••• 3]`; `paths` lists its occurrences."""

    place = serializers.CharField()
    number = serializers.IntegerField()
    paths = serializers.ListField(child=serializers.CharField(allow_blank=True))


class MessageSerializer(StrictSerializer):
    """A message for an execution's conversation; the author is the caller."""

    role = serializers.ChoiceField(choices=["user", "assistant", "tool"], default="user")
    content = serializers.CharField(max_length=20_000, trim_whitespace=False)
    ask_agent = serializers.BooleanField(
        required=False,
        help_text="Have the run's agent decide after this layer; requires the right to command it.",
    )


class ForkEditsSerializer(StrictSerializer):
    """Keys that override inputs and context. Absent or null: no change."""

    inputs = serializers.DictField(required=False, allow_null=True)
    context = serializers.DictField(  # type: ignore[assignment]
        required=False, allow_null=True
    )


class ForkSerializer(StrictSerializer):
    """The checkpoint of the fork, and changes to inputs and context."""

    checkpoint = serializers.CharField(max_length=20)
    edits = ForkEditsSerializer(required=False, allow_null=True)


# --- responses ------------------------------------------------------------------------------------


class TrySerializer(PlainSerializer):
    """One recorded attempt of a task."""

    attempt = serializers.IntegerField()
    status = serializers.CharField()
    error = serializers.CharField(allow_blank=True)
    duration_ms = serializers.FloatField()
    created_at = serializers.DateTimeField()


class TaskSerializer(PlainSerializer):
    """A task with its state and output.

    `output` is the value that later tasks read: a reviewer's edit if there is one; null if a
    reviewer rejected the task (`is_rejected`) or requested changes. `original_output` is the output
    of the task itself. `attempts` is the number of recorded attempts. `logs` are the last lines
    that code or a remote task has printed; `progress` is the share of the work that a remote task
    that runs has reported, from 0 to 1.
    """

    id = serializers.CharField()
    title = serializers.CharField(source="label")
    type = serializers.CharField()
    target = serializers.CharField()
    layer = serializers.IntegerField()
    needs = serializers.ListField(child=serializers.CharField())
    permission_set = serializers.CharField(allow_null=True)
    status = serializers.CharField()
    skip_reason = serializers.CharField(allow_blank=True)
    hold_id = serializers.SerializerMethodField()
    inputs = serializers.JSONField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    original_output = serializers.JSONField(allow_null=True)
    is_edited = serializers.BooleanField()
    is_rejected = serializers.BooleanField()
    error = serializers.CharField(allow_blank=True)
    logs = serializers.CharField(allow_blank=True)
    progress = serializers.FloatField(allow_null=True)
    duration_ms = serializers.FloatField()
    attempts = serializers.SerializerMethodField()
    tries = TrySerializer(many=True, source="attempts")

    def get_hold_id(self, task: TaskView) -> str | None:
        return task.held or None

    def get_attempts(self, task: TaskView) -> int:
        return len(task.attempts)


class HoldSerializer(HoldModel):
    """A decision point, open or decided.

    `reviewer` is the user who decided it; null if it is open or an agent or a timeout decided it.
    """

    node_id = serializers.SerializerMethodField()
    trigger_phase = serializers.SerializerMethodField()
    comment = serializers.SerializerMethodField()
    reviewer = serializers.CharField(allow_null=True)
    edited = serializers.BooleanField()

    class Meta:
        model = Hold
        fields = (
            "id", "node_id", "trigger_phase", "reason", "decider", "status", "layer", "target",
            "payload", "groups", "why", "why_code", "why_params", "instructions", "critical",
            "quorum", "approvals", "on_reject", "on_timeout", "opened_at", "expires_at",
            "decided_at", "decided_by", "decision", "comment", "reviewer", "edited", "reminds_at",
            "escalation", "escalated", "escalates_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_comment(self, hold: Hold) -> str:
        return getattr(hold, "comment", "")

    def get_node_id(self, hold: Hold) -> str | None:
        return hold.task_id or None

    def get_trigger_phase(self, hold: Hold) -> str | None:
        return hold.phase or None


class ExecutionRowSerializer(ExecutionModel):
    """An execution in a list. `paused_*` belong to the oldest open hold."""

    id = serializers.CharField()
    error = serializers.SerializerMethodField()
    workflow = serializers.SerializerMethodField()
    created_by = serializers.SerializerMethodField()
    parent = serializers.SerializerMethodField()  # type: ignore[assignment]
    paused_node_id = serializers.SerializerMethodField()
    paused_phase = serializers.SerializerMethodField()

    class Meta:
        model = Execution
        fields = (
            "id", "title", "status", "version", "paused_node_id", "paused_phase", "workflow",
            "created_by", "layer", "total_layers", "revision", "parent", "forked_at_layer",
            "error", "created_at", "updated_at", "finished_at",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = fields

    def get_workflow(self, execution: Execution) -> str | None:
        return execution.workflow.name if execution.workflow else None

    def get_created_by(self, execution: Execution) -> str | None:
        return execution.created_by.get_username() if execution.created_by else None

    def get_error(self, execution: Execution) -> str:
        return mask_secrets(execution.error)

    def get_parent(self, execution: Execution) -> str | None:
        return str(execution.parent_id) if execution.parent_id else None

    def get_paused_node_id(self, execution: Execution) -> str | None:
        return getattr(execution, "oldest_node", None) or None

    def get_paused_phase(self, execution: Execution) -> str | None:
        return getattr(execution, "oldest_phase", None) or None


class OverrideSerializer(PlainSerializer):
    """A policy field whose value at the start differs from the workflow's value."""

    field = serializers.CharField()
    to = serializers.JSONField(allow_null=True)
    loosens = serializers.BooleanField()
    by = serializers.CharField()

    def get_fields(self) -> dict[str, Any]:
        # `from` is a keyword of Python.
        value = serializers.JSONField(allow_null=True)
        return {"field": self._declared_fields["field"], "from": value, **super().get_fields()}


class ExecutionSerializer(ExecutionRowSerializer):
    """An execution with its tasks by layer, and its holds, oldest first."""

    inputs = serializers.DictField()
    context = serializers.DictField()  # type: ignore[assignment]
    policy = serializers.DictField()
    policy_overrides = OverrideSerializer(many=True)
    tasks = TaskSerializer(many=True, source="task_views")
    holds = HoldSerializer(many=True, source="all_holds")
    masked = MaskedValueSerializer(many=True)

    class Meta(ExecutionRowSerializer.Meta):
        fields = (  # type: ignore[assignment]
            *ExecutionRowSerializer.Meta.fields, "inputs", "context", "policy", "policy_overrides",
            "tasks", "holds", "masked",
        )  # fmt: skip
        read_only_fields = fields


class StartedSerializer(ExecutionSerializer):
    """A started execution; `warnings` name groups in which nobody may decide."""

    warnings = serializers.ListField(child=serializers.CharField(), required=False)

    class Meta(ExecutionSerializer.Meta):
        fields = (*ExecutionSerializer.Meta.fields, "warnings")  # type: ignore[assignment]
        read_only_fields = fields  # type: ignore[assignment]


class CheckpointSerializer(CheckpointModel):
    """A checkpoint at the end of a layer."""

    id = serializers.CharField()
    context = serializers.SerializerMethodField()  # type: ignore[assignment]

    class Meta:
        model = Checkpoint
        fields = ("id", "layer", "version", "revision", "context", "created_at")
        read_only_fields = fields

    def get_context(self, checkpoint: Checkpoint) -> dict[str, Any]:
        view = import_string(settings.HOLDPOINT["context_view"])
        context: dict[str, Any] = view(execution=checkpoint.execution, context=checkpoint.context)
        return context


class DecisionSerializer(PlainSerializer):
    """A decision of a person (HIL) or an agent (AIL).

    `decision` is APPROVE, REJECT, REQUEST_CHANGES, WITHDRAW or ABORT of people, CONTINUE, REPLAN or
    ABORT of agents.  `is_vote`: one approval of a quorum; `failed`: the agent did not respond
    in time or in the required format, so the default decision applies.
    """

    execution_id = serializers.CharField(
        help_text="The execution it was made in: this one, or one that this one is a fork of."
    )
    seq = serializers.IntegerField(help_text="Its number in that execution.")
    timestamp = serializers.IntegerField(help_text="ms since the epoch")
    type = serializers.ChoiceField(choices=["HIL", "AIL"])
    decision = serializers.ChoiceField(
        choices=[
            "APPROVE", "REJECT", "REQUEST_CHANGES", "WITHDRAW", "ABORT", "CONTINUE", "REPLAN",
        ]
    )  # fmt: skip
    actor = serializers.CharField(allow_blank=True)
    reviewer = serializers.CharField(allow_null=True)
    hold_id = serializers.CharField(allow_null=True)
    node_id = serializers.CharField(allow_null=True)
    trigger_phase = serializers.CharField(allow_null=True)
    reason = serializers.CharField(allow_blank=True, help_text="Why the hold was opened.")
    comment = serializers.CharField(allow_blank=True)
    edited = serializers.BooleanField()
    is_vote = serializers.BooleanField()
    failed = serializers.BooleanField()

    def to_representation(self, instance: ExecutionEvent) -> dict[str, Any]:
        return decision_row(instance)


def decision_row(event: ExecutionEvent) -> dict[str, Any]:
    """Return the API representation of a row of `selectors.decisions_of`."""
    for_agent = bool(getattr(event, "for_agent", False))
    row = decision_of(event.kind, event.payload, event.by, for_agent=for_agent)
    return {
        "execution_id": str(event.execution_id),
        "seq": event.seq,
        "timestamp": int(event.created_at.timestamp() * 1000),
        **row,
        "comment": mask_secrets(row["comment"]),
    }


class SaidSerializer(PlainSerializer):
    """A message of an execution's conversation."""

    seq = serializers.IntegerField()
    role = serializers.CharField(source="payload.role")
    content = serializers.CharField(source="payload.content")
    author = serializers.CharField(source="payload.author")
    created_at = serializers.DateTimeField()


class WarningSerializer(PlainSerializer):
    """A warning about an edit that is allowed but may be a mistake."""

    path = serializers.CharField()
    message = serializers.CharField()


class OutcomeSerializer(PlainSerializer):
    """`applied`, or `queued` if a worker runs a layer and applies the command after it.

    A decision has `warnings`: keys of its edit that the tool's schema does not declare. A replan
    has `questions`: what the planner is unsure of in the new plan; none while it is queued.
    """

    outcome = serializers.ChoiceField(choices=["applied", "queued"])
    version = serializers.IntegerField()
    status = serializers.ChoiceField(choices=[s.value for s in ExecutionStatus])
    warnings = WarningSerializer(many=True, required=False)
    questions = serializers.ListField(child=serializers.CharField(), required=False)
