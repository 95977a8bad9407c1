from django.db import migrations, models
from django.db.models import Q

# Earlier runs have stored their tools and pairs, but neither repetitions nor the pair before.
COUNT_LEARNED_RUNS = """
INSERT INTO graphrag_toolsequence (last, before, next, count)
SELECT tool, '', '', count(*)
FROM graphrag_learnedexecution, jsonb_array_elements_text(tools) AS tool
GROUP BY tool
UNION ALL
SELECT pair ->> 0, '', pair ->> 1, count(*)
FROM graphrag_learnedexecution, jsonb_array_elements(edges) AS pair
GROUP BY 1, 3
"""


class Migration(migrations.Migration):

    dependencies = [
        ("graphrag", "0005_marks_by_hand"),
    ]

    operations = [
        migrations.CreateModel(
            name="ToolSequence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("last", models.CharField(max_length=200)),
                ("before", models.CharField(blank=True, default="", max_length=200)),
                ("next", models.CharField(blank=True, default="", max_length=200)),
                ("count", models.PositiveIntegerField(default=1)),
            ],
            options={
                "ordering": ("-count", "id"),
                "constraints": [
                    models.UniqueConstraint(fields=("last", "before", "next"), name="sequence_once"),
                    models.CheckConstraint(condition=Q(count__gte=1), name="sequence_counted"),
                ],
            },
        ),
        migrations.RunSQL(COUNT_LEARNED_RUNS, migrations.RunSQL.noop),
    ]
