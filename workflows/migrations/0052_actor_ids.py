"""Columns for the ids of the users who act; migration 0053 fills them."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workflows", "0051_count_shown_runs")]

    operations = [
        migrations.AddField("executionevent", "actor_id", models.BigIntegerField(null=True)),
        migrations.AddField("commandlog", "actor_id", models.BigIntegerField(null=True)),
        migrations.AddField("queuedcommand", "actor_id", models.BigIntegerField(null=True)),
        migrations.AddField("queuedcommand", "token_id", models.BigIntegerField(null=True)),
        migrations.AddField(
            "hold",
            "approver_ids",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(null=True),
                db_default=[],
                default=list,
                size=None,
            ),
        ),
        migrations.AddField("hold", "decided_by_id", models.BigIntegerField(null=True)),
        migrations.AddField("grant", "granted_by_id", models.BigIntegerField(null=True)),
    ]
