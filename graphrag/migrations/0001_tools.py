import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import pgvector.django.indexes
import pgvector.django.vector
from django.db import DatabaseError, migrations, models
from pgvector.django import VectorExtension


class RequireVectorExtension(VectorExtension):
    """Create the ``vector`` extension, or say in plain words what the server lacks."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        try:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        except DatabaseError as error:
            raise RuntimeError(
                "This PostgreSQL server has no usable 'vector' extension (pgvector 0.8 or newer). "
                "Install pgvector on the server, or have a superuser run CREATE EXTENSION vector."
            ) from error


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        RequireVectorExtension(),
        migrations.CreateModel(
            name="LearnedExecution",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("execution_key", models.CharField(max_length=200, unique=True)),
                ("tools", models.JSONField(default=list)),
                ("edges", models.JSONField(default=list)),
                (
                    "graph_number",
                    models.PositiveBigIntegerField(
                        db_index=True,
                        editable=False,
                        help_text="The graph's revision that this execution made.",
                        null=True,
                    ),
                ),
                (
                    "graph_before",
                    models.UUIDField(
                        editable=False,
                        help_text="Token of the revision that this one came after.",
                        null=True,
                    ),
                ),
                ("learned_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("-learned_at",),
            },
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                ("name", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("number", models.PositiveBigIntegerField(default=0)),
                ("token", models.UUIDField()),
                ("changed_at", models.DateTimeField(auto_now=True)),
            ],
        ),
        migrations.CreateModel(
            name="Tool",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("python", "Python"),
                            ("mcp", "MCP"),
                            ("capability", "Capability"),
                        ],
                        max_length=16,
                    ),
                ),
                ("server", models.CharField(db_index=True, max_length=100)),
                ("title", models.CharField(blank=True, max_length=200)),
                ("description", models.TextField(blank=True)),
                ("input_schema", models.JSONField(default=dict)),
                ("output_schema", models.JSONField(blank=True, null=True)),
                ("permission_set", models.CharField(default="minimal", max_length=64)),
                (
                    "permission_set_by_hand",
                    models.BooleanField(
                        default=False,
                        help_text="A person chose the permission set; a sync leaves it alone.",
                    ),
                ),
                ("read_only", models.BooleanField(default=False)),
                ("idempotent", models.BooleanField(default=False)),
                ("destructive", models.BooleanField(blank=True, null=True)),
                ("open_world", models.BooleanField(blank=True, null=True)),
                ("enabled", models.BooleanField(default=True)),
                (
                    "vanished",
                    models.BooleanField(
                        default=False,
                        help_text="Disabled by a sync because its server no longer lists it.",
                    ),
                ),
                (
                    "embedding",
                    pgvector.django.vector.VectorField(blank=True, dimensions=384, null=True),
                ),
                ("embedder", models.CharField(blank=True, max_length=300)),
                ("embedded_digest", models.CharField(blank=True, max_length=64)),
                ("search_name", models.TextField(blank=True, editable=False)),
                ("search_summary", models.TextField(blank=True, editable=False)),
                ("search_body", models.TextField(blank=True, editable=False)),
                ("search_arguments", models.TextField(blank=True, editable=False)),
                (
                    "search",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.contrib.postgres.search.CombinedSearchVector(
                            django.contrib.postgres.search.CombinedSearchVector(
                                django.contrib.postgres.search.CombinedSearchVector(
                                    django.contrib.postgres.search.SearchVector(
                                        "search_name", config="english", weight="A"
                                    ),
                                    "||",
                                    django.contrib.postgres.search.SearchVector(
                                        "search_summary", config="english", weight="B"
                                    ),
                                    django.contrib.postgres.search.SearchConfig("english"),
                                ),
                                "||",
                                django.contrib.postgres.search.SearchVector(
                                    "search_body", config="english", weight="C"
                                ),
                                django.contrib.postgres.search.SearchConfig("english"),
                            ),
                            "||",
                            django.contrib.postgres.search.SearchVector(
                                "search_arguments", config="english", weight="D"
                            ),
                            django.contrib.postgres.search.SearchConfig("english"),
                        ),
                        output_field=django.contrib.postgres.search.SearchVectorField(),
                    ),
                ),
                (
                    "pagerank",
                    models.FloatField(
                        default=1.0, help_text="PageRank in multiples of the average tool's."
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ("name",),
                "indexes": [
                    pgvector.django.indexes.HnswIndex(
                        ef_construction=64,
                        fields=["embedding"],
                        m=16,
                        name="tool_embedding_hnsw",
                        opclasses=["vector_cosine_ops"],
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["search"], name="tool_search_gin"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("vanished", False), ("enabled", False), _connector="OR"
                        ),
                        name="tool_vanished_is_disabled",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("embedding__isnull", True),
                            models.Q(("embedder", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="tool_embedding_names_embedder",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ToolDependency",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("observed_count", models.PositiveIntegerField(default=1)),
                ("confidence", models.FloatField(default=0.5)),
                ("first_seen_at", models.DateTimeField(auto_now_add=True)),
                ("last_seen_at", models.DateTimeField(auto_now=True)),
                (
                    "from_tool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="next_edges",
                        to="graphrag.tool",
                    ),
                ),
                (
                    "to_tool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="previous_edges",
                        to="graphrag.tool",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "tool dependencies",
                "ordering": ("-observed_count", "id"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("from_tool", "to_tool"), name="dependency_pair"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("from_tool", models.F("to_tool")), _negated=True),
                        name="dependency_not_itself",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("observed_count__gte", 1)), name="dependency_observed"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("confidence__gte", 0.5), ("confidence__lte", 1.0)),
                        name="dependency_confidence",
                    ),
                ],
            },
        ),
        # What is compared for many rows at once stays in its row instead of being fetched for each.
        migrations.RunSQL(
            "ALTER TABLE graphrag_tool ALTER COLUMN embedding SET STORAGE PLAIN,"
            " ALTER COLUMN search SET STORAGE MAIN",
            migrations.RunSQL.noop,
        ),
    ]
