"""A legal hold can keep the calls of an MCP gate, and the runs of its held calls."""

import django.db.models.deletion
from django.db import migrations, models

GUARD = """
CREATE OR REPLACE FUNCTION holdpoint_guard_legal_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.lifted_at IS NOT NULL
       OR NEW.lifted_at IS NULL OR NEW.lifted_by_id IS NULL
       OR to_jsonb(NEW) - '{lifted_at,lifted_by_id}'::text[]
          IS DISTINCT FROM to_jsonb(OLD) - '{lifted_at,lifted_by_id}'::text[]
    THEN
        RAISE EXCEPTION 'a legal hold can be lifted, once; nothing else of it changes'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
"""

LOG = """
CREATE OR REPLACE FUNCTION holdpoint_log_legal_hold() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    action text := CASE TG_OP WHEN 'INSERT' THEN 'hold_placed' ELSE 'hold_lifted' END;
BEGIN
    IF NOT EXISTS (
        SELECT FROM reviews_retentionentry
         WHERE at >= now() AND kind = action AND detail -> 'legal_hold' = to_jsonb(NEW.id))
    THEN
        INSERT INTO reviews_retentionentry (kind, actor, subject, executions, detail)
        VALUES (
            action, 'database role ' || session_user,
            coalesce(
                'Run ' || NEW.execution_id,
                'Workflow ' || (SELECT title FROM workflows_workflow WHERE id = NEW.workflow_id),
                'MCP gate ' || (SELECT name FROM workflows_gate WHERE id = NEW.gate_id)),
            array_remove(ARRAY[NEW.execution_id], NULL),
            jsonb_build_object('legal_hold', NEW.id, 'reason', NEW.reason));
    END IF;
    RETURN NULL;
END $$;
"""

ERASABLE = """
CREATE OR REPLACE VIEW reviews_erasable AS
SELECT run.id AS execution_id, policy.id AS policy_id, run.finished_at
  FROM reviews_retentionpolicy AS policy
  JOIN workflows_execution AS run
    ON run.finished_at < now() - make_interval(days => policy.keep_days)
   AND (run.workflow_id = policy.workflow_id
        OR policy.workflow_id IS NULL AND NOT EXISTS (
           SELECT FROM reviews_retentionpolicy AS own
            WHERE own.workflow_id = run.workflow_id AND own.enabled))
 WHERE run.finished_at IS NOT NULL AND run.erased_at IS NULL
   AND run.status IN ('COMPLETED', 'FAILED', 'ABORTED')
   AND (run.lease_until IS NULL OR run.lease_until < now())
   AND NOT EXISTS (
       SELECT FROM reviews_legalhold AS stop
        WHERE stop.lifted_at IS NULL
          AND (stop.execution_id = run.id OR stop.workflow_id = run.workflow_id))
   {gates}AND NOT EXISTS (
       SELECT FROM workflows_hold AS hold
        WHERE hold.execution_id = run.id
          AND (hold.status = 'OPEN' OR hold.undo_until IS NOT NULL))
   AND NOT EXISTS (
       SELECT FROM workflows_execution AS fork
        WHERE fork.parent_id = run.id AND fork.erased_at IS NULL);
"""

OF_GATES = """AND NOT EXISTS (
       SELECT FROM workflows_approval AS approval
         JOIN workflows_gatecall AS call ON call.approval_id = approval.id
         JOIN reviews_legalhold AS stop ON stop.gate_id = call.gate_id
        WHERE approval.execution_id = run.id AND stop.lifted_at IS NULL)
   """


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0036_teams_bots"),
        ("workflows", "0051_count_shown_runs"),
    ]

    operations = [
        migrations.AddField(
            model_name="legalhold",
            name="gate",
            field=models.ForeignKey(
                blank=True,
                help_text="Keeps its calls, and the runs of those that were held.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="legal_holds",
                to="workflows.gate",
                verbose_name="MCP gate",
            ),
        ),
        migrations.RemoveConstraint(model_name="legalhold", name="legal_hold_of_one_thing"),
        migrations.AddConstraint(
            model_name="legalhold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(execution__isnull=False, gate=None, workflow=None),
                    models.Q(execution=None, gate=None, workflow__isnull=False),
                    models.Q(execution=None, gate__isnull=False, workflow=None),
                    _connector="OR",
                ),
                name="legal_hold_of_one_thing",
            ),
        ),
        migrations.RunSQL(
            GUARD + LOG + ERASABLE.format(gates=OF_GATES), ERASABLE.format(gates="")
        ),
    ]
