import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0013_answered_in_lists'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(fields=['finished_at', 'id'], name='execution_by_end'),
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(fields=['workflow', '-id'], name='execution_by_workflow'),
        ),
        migrations.AlterField(
            model_name='execution',
            name='workflow',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='executions', to='workflows.workflow'),
        ),
    ]
