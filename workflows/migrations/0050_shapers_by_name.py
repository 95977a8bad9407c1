"""The index of the runs that a person shaped; it is built beside writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('workflows', '0049_approval_rules'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='shaper',
            index=models.Index(fields=['name', 'execution'], name='shaper_by_name'),
        ),
    ]
