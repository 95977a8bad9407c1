"""The people who shaped a run, its approvals and its grants are known by their ids.

A name may change, and an account may have the name of an agent or of the product.  Agents and the
product have no id, so they shape nothing.  Ids are filled where a user has the stored name; a
renamed person is known by what they do from now on.

The SQL is literal on purpose: a migration must not change when the code does.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

FUNCTIONS = """
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
                        AND before.actor_id = entry.actor_id
                        AND before.payload->>'decision' = 'APPROVE'
                        AND before.payload->>'reason' = 'replan_review') THEN 'context' END
           WHEN 'agent_requested' THEN
                'asked'
           WHEN 'message_added' THEN
                -- The words of a request for changes follow right behind that decision.  A fork
                -- copies messages in the statement that writes its first event.
                CASE WHEN EXISTS (
                     SELECT FROM workflows_execution AS run
                      WHERE run.id = entry.execution_id
                        AND run.policy #>> '{ail,enabled}' = 'true')
                      AND NOT EXISTS (
                     SELECT FROM workflows_executionevent AS before
                      WHERE before.execution_id = entry.execution_id
                        AND before.seq = entry.seq - 1
                        AND before.kind = 'hold_decided'
                        AND before.actor_id = entry.actor_id
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
    INSERT INTO workflows_shaper (execution_id, user_id, way, since)
    SELECT NEW.execution_id, NEW.actor_id, way, CASE way WHEN 'edit' THEN NEW.seq ELSE 0 END
      FROM holdpoint_way_of(NEW) AS way
     WHERE way IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION holdpoint_shapers_of_execution() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    INSERT INTO workflows_shaper (execution_id, user_id, way, since)
    SELECT NEW.id, NEW.created_by_id, 'start', 0 WHERE NEW.created_by_id IS NOT NULL
    UNION ALL
    SELECT DISTINCT NEW.id, user_id, 'origin', 0 FROM workflows_shaper
     WHERE execution_id = NEW.parent_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

DROP TRIGGER holdpoint_shapers ON workflows_executionevent;
CREATE TRIGGER holdpoint_shapers
    AFTER INSERT ON workflows_executionevent FOR EACH ROW
    WHEN (NEW.actor_id IS NOT NULL
      AND NEW.kind IN ('plan_revised', 'plan_proposed', 'layer_skip_requested', 'context_updated',
                       'hold_decided', 'agent_requested', 'message_added'))
    EXECUTE FUNCTION holdpoint_shapers_of_event();
"""

#: Tables whose rows only the owner may fill, because triggers protect them.
GUARDED = ("executionevent", "commandlog", "queuedcommand", "execution", "hold", "grant", "shaper")


def triggers(state: str) -> str:
    return "".join(f"ALTER TABLE workflows_{name} {state} TRIGGER USER;\n" for name in GUARDED)


FILL = """
UPDATE workflows_executionevent AS event SET actor_id = person.id FROM auth_user AS person
 WHERE person.username = event.actor AND event.actor <> 'system' AND event.actor_id IS NULL;
UPDATE workflows_commandlog AS command SET actor_id = person.id FROM auth_user AS person
 WHERE person.username = command.actor AND command.actor <> 'system' AND command.actor_id IS NULL;
UPDATE workflows_queuedcommand AS command SET actor_id = person.id FROM auth_user AS person
 WHERE person.username = command.actor AND command.actor <> 'system' AND command.actor_id IS NULL;
UPDATE workflows_grant AS permission SET granted_by_id = person.id FROM auth_user AS person
 WHERE person.username = permission.granted_by AND permission.granted_by_id IS NULL;
UPDATE workflows_hold AS hold SET decided_by_id = person.id FROM auth_user AS person
 WHERE person.username = hold.decided_by AND hold.decided_by <> 'system'
   AND hold.decided_by_id IS NULL;
UPDATE workflows_hold SET approver_ids = ARRAY(
        SELECT person.id FROM unnest(approvals) WITH ORDINALITY AS vote(name, place)
          LEFT JOIN auth_user AS person ON person.username = vote.name ORDER BY place)
 WHERE cardinality(approvals) > cardinality(approver_ids);
UPDATE workflows_shaper AS shaper SET user_id = person.id FROM auth_user AS person
 WHERE person.username = shaper.name;
DELETE FROM workflows_shaper WHERE user_id IS NULL;

UPDATE workflows_execution SET state = jsonb_set(state, '{holds}', (
    SELECT jsonb_agg(
        hold
        || CASE WHEN jsonb_typeof(hold->'approvals') = 'array' THEN jsonb_build_object(
               'approver_ids', (
                   SELECT coalesce(jsonb_agg(person.id ORDER BY vote.place), '[]')
                     FROM jsonb_array_elements_text(hold->'approvals') WITH ORDINALITY
                       AS vote(name, place)
                     LEFT JOIN auth_user AS person ON person.username = vote.name))
           ELSE '{}' END
        || CASE WHEN jsonb_typeof(hold->'answer') = 'object' THEN jsonb_build_object(
               'answer', (hold->'answer') || jsonb_build_object('actor_id', (
                   SELECT id FROM auth_user WHERE username = hold->'answer'->>'actor')))
           ELSE '{}' END
        ORDER BY place)
      FROM jsonb_array_elements(state->'holds') WITH ORDINALITY AS open_hold(hold, place)))
 WHERE jsonb_path_exists(state, '$.holds[*]');
"""


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("workflows", "0052_actor_ids"),
    ]

    operations = [
        migrations.RemoveConstraint("shaper", "shaper_once"),
        migrations.RemoveIndex("shaper", "shaper_by_name"),
        migrations.AddField(
            "shaper",
            "user",
            models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RunSQL(
            triggers("DISABLE") + FILL + triggers("ENABLE"), migrations.RunSQL.noop
        ),
        migrations.RemoveField("shaper", "name"),
        migrations.AlterField(
            "shaper",
            "user",
            models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            "shaper",
            models.UniqueConstraint(fields=["execution", "user", "way"], name="shaper_once"),
        ),
        migrations.AddIndex(
            "shaper", models.Index(fields=["user", "execution"], name="shaper_by_user")
        ),
        migrations.RunSQL(FUNCTIONS),
    ]
