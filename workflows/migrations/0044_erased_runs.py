"""Rows of the journal can be deleted once their run is marked as erased.

Only the owner of the tables can mark a run: the product's role does it through `holdpoint_erase`
(migration reviews.0031), which checks policies and legal holds.  A run stays erased.
"""

import django.db.models.deletion
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION holdpoint_journal_append_only() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (
        SELECT FROM workflows_execution WHERE id = OLD.execution_id AND erased_at IS NOT NULL)
    THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;

DROP TRIGGER holdpoint_append_only ON workflows_executionevent;
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_executionevent
    FOR EACH ROW EXECUTE FUNCTION holdpoint_journal_append_only();
DROP TRIGGER holdpoint_append_only ON workflows_planrevision;
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_planrevision
    FOR EACH ROW EXECUTE FUNCTION holdpoint_journal_append_only();
DROP TRIGGER holdpoint_append_only ON workflows_commandlog;
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_commandlog
    FOR EACH ROW EXECUTE FUNCTION holdpoint_journal_append_only();
DROP TRIGGER holdpoint_append_only ON workflows_queuedcommand;
CREATE TRIGGER holdpoint_append_only
    BEFORE DELETE ON workflows_queuedcommand
    FOR EACH ROW EXECUTE FUNCTION holdpoint_journal_append_only();
DROP TRIGGER holdpoint_append_only ON workflows_shaper;
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_shaper
    FOR EACH ROW EXECUTE FUNCTION holdpoint_journal_append_only();

CREATE FUNCTION holdpoint_guard_erased() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.erased_at IS NOT NULL
       OR NOT pg_has_role(
           current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')
    THEN
        RAISE EXCEPTION 'only holdpoint_erase marks a run as erased, once'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER holdpoint_guard_erased
    BEFORE UPDATE OF erased_at ON workflows_execution
    FOR EACH ROW WHEN (OLD.erased_at IS DISTINCT FROM NEW.erased_at)
    EXECUTE FUNCTION holdpoint_guard_erased();
"""

BACKWARD = """
DROP TRIGGER holdpoint_guard_erased ON workflows_execution;
DROP FUNCTION holdpoint_guard_erased();
DROP TRIGGER holdpoint_append_only ON workflows_shaper;
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_shaper
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
DROP TRIGGER holdpoint_append_only ON workflows_queuedcommand;
CREATE TRIGGER holdpoint_append_only
    BEFORE DELETE ON workflows_queuedcommand
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
DROP TRIGGER holdpoint_append_only ON workflows_commandlog;
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_commandlog
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
DROP TRIGGER holdpoint_append_only ON workflows_planrevision;
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_planrevision
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
DROP TRIGGER holdpoint_append_only ON workflows_executionevent;
CREATE TRIGGER holdpoint_append_only
    BEFORE UPDATE OR DELETE ON workflows_executionevent
    FOR EACH ROW EXECUTE FUNCTION holdpoint_append_only();
DROP FUNCTION holdpoint_journal_append_only();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0043_speculation_hold'),
    ]

    operations = [
        migrations.AddField(
            model_name='execution',
            name='erased_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AlterField(
            model_name='webhookdelivery',
            name='event',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workflows.executionevent'),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
