"""Which masked values were shown to whom: kept as noted, as denied attempts are."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


FORWARD = """
CREATE TRIGGER holdpoint_reveals_append_only
    BEFORE UPDATE OR DELETE ON reviews_secretreveal
    FOR EACH ROW EXECUTE FUNCTION holdpoint_records_append_only();
CREATE TRIGGER holdpoint_reveals_no_truncate
    BEFORE TRUNCATE ON reviews_secretreveal
    FOR EACH STATEMENT EXECUTE FUNCTION holdpoint_records_append_only();
"""

BACKWARD = """
DROP TRIGGER holdpoint_reveals_no_truncate ON reviews_secretreveal;
DROP TRIGGER holdpoint_reveals_append_only ON reviews_secretreveal;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('reviews', '0011_request_changes'),
        ('workflows', '0007_token_workflows'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='SecretReveal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('actor', models.CharField(max_length=150)),
                ('source', models.CharField(max_length=20)),
                ('place', models.CharField(max_length=200)),
                ('path', models.TextField()),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('execution', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='secret_reveals', to='workflows.execution')),
                ('hold', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='secret_reveals', to='workflows.hold')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-id',),
                'indexes': [models.Index(fields=['execution', '-id'], name='reveal_by_execution')],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
