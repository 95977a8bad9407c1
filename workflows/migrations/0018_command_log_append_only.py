"""The log of commands takes new rows only, and a queued command is only ever marked as taken.

`config.grants` finds both tables by the names of these functions and takes UPDATE and DELETE from
the product's role; of the queue it gives back the one column that a worker writes.
"""

from django.db import migrations

FORWARD = """
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_commandlog
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
CREATE TRIGGER holdpoint_no_truncate
    BEFORE TRUNCATE ON workflows_commandlog
    FOR EACH STATEMENT EXECUTE FUNCTION holdpoint_append_only();

CREATE FUNCTION holdpoint_taken_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.taken_at IS NOT NULL OR NEW.taken_at IS NULL
       OR (NEW.id, NEW.execution_id, NEW.command, NEW.actor, NEW.source, NEW.created_at)
          IS DISTINCT FROM
          (OLD.id, OLD.execution_id, OLD.command, OLD.actor, OLD.source, OLD.created_at)
    THEN
        RAISE EXCEPTION 'a queued command is append-only: it can be marked as taken, once'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER holdpoint_taken_once
    BEFORE UPDATE ON workflows_queuedcommand
    FOR EACH ROW EXECUTE FUNCTION holdpoint_taken_once();
CREATE TRIGGER holdpoint_append_only
    BEFORE DELETE ON workflows_queuedcommand
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
CREATE TRIGGER holdpoint_no_truncate
    BEFORE TRUNCATE ON workflows_queuedcommand
    FOR EACH STATEMENT EXECUTE FUNCTION holdpoint_append_only();
"""

BACKWARD = """
DROP TRIGGER holdpoint_no_truncate ON workflows_queuedcommand;
DROP TRIGGER holdpoint_append_only ON workflows_queuedcommand;
DROP TRIGGER holdpoint_taken_once ON workflows_queuedcommand;
DROP FUNCTION holdpoint_taken_once();
DROP TRIGGER holdpoint_no_truncate ON workflows_commandlog;
DROP TRIGGER holdpoint_append_only ON workflows_commandlog;
"""


class Migration(migrations.Migration):
    dependencies = [("workflows", "0017_lost_claims")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
