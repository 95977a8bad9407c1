"""Several rules of an approval policy, and their version."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0048_gate_call_content'),
    ]

    operations = [
        migrations.AddField(
            model_name='approvalpolicy',
            name='rules',
            field=models.JSONField(blank=True, db_default=[], default=list, help_text='Further rules, which are tried in their order after the one above: [{"name": "small", "skip_when": "inputs.amount < `50`", "sample": 0.1}].'),
        ),
        migrations.AddField(
            model_name='approvalpolicy',
            name='rules_version',
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
