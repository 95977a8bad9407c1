"""Rows of the tool graph. No behaviour: ingest, catalogue and learning read and write them."""

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models import F, Q
from pgvector.django import HnswIndex, VectorField

from graphrag import actions

DIMENSIONS = 384
"""Length of every stored embedding."""

FIRST_CONFIDENCE = 0.5
"""Confidence of an edge observed once."""


class ToolKind(models.TextChoices):
    """Where a tool runs."""

    PYTHON = "python", "Python"
    MCP = "mcp", "MCP"
    CAPABILITY = "capability", "Capability"


class Tool(models.Model):
    """One tool that a plan may name, unique by ``server.tool``."""

    name = models.CharField(max_length=200, unique=True)
    kind = models.CharField(max_length=16, choices=ToolKind.choices)
    server = models.CharField(max_length=100, db_index=True)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    input_schema = models.JSONField(default=dict)
    output_schema = models.JSONField(null=True, blank=True)
    permission_set = models.CharField(max_length=64, default="minimal")
    permission_set_by_hand = models.BooleanField(
        default=False, help_text="A person chose the permission set; a sync leaves it alone."
    )
    marks_by_hand = models.JSONField(
        default=dict,
        blank=True,
        db_default={},
        help_text="`read_only` and `destructive` as a person set them; a sync leaves them alone.",
    )
    declared_marks = models.JSONField(
        default=dict,
        blank=True,
        db_default={},
        help_text="`read_only` and `destructive` as the MCP server last declared them.",
    )
    read_only = models.BooleanField(default=False)
    idempotent = models.BooleanField(default=False)
    destructive = models.BooleanField(null=True, blank=True)
    open_world = models.BooleanField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    vanished = models.BooleanField(
        default=False, help_text="Disabled by a sync because its server no longer lists it."
    )
    embedding = VectorField(dimensions=DIMENSIONS, null=True, blank=True)
    embedder = models.CharField(max_length=300, blank=True)
    embedded_digest = models.CharField(max_length=64, blank=True)
    search_name = models.TextField(blank=True, editable=False)
    search_summary = models.TextField(blank=True, editable=False)
    search_body = models.TextField(blank=True, editable=False)
    search_arguments = models.TextField(blank=True, editable=False)
    search = models.GeneratedField(
        expression=SearchVector("search_name", weight="A", config="english")
        + SearchVector("search_summary", weight="B", config="english")
        + SearchVector("search_body", weight="C", config="english")
        + SearchVector("search_arguments", weight="D", config="english"),
        output_field=SearchVectorField(),
        db_persist=True,
    )
    pagerank = models.FloatField(
        default=1.0, help_text="PageRank in multiples of the average tool's."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)
        indexes = (
            HnswIndex(
                name="tool_embedding_hnsw",
                fields=["embedding"],
                m=16,
                ef_construction=64,
                opclasses=["vector_cosine_ops"],
            ),
            GinIndex(name="tool_search_gin", fields=["search"]),
        )
        constraints = (
            models.CheckConstraint(
                name="tool_vanished_is_disabled", condition=Q(vanished=False) | Q(enabled=False)
            ),
            models.CheckConstraint(
                name="tool_embedding_names_embedder",
                condition=Q(embedding__isnull=True) | ~Q(embedder=""),
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def can_destroy(self) -> bool:
        """Whether a person must review each task with the tool."""
        return actions.can_destroy(
            self.name.removeprefix(f"{self.server}."),
            kind=self.kind,
            read_only=self.read_only,
            destructive=self.destructive,
        )

    @property
    def looser_marks(self) -> dict[str, bool | None]:
        """The marks that its server declares and that wait for a person, by name."""
        return {
            mark: value
            for mark, value in self.declared_marks.items()
            if mark not in self.marks_by_hand and value != getattr(self, mark)
        }


class ToolDependency(models.Model):
    """In real runs ``to_tool`` followed ``from_tool``; counted once per execution."""

    from_tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="next_edges")
    to_tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="previous_edges")
    observed_count = models.PositiveIntegerField(default=1)
    confidence = models.FloatField(default=FIRST_CONFIDENCE)
    first_seen_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("-observed_count", "id")
        verbose_name_plural = "tool dependencies"
        constraints = (
            models.UniqueConstraint(name="dependency_pair", fields=("from_tool", "to_tool")),
            models.CheckConstraint(
                name="dependency_not_itself", condition=~Q(from_tool=F("to_tool"))
            ),
            models.CheckConstraint(name="dependency_observed", condition=Q(observed_count__gte=1)),
            models.CheckConstraint(
                name="dependency_confidence",
                condition=Q(confidence__gte=FIRST_CONFIDENCE) & Q(confidence__lte=1.0),
            ),
        )

    def __str__(self) -> str:
        return f"{self.from_tool_id} → {self.to_tool_id}"


class ToolSequence(models.Model):
    """How often ``next`` ran in the layer after ``last``, or how often ``last`` ran at all.

    ``next`` is "" in the row that counts the runs of ``last``. ``before`` is a tool of the layer
    before ``last``, START in the first layer, or "" in the row that counts all of them. Tools are
    named, not referenced, because both columns also hold these marks.
    """

    START = "^"

    last = models.CharField(max_length=200)
    before = models.CharField(max_length=200, blank=True, default="")
    next = models.CharField(max_length=200, blank=True, default="")
    count = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ("-count", "id")
        constraints = (
            models.UniqueConstraint(name="sequence_once", fields=("last", "before", "next")),
            models.CheckConstraint(name="sequence_counted", condition=Q(count__gte=1)),
        )

    def __str__(self) -> str:
        return f"{self.before} → {self.last} → {self.next}"


class LearnedExecution(models.Model):
    """An execution whose run has been learned; learning its key again changes nothing."""

    execution_key = models.CharField(max_length=200, unique=True)
    tools = models.JSONField(default=list)
    edges = models.JSONField(default=list)
    outcome = models.JSONField(
        default=dict,
        editable=False,
        help_text="edges: [from, to, count, confidence]; ranks: [tool, before, after].",
    )
    graph_number = models.PositiveBigIntegerField(
        null=True,
        editable=False,
        db_index=True,
        help_text="The graph's revision that this execution made.",
    )
    graph_before = models.UUIDField(
        null=True, editable=False, help_text="Token of the revision that this one came after."
    )
    learned_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-learned_at",)
        verbose_name = "learned run"

    def __str__(self) -> str:
        return self.execution_key


class Revision(models.Model):
    """Counter and token of something that workers keep in memory: ``catalogue`` or ``graph``.

    The token is new at every change, so a cache never takes another database's (or a rolled
    back transaction's) count for its own.
    """

    name = models.CharField(max_length=16, primary_key=True)
    number = models.PositiveBigIntegerField(default=0)
    token = models.UUIDField()
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.name} {self.number}"
