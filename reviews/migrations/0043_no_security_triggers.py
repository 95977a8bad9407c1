"""Security events are recorded in Python; nothing exports them."""

from django.db import migrations

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
    "reviews_retentionentry": "retention",
}
DROP = "\n".join(
    [
        *(f"DROP TRIGGER holdpoint_security_event ON {table};" for table in TABLES),
        "DROP TRIGGER holdpoint_security_of_sign_out ON axes_accesslog;",
        "DROP FUNCTION holdpoint_security_of_sign_out();",
        *(f"DROP FUNCTION holdpoint_security_of_{name}();" for name in sorted(set(TABLES.values()))),
        "DROP FUNCTION holdpoint_security_event(text, text, text, jsonb);",
    ]
)


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0042_no_web_push"),
        ("workflows", "0060_security_events"),
    ]

    operations = [
        migrations.RunSQL(DROP, migrations.RunSQL.noop),
        migrations.DeleteModel("SecurityEvent"),
        migrations.DeleteModel("SecurityExport"),
    ]
