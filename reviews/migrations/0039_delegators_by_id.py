"""A record names the absent person by id, and its event has the id of its reviewer.

Records from before have no id of the absent person: their hash covers what they have.
"""

from django.db import migrations, models

GUARD = r"""
CREATE OR REPLACE FUNCTION holdpoint_guard_record() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    last record;
    signed jsonb := NEW.canonical::jsonb;
    moment timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(1215261796);
    SELECT id, hash, (canonical::jsonb->>'sequence')::bigint AS sequence INTO last
      FROM reviews_humanreviewrecord ORDER BY id DESC LIMIT 1;
    IF NEW.previous_hash <> coalesce(last.hash, repeat('0', 64))
       OR (signed->>'sequence')::bigint IS DISTINCT FROM coalesce(last.sequence, 0) + 1
       OR NEW.id <= coalesce(last.id, 0)
    THEN
        RAISE EXCEPTION 'a review record has to continue the chain'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.hash <> encode(
        sha256(convert_to(NEW.previous_hash || E'\n' || NEW.canonical, 'UTF8')), 'hex')
    THEN
        RAISE EXCEPTION 'a review record has to have the hash of its text'
            USING ERRCODE = 'check_violation';
    END IF;
    IF (signed->>'actor', signed->>'decision', signed->>'hold', signed->>'source',
        signed->>'execution', signed->>'reviewer', signed->>'version',
        signed->>'shown_digest', signed->>'decided_digest', signed->>'on_behalf_of_id',
        (signed->>'reviewed_at')::timestamptz)
       IS DISTINCT FROM
       (NEW.actor, NEW.decision, NEW.hold_id, NEW.source,
        NEW.execution_id::text, NEW.reviewer_id::text, NEW.version::text,
        NEW.shown_digest, NEW.decided_digest, NEW.on_behalf_of_id::text, NEW.reviewed_at)
    THEN
        RAISE EXCEPTION 'a review record has to show what it was signed with'
            USING ERRCODE = 'check_violation';
    END IF;
    moment := clock_timestamp();
    IF NEW.reviewed_at > moment OR NEW.reviewed_at < moment - interval '1 minute' THEN
        RAISE EXCEPTION 'a review record has to have the time of now'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (
        SELECT FROM workflows_executionevent
         WHERE execution_id = NEW.execution_id AND seq = NEW.version
           AND actor = NEW.actor AND actor_id IS NOT DISTINCT FROM NEW.reviewer_id
           AND source = NEW.source)
    THEN
        RAISE EXCEPTION 'a review record needs the event of its decision in the journal'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

"""

GUARD_BEFORE = r"""
CREATE OR REPLACE FUNCTION holdpoint_guard_record() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    last record;
    signed jsonb := NEW.canonical::jsonb;
    moment timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(1215261796);
    SELECT id, hash, (canonical::jsonb->>'sequence')::bigint AS sequence INTO last
      FROM reviews_humanreviewrecord ORDER BY id DESC LIMIT 1;
    IF NEW.previous_hash <> coalesce(last.hash, repeat('0', 64))
       OR (signed->>'sequence')::bigint IS DISTINCT FROM coalesce(last.sequence, 0) + 1
       OR NEW.id <= coalesce(last.id, 0)
    THEN
        RAISE EXCEPTION 'a review record has to continue the chain'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.hash <> encode(
        sha256(convert_to(NEW.previous_hash || E'\n' || NEW.canonical, 'UTF8')), 'hex')
    THEN
        RAISE EXCEPTION 'a review record has to have the hash of its text'
            USING ERRCODE = 'check_violation';
    END IF;
    IF (signed->>'actor', signed->>'decision', signed->>'hold', signed->>'source',
        signed->>'execution', signed->>'reviewer', signed->>'version',
        signed->>'shown_digest', signed->>'decided_digest',
        (signed->>'reviewed_at')::timestamptz)
       IS DISTINCT FROM
       (NEW.actor, NEW.decision, NEW.hold_id, NEW.source,
        NEW.execution_id::text, NEW.reviewer_id::text, NEW.version::text,
        NEW.shown_digest, NEW.decided_digest, NEW.reviewed_at)
    THEN
        RAISE EXCEPTION 'a review record has to show what it was signed with'
            USING ERRCODE = 'check_violation';
    END IF;
    moment := clock_timestamp();
    IF NEW.reviewed_at > moment OR NEW.reviewed_at < moment - interval '1 minute' THEN
        RAISE EXCEPTION 'a review record has to have the time of now'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (
        SELECT FROM workflows_executionevent
         WHERE execution_id = NEW.execution_id AND seq = NEW.version
           AND actor = NEW.actor AND source = NEW.source)
    THEN
        RAISE EXCEPTION 'a review record needs the event of its decision in the journal'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

"""


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0038_reasons_of_grants"),
        ("workflows", "0053_identity_by_user_id"),
    ]

    operations = [
        migrations.AddField(
            "humanreviewrecord", "on_behalf_of_id", models.BigIntegerField(null=True)
        ),
        migrations.RunSQL(GUARD, GUARD_BEFORE),
    ]
