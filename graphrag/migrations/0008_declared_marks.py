from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("graphrag", "0007_words_without_synonyms")]

    operations = [
        migrations.AddField(
            model_name="tool",
            name="declared_marks",
            field=models.JSONField(
                blank=True,
                db_default={},
                default=dict,
                help_text="`read_only` and `destructive` as the MCP server last declared them.",
            ),
        ),
    ]
