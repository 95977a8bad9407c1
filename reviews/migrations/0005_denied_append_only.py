"""Denied attempts are kept as they were noted: the records' own trigger guards them too."""

from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION holdpoint_records_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER holdpoint_denied_append_only
    BEFORE UPDATE OR DELETE ON reviews_deniedattempt
    FOR EACH ROW EXECUTE FUNCTION holdpoint_records_append_only();
CREATE TRIGGER holdpoint_denied_no_truncate
    BEFORE TRUNCATE ON reviews_deniedattempt
    FOR EACH STATEMENT EXECUTE FUNCTION holdpoint_records_append_only();
"""

BACKWARD = """
DROP TRIGGER holdpoint_denied_no_truncate ON reviews_deniedattempt;
DROP TRIGGER holdpoint_denied_append_only ON reviews_deniedattempt;
"""


class Migration(migrations.Migration):
    dependencies = [("reviews", "0004_auditor_room")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
