"""The end and the workflow of a run stay: retention and legal holds read them.

The product's role writes the end once, at the time of the statement.  The owner of the tables may
change both, as it may disable the trigger.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION holdpoint_guard_end() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF (OLD.finished_at IS NOT NULL OR NEW.finished_at < now()
        OR NEW.workflow_id IS DISTINCT FROM OLD.workflow_id)
       AND NOT pg_has_role(
           current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')
    THEN
        RAISE EXCEPTION 'the end of a run is written once, when it ends; its workflow never changes'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER holdpoint_guard_end
    BEFORE UPDATE OF finished_at, workflow_id ON workflows_execution
    FOR EACH ROW WHEN (OLD.finished_at IS DISTINCT FROM NEW.finished_at
                       OR OLD.workflow_id IS DISTINCT FROM NEW.workflow_id)
    EXECUTE FUNCTION holdpoint_guard_end();
"""

BACKWARD = """
DROP TRIGGER holdpoint_guard_end ON workflows_execution;
DROP FUNCTION holdpoint_guard_end();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0045_indexes_of_erasure'),
    ]

    operations = [
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
