"""Shapes of the tool API."""

from typing import TYPE_CHECKING, Any

from rest_framework import serializers

from graphrag.models import Tool, ToolKind
from graphrag.prediction import MAX_PREDICTIONS
from graphrag.retrieval.search import MAX_QUERY

if TYPE_CHECKING:
    ToolSerializerBase = serializers.ModelSerializer[Tool]
    Plain = serializers.Serializer[Any]
else:
    ToolSerializerBase = serializers.ModelSerializer
    Plain = serializers.Serializer


class ToolSerializer(ToolSerializerBase):
    """A tool of the catalogue."""

    class Meta:
        model = Tool
        fields = (
            "name", "kind", "server", "title", "description", "input_schema", "output_schema",
            "permission_set", "read_only", "idempotent", "destructive", "open_world", "enabled",
            "pagerank", "created_at", "updated_at",
        )  # fmt: skip
        read_only_fields = fields


class ToolSearchSerializer(Plain):
    """What to look for."""

    query = serializers.CharField(max_length=MAX_QUERY)
    limit = serializers.IntegerField(min_value=1, max_value=100, default=10)
    kind = serializers.ChoiceField(choices=ToolKind.choices, required=False, allow_null=True)
    server = serializers.CharField(max_length=100, required=False, allow_null=True)
    read_only = serializers.BooleanField(  # type: ignore[assignment]
        required=False, allow_null=True, default=None
    )


class ToolFilterSerializer(Plain):
    """Filters of the list."""

    server = serializers.CharField(
        max_length=100, required=False, help_text="Only tools of this server."
    )
    kind = serializers.ChoiceField(choices=ToolKind.choices, required=False)
    enabled = serializers.BooleanField(
        required=False, allow_null=True, default=None, help_text="Only enabled, or disabled ones."
    )
    read_only = serializers.BooleanField(  # type: ignore[assignment]
        required=False, allow_null=True, default=None, help_text="Only what changes nothing."
    )


class FoundToolSerializer(Plain):
    """A found tool; ``similarity`` is 0 to 1."""

    name = serializers.CharField()
    kind = serializers.CharField()
    server = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField()
    permission_set = serializers.CharField()
    read_only = serializers.BooleanField()  # type: ignore[assignment]
    destructive = serializers.BooleanField(allow_null=True)
    input_schema = serializers.DictField()
    output_schema = serializers.DictField(
        allow_null=True, help_text="Null where the tool declares none."
    )
    similarity = serializers.FloatField()
    reasons = serializers.ListField(child=serializers.CharField())


class ToolSearchAnswerSerializer(Plain):
    """Found tools, best first, and what could not be searched."""

    results = FoundToolSerializer(many=True)
    warnings = serializers.ListField(child=serializers.CharField())


class PredictSerializer(Plain):
    """The tools that have run."""

    done = serializers.ListField(
        child=serializers.CharField(max_length=200),
        min_length=1,
        max_length=100,
        help_text="Names of the tools that have run, the newest last.",
    )
    limit = serializers.IntegerField(min_value=1, max_value=50, default=MAX_PREDICTIONS)


class PredictionSerializer(Plain):
    """A tool that may run next; it followed the newest tool in ``observed`` of ``runs`` cases."""

    tool = serializers.CharField()
    confidence = serializers.FloatField(
        help_text="Estimated probability (0 to 1) that the tool runs next, from past runs."
    )
    after = serializers.CharField()
    observed = serializers.IntegerField()
    runs = serializers.IntegerField()


class PredictionsSerializer(Plain):
    """Tools that may run next, most likely first; none when past runs tell nothing."""

    results = PredictionSerializer(many=True)


class SuggestSerializer(Plain):
    """An intent in plain words, and what is known of the inputs."""

    intent = serializers.CharField(max_length=MAX_QUERY)
    inputs = serializers.DictField(child=serializers.JSONField(allow_null=True), required=False)
    limit = serializers.IntegerField(
        min_value=1, max_value=50, required=False, help_text="How many near tools are named."
    )


class TaskReasonSerializer(Plain):
    """Why a task is in the plan; ``confidence`` is 0 to 1."""

    task = serializers.CharField()
    tool = serializers.CharField()
    confidence = serializers.FloatField()
    reasons = serializers.ListField(child=serializers.CharField())


class NearestSerializer(Plain):
    """A tool that came near; ``similarity`` is 0 to 1."""

    tool = serializers.CharField()
    similarity = serializers.FloatField()
    reasons = serializers.ListField(child=serializers.CharField())


class QuestionSerializer(Plain):
    """What the planner asks; ``argument`` is empty when it asks for the tool of the task."""

    task = serializers.CharField()
    tool = serializers.CharField()
    argument = serializers.CharField(allow_blank=True)
    text = serializers.CharField()


class SuggestionSerializer(Plain):
    """A plan, or null with the nearest tools. ``missing_inputs``: input -> tool that needs it."""

    plan = serializers.JSONField(allow_null=True)
    confidence = serializers.FloatField(
        help_text="Probability (0 to 1) that the plan is right in everything."
    )
    layers = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    reasons = TaskReasonSerializer(many=True)
    nearest = NearestSerializer(many=True)
    missing_inputs = serializers.DictField(child=serializers.CharField())
    questions = QuestionSerializer(many=True)
    warnings = serializers.ListField(child=serializers.CharField())


class ToolMemorySerializer(Plain):
    """The last decisions of people about calls of a tool, in runs that the caller may see."""

    tool = serializers.CharField()
    approved = serializers.IntegerField(help_text="With edits or without.")
    edited = serializers.IntegerField()
    rejected = serializers.IntegerField(help_text="Rejected, or sent back for changes.")
    comment = serializers.CharField(help_text="Of the newest rejection; secrets are masked.")


class SuggestAnswerSerializer(SuggestionSerializer):
    """A suggestion, and what people decided about earlier calls of its tools."""

    decisions = ToolMemorySerializer(many=True)
