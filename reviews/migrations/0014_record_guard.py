"""A record is only inserted where it continues the chain, now, and with the journal behind it.

The trigger refuses a record that does not follow the newest one, whose hash or columns do not fit
its signed text, whose time is not the database's time of now (to a minute: the product reads that
time under the same lock, a moment before), or for which the journal has no event of the same
person, source and version.  `search_path` keeps a temporary table of the inserting role from
standing in for a real one.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION holdpoint_guard_record() RETURNS trigger LANGUAGE plpgsql
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
        sha256(convert_to(NEW.previous_hash || E'\\n' || NEW.canonical, 'UTF8')), 'hex')
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

CREATE TRIGGER holdpoint_guard_record
    BEFORE INSERT ON reviews_humanreviewrecord
    FOR EACH ROW EXECUTE FUNCTION holdpoint_guard_record();
"""

BACKWARD = """
DROP TRIGGER holdpoint_guard_record ON reviews_humanreviewrecord;
DROP FUNCTION holdpoint_guard_record();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0013_receipt_chain"),
        ("workflows", "0018_command_log_append_only"),
    ]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
