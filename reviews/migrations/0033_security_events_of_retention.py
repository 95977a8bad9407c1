"""Security events of retention: policies, legal holds and erased runs, for the SIEM."""

from django.db import migrations, models

FORWARD = """
CREATE FUNCTION holdpoint_security_of_retention() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM holdpoint_security_event(
        CASE NEW.kind
            WHEN 'policy_set' THEN 'retention_set'
            WHEN 'policy_deleted' THEN 'retention_deleted'
            WHEN 'hold_placed' THEN 'legal_hold_placed'
            WHEN 'hold_lifted' THEN 'legal_hold_lifted'
            WHEN 'erased' THEN 'runs_erased'
        END,
        NEW.actor, '',
        jsonb_build_object(
            'entry', NEW.id, 'subject', NEW.subject, 'runs', cardinality(NEW.executions),
            'legal_hold', NEW.detail -> 'legal_hold', 'enabled', NEW.detail -> 'enabled',
            'keep_days', NEW.detail -> 'keep_days', 'erase_records', NEW.detail -> 'erase_records',
            'records_erased', NEW.detail -> 'records_erased'));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON reviews_retentionentry
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_retention();
"""

BACKWARD = """
DROP TRIGGER holdpoint_security_event ON reviews_retentionentry;
DROP FUNCTION holdpoint_security_of_retention();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('reviews', '0032_indexes_of_erasure'),
    ]

    operations = [
        migrations.AlterField(
            model_name='securityevent',
            name='kind',
            field=models.CharField(choices=[('sign_in', 'sign-in'), ('sign_in_failed', 'failed sign-in'), ('sign_in_locked', 'sign-in limit reached'), ('decision', 'decision'), ('denied', 'denied decision'), ('revealed', 'revealed value'), ('granted', 'grant'), ('grant_revoked', 'grant revoked'), ('token_created', 'token created'), ('token_revoked', 'token revoked'), ('client_registered', 'OAuth client registered'), ('client_deleted', 'OAuth client deleted'), ('workflow_saved', 'workflow saved'), ('rules_published', 'review rules published'), ('changed', 'logged change'), ('retention_set', 'retention policy set'), ('retention_deleted', 'retention policy deleted'), ('legal_hold_placed', 'legal hold placed'), ('legal_hold_lifted', 'legal hold lifted'), ('runs_erased', 'runs erased')], max_length=20),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
