"""Indexes with which retention finds runs and deliveries; they are built beside writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('workflows', '0044_erased_runs'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='execution',
            index=models.Index(condition=models.Q(('erased_at', None), ('finished_at__isnull', False)), fields=['finished_at', 'id'], name='execution_not_erased'),
        ),
        AddIndexConcurrently(
            model_name='webhookdelivery',
            index=models.Index(fields=['execution'], name='webhook_delivery_of_run'),
        ),
    ]
