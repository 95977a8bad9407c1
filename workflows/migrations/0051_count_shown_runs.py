"""An index with which the runs of a workflow are counted that were not erased.

It replaces `execution_by_workflow`, and is built beside writers.
"""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('workflows', '0050_shapers_by_name'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='execution',
            index=models.Index(fields=['workflow', '-id'], include=('erased_at',), name='execution_of_workflow'),
        ),
        RemoveIndexConcurrently(model_name='execution', name='execution_by_workflow'),
    ]
