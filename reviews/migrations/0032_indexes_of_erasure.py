"""Indexes with which retention finds notices, in place of two for unread ones only."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('reviews', '0031_retention'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='notice',
            index=models.Index(fields=['hold'], name='notice_by_hold'),
        ),
        AddIndexConcurrently(
            model_name='notice',
            index=models.Index(fields=['execution'], name='notice_by_run'),
        ),
        RemoveIndexConcurrently(model_name='notice', name='notice_of_hold'),
        RemoveIndexConcurrently(model_name='notice', name='notice_of_run'),
    ]
