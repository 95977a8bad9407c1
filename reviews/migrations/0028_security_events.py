"""Security events: triggers on the tables in which they are recorded write them for the SIEM."""

import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION holdpoint_security_event(kind text, actor text, address text, details jsonb)
    RETURNS void LANGUAGE sql SET search_path = pg_catalog, public, pg_temp AS $$
    INSERT INTO reviews_securityevent (kind, at, actor, address, details)
    VALUES (kind, clock_timestamp(), coalesce(left(actor, 255), ''), coalesce(address, ''), details)
$$;

CREATE FUNCTION holdpoint_security_of_sign_in() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM holdpoint_security_event(
        'sign_in', NEW.username, host(NEW.ip_address), jsonb_build_object('path', NEW.path_info));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON axes_accesslog
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_sign_in();

CREATE FUNCTION holdpoint_security_of_failure() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.failures_since_start > OLD.failures_since_start THEN
        PERFORM holdpoint_security_event(
            'sign_in_failed', NEW.username, host(NEW.ip_address),
            jsonb_build_object('path', NEW.path_info, 'failures', NEW.failures_since_start));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event
    AFTER INSERT OR UPDATE OF failures_since_start ON axes_accessattempt
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_failure();

CREATE FUNCTION holdpoint_security_of_lock() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM holdpoint_security_event(
        'sign_in_locked', NEW.account, NEW.address,
        jsonb_build_object(
            'limit', NEW.kind, 'failures', NEW.failures, 'locked_until', NEW.locked_until));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON workflows_signinalert
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_lock();

CREATE FUNCTION holdpoint_security_of_record() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM holdpoint_security_event(
        'decision', NEW.actor, '',
        jsonb_build_object(
            'execution', NEW.execution_id, 'hold', NEW.hold_id, 'task', NEW.node_id,
            'decision', NEW.decision, 'source', NEW.source, 'on_behalf_of', NEW.on_behalf_of,
            'edited', NEW.is_edited, 'record', NEW.id, 'hash', NEW.hash));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON reviews_humanreviewrecord
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_record();

CREATE FUNCTION holdpoint_security_of_denial() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM holdpoint_security_event(
        'denied', NEW.actor, '',
        jsonb_build_object(
            'execution', NEW.execution_id, 'hold', NEW.hold_id, 'wanted', NEW.wanted,
            'code', NEW.code, 'source', NEW.source));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON reviews_deniedattempt
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_denial();

CREATE FUNCTION holdpoint_security_of_reveal() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM holdpoint_security_event(
        'revealed', NEW.actor, '',
        jsonb_build_object(
            'execution', NEW.execution_id, 'hold', NEW.hold_id, 'place', NEW.place,
            'path', NEW.path, 'source', NEW.source));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON reviews_secretreveal
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_reveal();

CREATE FUNCTION holdpoint_security_of_grant() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    details jsonb := jsonb_build_object(
        'grant', NEW.id, 'execution', NEW.execution_id, 'hold', NEW.hold_id, 'scope', NEW.scope,
        'operation', NEW.operation, 'resource', NEW.resource, 'expires_at', NEW.expires_at);
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM holdpoint_security_event('granted', NEW.granted_by, '', details);
    ELSIF OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL THEN
        PERFORM holdpoint_security_event('grant_revoked', NEW.revoked_by, '', details);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT OR UPDATE OF revoked_at ON workflows_grant
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_grant();

CREATE FUNCTION holdpoint_security_of_token() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    token workflows_apitoken;
    owner text;
BEGIN
    IF TG_OP = 'DELETE' THEN token := OLD; ELSE token := NEW; END IF;
    IF TG_OP = 'UPDATE' AND (OLD.revoked_at IS NOT NULL OR NEW.revoked_at IS NULL)
        OR TG_OP = 'DELETE' AND OLD.revoked_at IS NOT NULL
    THEN
        RETURN NULL;
    END IF;
    SELECT username INTO owner FROM auth_user WHERE id = token.user_id;
    PERFORM holdpoint_security_event(
        CASE TG_OP WHEN 'INSERT' THEN 'token_created' ELSE 'token_revoked' END,
        CASE TG_OP WHEN 'INSERT' THEN owner END, '',
        jsonb_build_object(
            'token', token.prefix, 'name', token.name, 'owner', owner,
            'scopes', to_jsonb(token.scopes), 'oauth_client', token.oauth_client_id));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event
    AFTER INSERT OR UPDATE OF revoked_at OR DELETE ON workflows_apitoken
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_token();

CREATE FUNCTION holdpoint_security_of_client() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    client oauth2_provider_application;
BEGIN
    IF TG_OP = 'DELETE' THEN client := OLD; ELSE client := NEW; END IF;
    PERFORM holdpoint_security_event(
        CASE TG_OP WHEN 'INSERT' THEN 'client_registered' ELSE 'client_deleted' END, '', '',
        jsonb_build_object('client', client.client_id, 'name', client.name));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT OR DELETE ON oauth2_provider_application
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_client();

CREATE FUNCTION holdpoint_security_of_version() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM holdpoint_security_event(
        TG_ARGV[0], NEW.author_name, '',
        jsonb_build_object(
            'workflow', (SELECT name FROM workflows_workflow WHERE id = NEW.workflow_id),
            'version', NEW.number));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON workflows_workflowversion
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_version('workflow_saved');
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON workflows_ruleversion
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_version('rules_published');

CREATE FUNCTION holdpoint_security_of_admin() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM holdpoint_security_event(
        'changed', (SELECT username FROM auth_user WHERE id = NEW.user_id), '',
        jsonb_build_object(
            'model', (SELECT app_label || '.' || model FROM django_content_type
                       WHERE id = NEW.content_type_id),
            'object', NEW.object_id, 'action', NEW.action_flag, 'change', NEW.change_message));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT ON django_admin_log
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_admin();
"""

TABLES = {
    "axes_accesslog": "sign_in",
    "axes_accessattempt": "failure",
    "workflows_signinalert": "lock",
    "reviews_humanreviewrecord": "record",
    "reviews_deniedattempt": "denial",
    "reviews_secretreveal": "reveal",
    "workflows_grant": "grant",
    "workflows_apitoken": "token",
    "oauth2_provider_application": "client",
    "workflows_workflowversion": "version",
    "workflows_ruleversion": "version",
    "django_admin_log": "admin",
}
BACKWARD = "\n".join(
    [
        *(f"DROP TRIGGER holdpoint_security_event ON {table};" for table in TABLES),
        *(f"DROP FUNCTION holdpoint_security_of_{name}();" for name in sorted(set(TABLES.values()))),
        "DROP FUNCTION holdpoint_security_event(text, text, text, jsonb);",
    ]
)


class Migration(migrations.Migration):

    dependencies = [
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('axes', '0010_accessattemptexpiration'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('oauth2_provider', '0022_refreshtoken_token_family_index'),
        ('reviews', '0027_records_by_target'),
        ('workflows', '0042_questions'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='SecurityExport',
            fields=[
                ('name', models.CharField(max_length=10, primary_key=True, serialize=False)),
                ('position', models.BigIntegerField(db_default=0, default=0)),
                ('sent_at', models.DateTimeField(null=True)),
                ('failures', models.IntegerField(db_default=0, default=0)),
                ('retry_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True, db_default='', default='')),
            ],
            options={
                'verbose_name': 'destination of security events',
                'verbose_name_plural': 'destinations of security events',
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='SecurityEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('sign_in', 'sign-in'), ('sign_in_failed', 'failed sign-in'), ('sign_in_locked', 'sign-in limit reached'), ('decision', 'decision'), ('denied', 'denied decision'), ('revealed', 'revealed value'), ('granted', 'grant'), ('grant_revoked', 'grant revoked'), ('token_created', 'token created'), ('token_revoked', 'token revoked'), ('client_registered', 'OAuth client registered'), ('client_deleted', 'OAuth client deleted'), ('workflow_saved', 'workflow saved'), ('rules_published', 'review rules published'), ('changed', 'change by an administrator')], max_length=20)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor', models.CharField(blank=True, db_default='', default='', max_length=255)),
                ('address', models.CharField(blank=True, db_default='', default='', max_length=45)),
                ('details', models.JSONField(default=dict)),
                ('position', models.BigIntegerField(null=True, unique=True)),
            ],
            options={
                'ordering': ('-id',),
                'indexes': [models.Index(condition=models.Q(('position', None)), fields=['id'], name='security_event_new'), models.Index(fields=['at'], name='security_event_by_time')],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
