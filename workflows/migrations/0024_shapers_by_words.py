"""Who talked to the agent of a run shaped it, and only an accepted change excuses its context.

A context that follows a plan review is the work of who asked for the change only where that review
approved it and the same person recorded both; anything else is the work of who updated it.  Words
to a run whose agent decides count too, because they can talk it into another plan.  `search_path`
keeps a temporary table of the inserting role from standing in for a real one.

The SQL is literal on purpose: a migration must not change when the code does.
"""

from django.db import migrations, models

FORWARD = """
CREATE OR REPLACE FUNCTION holdpoint_way_of(entry workflows_executionevent) RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, public, pg_temp AS $$
    -- What an accepted plan change does is the work of the person who asked for it, not of the
    -- person who approved it: it follows right behind that decision.
    SELECT CASE entry.kind
           WHEN 'plan_revised' THEN
                CASE WHEN entry.payload->>'hold_id' IS NULL THEN 'plan' END
           WHEN 'plan_proposed' THEN 'replan'
           WHEN 'layer_skip_requested' THEN 'skip'
           WHEN 'context_updated' THEN
                CASE WHEN NOT EXISTS (
                     SELECT FROM workflows_executionevent AS before
                      WHERE before.execution_id = entry.execution_id
                        AND before.seq = entry.seq - 1
                        AND before.kind = 'hold_decided'
                        AND before.actor = entry.actor
                        AND before.payload->>'decision' = 'APPROVE'
                        AND before.payload->>'reason' = 'replan_review') THEN 'context' END
           WHEN 'agent_requested' THEN
                CASE WHEN entry.actor <> 'system' AND entry.actor NOT LIKE 'agent:%' THEN 'asked' END
           WHEN 'message_added' THEN
                -- The words of a request for changes follow right behind that decision.  A fork
                -- copies messages in the statement that writes its first event.
                CASE WHEN entry.actor <> 'system' AND entry.actor NOT LIKE 'agent:%'
                      AND EXISTS (
                     SELECT FROM workflows_execution AS run
                      WHERE run.id = entry.execution_id
                        AND run.policy #>> '{ail,enabled}' = 'true')
                      AND NOT EXISTS (
                     SELECT FROM workflows_executionevent AS before
                      WHERE before.execution_id = entry.execution_id
                        AND before.seq = entry.seq - 1
                        AND before.kind = 'hold_decided'
                        AND before.actor = entry.actor
                        AND before.payload->>'decision' = 'REQUEST_CHANGES')
                      AND NOT EXISTS (
                     SELECT FROM workflows_executionevent AS first
                      WHERE first.execution_id = entry.execution_id
                        AND first.seq = 1
                        AND first.kind = 'execution_forked'
                        AND first.created_at = entry.created_at) THEN 'asked' END
           WHEN 'hold_decided' THEN
                CASE WHEN (entry.payload->>'edited')::boolean
                      AND entry.payload->>'decision' = 'APPROVE' THEN 'edit' END
           END
$$;

CREATE OR REPLACE FUNCTION holdpoint_shapers_of_event() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    INSERT INTO workflows_shaper (execution_id, name, way, since)
    SELECT NEW.execution_id, NEW.actor, way, CASE way WHEN 'edit' THEN NEW.seq ELSE 0 END
      FROM holdpoint_way_of(NEW) AS way
     WHERE way IS NOT NULL AND NEW.actor <> ''
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION holdpoint_shapers_of_execution() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    INSERT INTO workflows_shaper (execution_id, name, way, since)
    SELECT NEW.id, username, 'start', 0 FROM auth_user WHERE id = NEW.created_by_id
    UNION ALL
    SELECT DISTINCT NEW.id, name, 'origin', 0 FROM workflows_shaper
     WHERE execution_id = NEW.parent_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

DROP TRIGGER holdpoint_shapers ON workflows_executionevent;
CREATE TRIGGER holdpoint_shapers
    AFTER INSERT ON workflows_executionevent FOR EACH ROW
    WHEN (NEW.kind IN ('plan_revised', 'plan_proposed', 'layer_skip_requested', 'context_updated',
                       'hold_decided', 'agent_requested', 'message_added'))
    EXECUTE FUNCTION holdpoint_shapers_of_event();

INSERT INTO workflows_shaper (execution_id, name, way, since)
SELECT DISTINCT event.execution_id, event.actor, way, 0
  FROM workflows_executionevent AS event, holdpoint_way_of(event) AS way
 WHERE event.kind IN ('context_updated', 'agent_requested', 'message_added')
   AND way IS NOT NULL AND event.actor <> ''
ON CONFLICT DO NOTHING;

WITH RECURSIVE chain (child, ancestor) AS (
    SELECT id, parent_id FROM workflows_execution WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT child, parent_id FROM chain JOIN workflows_execution ON id = ancestor
     WHERE parent_id IS NOT NULL
)
INSERT INTO workflows_shaper (execution_id, name, way, since)
SELECT DISTINCT child, name, 'origin', 0 FROM chain JOIN workflows_shaper ON execution_id = ancestor
 WHERE way IN ('context', 'asked')
ON CONFLICT DO NOTHING;
"""

BACKWARD = """
CREATE OR REPLACE FUNCTION holdpoint_way_of(entry workflows_executionevent) RETURNS text
    LANGUAGE sql STABLE AS $$
    -- What an accepted plan change does is the work of the person who asked for it, not of the
    -- person who approved it: it follows right behind that decision.
    SELECT CASE entry.kind
           WHEN 'plan_revised' THEN
                CASE WHEN entry.payload->>'hold_id' IS NULL THEN 'plan' END
           WHEN 'plan_proposed' THEN 'replan'
           WHEN 'layer_skip_requested' THEN 'skip'
           WHEN 'context_updated' THEN
                CASE WHEN NOT EXISTS (
                     SELECT FROM workflows_executionevent AS before
                      WHERE before.execution_id = entry.execution_id
                        AND before.seq = entry.seq - 1
                        AND before.kind = 'hold_decided'
                        AND before.payload->>'reason' = 'replan_review') THEN 'context' END
           WHEN 'hold_decided' THEN
                CASE WHEN (entry.payload->>'edited')::boolean
                      AND entry.payload->>'decision' = 'APPROVE' THEN 'edit' END
           END
$$;

CREATE OR REPLACE FUNCTION holdpoint_shapers_of_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workflows_shaper (execution_id, name, way, since)
    SELECT NEW.execution_id, NEW.actor, way, CASE way WHEN 'edit' THEN NEW.seq ELSE 0 END
      FROM holdpoint_way_of(NEW) AS way
     WHERE way IS NOT NULL AND NEW.actor <> ''
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION holdpoint_shapers_of_execution() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workflows_shaper (execution_id, name, way, since)
    SELECT NEW.id, username, 'start', 0 FROM auth_user WHERE id = NEW.created_by_id
    UNION ALL
    SELECT DISTINCT NEW.id, name, 'origin', 0 FROM workflows_shaper
     WHERE execution_id = NEW.parent_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

DROP TRIGGER holdpoint_shapers ON workflows_executionevent;
CREATE TRIGGER holdpoint_shapers
    AFTER INSERT ON workflows_executionevent FOR EACH ROW
    WHEN (NEW.kind IN ('plan_revised', 'plan_proposed', 'layer_skip_requested', 'context_updated',
                       'hold_decided'))
    EXECUTE FUNCTION holdpoint_shapers_of_event();
"""


class Migration(migrations.Migration):
    dependencies = [("workflows", "0023_token_limits")]

    operations = [
        migrations.AlterField(
            model_name="shaper",
            name="way",
            field=models.CharField(
                choices=[
                    ("start", "started the run"),
                    ("plan", "changed the plan"),
                    ("replan", "asked for a plan change"),
                    ("skip", "skipped a layer"),
                    ("context", "changed the context"),
                    ("asked", "wrote to the agent"),
                    ("edit", "edited what a task works with"),
                    ("origin", "started or shaped a run that this one is a fork of"),
                ],
                max_length=10,
            ),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
