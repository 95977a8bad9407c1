"""Triggers that hold what Python promises: status pairs, a growing version, append-only rows.

The SQL is literal on purpose: a migration must not change when the code does.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION holdpoint_guard_execution() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status IS DISTINCT FROM OLD.status AND NOT (OLD.status, NEW.status) IN (
        ('PENDING', 'RUNNING'), ('PENDING', 'ABORTED'),
        ('RUNNING', 'PAUSED_FOR_REVIEW'), ('RUNNING', 'AWAITING_AGENT'),
        ('RUNNING', 'COMPLETED'), ('RUNNING', 'FAILED'), ('RUNNING', 'ABORTED'),
        ('PAUSED_FOR_REVIEW', 'RUNNING'), ('PAUSED_FOR_REVIEW', 'FAILED'),
        ('PAUSED_FOR_REVIEW', 'ABORTED'),
        ('AWAITING_AGENT', 'RUNNING'), ('AWAITING_AGENT', 'FAILED'), ('AWAITING_AGENT', 'ABORTED')
    ) THEN
        RAISE EXCEPTION 'an execution cannot go from % to %', OLD.status, NEW.status
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.version < OLD.version OR (
        NEW.version = OLD.version AND (
            NEW.status IS DISTINCT FROM OLD.status OR NEW.state IS DISTINCT FROM OLD.state
        )
    ) THEN
        RAISE EXCEPTION 'the version of execution % must grow with every change', OLD.id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER holdpoint_guard_execution
    BEFORE UPDATE OF status, state, version ON workflows_execution
    FOR EACH ROW EXECUTE FUNCTION holdpoint_guard_execution();

CREATE FUNCTION holdpoint_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_executionevent
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_planrevision
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
"""

BACKWARD = """
DROP TRIGGER holdpoint_append_only ON workflows_planrevision;
DROP TRIGGER holdpoint_append_only ON workflows_executionevent;
DROP FUNCTION holdpoint_append_only();
DROP TRIGGER holdpoint_guard_execution ON workflows_execution;
DROP FUNCTION holdpoint_guard_execution();
"""


class Migration(migrations.Migration):
    dependencies = [("workflows", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
