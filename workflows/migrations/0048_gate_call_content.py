"""Arguments and answers of the calls of MCP gates; calls from before have digests only."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0047_gate_call_not_sent'),
    ]

    operations = [
        migrations.AddField(
            model_name='gatecall',
            name='answer',
            field=models.TextField(blank=True, db_default='', default='', editable=False),
        ),
        migrations.AddField(
            model_name='gatecall',
            name='arguments',
            field=models.TextField(blank=True, db_default='', default='', editable=False),
        ),
    ]
