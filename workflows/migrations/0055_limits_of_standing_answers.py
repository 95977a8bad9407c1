"""The number of uses of a standing answer, and the sums of its limited arguments."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workflows", "0054_group_names")]

    operations = [
        migrations.AddField(
            model_name="grant",
            name="max_uses",
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="grant",
            name="sums",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
    ]
