"""The audit log takes new rows and nothing else."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION holdpoint_records_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'review records are append-only: % refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER holdpoint_records_append_only
    BEFORE UPDATE OR DELETE ON reviews_humanreviewrecord
    FOR EACH ROW EXECUTE FUNCTION holdpoint_records_append_only();
CREATE TRIGGER holdpoint_records_no_truncate
    BEFORE TRUNCATE ON reviews_humanreviewrecord
    FOR EACH STATEMENT EXECUTE FUNCTION holdpoint_records_append_only();
"""

BACKWARD = """
DROP TRIGGER holdpoint_records_no_truncate ON reviews_humanreviewrecord;
DROP TRIGGER holdpoint_records_append_only ON reviews_humanreviewrecord;
DROP FUNCTION holdpoint_records_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("reviews", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
