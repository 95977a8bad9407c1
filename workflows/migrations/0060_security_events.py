"""Security events: rows are never changed, and deleted only when they are old."""

import django.db.models.functions.datetime
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION holdpoint_guard_security_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.at < now() - interval '30 days' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER holdpoint_guard_security_event
    BEFORE UPDATE OR DELETE ON workflows_securityevent
    FOR EACH ROW EXECUTE FUNCTION holdpoint_guard_security_event();
"""
BACKWARD = """
DROP TRIGGER holdpoint_guard_security_event ON workflows_securityevent;
DROP FUNCTION holdpoint_guard_security_event();
"""


class Migration(migrations.Migration):
    dependencies = [("workflows", "0059_no_authzen")]

    operations = [
        migrations.CreateModel(
            name='SecurityEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('sign_in', 'sign-in'), ('sign_in_failed', 'failed sign-in'), ('sign_in_locked', 'sign-in limit reached'), ('sign_out', 'sign-out'), ('factor_added', 'second factor set up'), ('factor_removed', 'second factor removed'), ('decision', 'decision'), ('denied', 'denied decision'), ('revealed', 'revealed value'), ('granted', 'grant'), ('grant_revoked', 'grant revoked'), ('token_created', 'token created'), ('token_revoked', 'token revoked'), ('client_registered', 'OAuth client registered'), ('client_deleted', 'OAuth client deleted'), ('workflow_saved', 'workflow saved'), ('rules_published', 'review rules published'), ('changed', 'logged change'), ('retention_set', 'retention policy set'), ('retention_deleted', 'retention policy deleted'), ('legal_hold_placed', 'legal hold placed'), ('legal_hold_lifted', 'legal hold lifted'), ('runs_erased', 'runs erased')], max_length=20)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='time')),
                ('actor', models.CharField(blank=True, default='', max_length=255)),
                ('actor_id', models.BigIntegerField(null=True, verbose_name='user id')),
                ('subject', models.CharField(blank=True, default='', max_length=255)),
                ('address', models.CharField(blank=True, default='', max_length=45)),
                ('details', models.JSONField(default=dict)),
            ],
            options={
                'ordering': ('-id',),
                'indexes': [models.Index(fields=['at'], name='security_event_time')],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
