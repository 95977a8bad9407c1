"""Security events of sign-outs, for the SIEM; and the kinds of second factors.

django-axes notes the end of a session in the row of its sign-in.
"""

from django.db import migrations, models

FORWARD = """
CREATE FUNCTION holdpoint_security_of_sign_out() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.logout_time IS NULL AND NEW.logout_time IS NOT NULL THEN
        PERFORM holdpoint_security_event(
            'sign_out', NEW.username, '', jsonb_build_object('signed_in_at', NEW.attempt_time));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_of_sign_out AFTER UPDATE OF logout_time ON axes_accesslog
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_sign_out();
"""

BACKWARD = """
DROP TRIGGER holdpoint_security_of_sign_out ON axes_accesslog;
DROP FUNCTION holdpoint_security_of_sign_out();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('axes', '0010_accessattemptexpiration'),
        ('reviews', '0034_retention_log_of_sql'),
    ]

    operations = [
        migrations.AlterField(
            model_name='securityevent',
            name='kind',
            field=models.CharField(choices=[('sign_in', 'sign-in'), ('sign_in_failed', 'failed sign-in'), ('sign_in_locked', 'sign-in limit reached'), ('sign_out', 'sign-out'), ('factor_added', 'second factor set up'), ('factor_removed', 'second factor removed'), ('decision', 'decision'), ('denied', 'denied decision'), ('revealed', 'revealed value'), ('granted', 'grant'), ('grant_revoked', 'grant revoked'), ('token_created', 'token created'), ('token_revoked', 'token revoked'), ('client_registered', 'OAuth client registered'), ('client_deleted', 'OAuth client deleted'), ('workflow_saved', 'workflow saved'), ('rules_published', 'review rules published'), ('changed', 'logged change'), ('retention_set', 'retention policy set'), ('retention_deleted', 'retention policy deleted'), ('legal_hold_placed', 'legal hold placed'), ('legal_hold_lifted', 'legal hold lifted'), ('runs_erased', 'runs erased')], max_length=20),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
