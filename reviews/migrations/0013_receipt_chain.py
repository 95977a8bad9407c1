"""Receipts of what ran are chained by hash in the database, and never changed.

A trigger fills the columns of the chain, under a lock that lasts until the commit: the role that
inserts chooses neither the place in the chain, nor the time, nor the decision it is linked to.
`search_path` keeps a temporary table of the inserting role from standing in for a real one.

The canonical text is that of `workflows.engine.bounded_json.canonical`: keys sorted, no spaces.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION holdpoint_chain_receipt() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    last record;
BEGIN
    SELECT hash INTO NEW.decision_hash FROM reviews_humanreviewrecord
     WHERE hold_id = NEW.hold_id AND decision = 'APPROVE' ORDER BY id DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;  -- nobody decided this hold, so there is no decision to compare with
    END IF;
    PERFORM pg_advisory_xact_lock(1215261797);
    SELECT sequence, hash INTO last FROM workflows_executionreceipt
     ORDER BY sequence DESC LIMIT 1;
    NEW.sequence := coalesce(last.sequence, 0) + 1;
    NEW.previous_hash := coalesce(last.hash, repeat('0', 64));
    NEW.executed_at := clock_timestamp();
    NEW.canonical := format(
        '{"attempt":%s,"decision_hash":%s,"executed_at":%s,"executed_digest":%s,"execution":%s,'
        '"hold":%s,"node":%s,"phase":%s,"sequence":%s}',
        NEW.attempt, to_json(NEW.decision_hash),
        to_json(to_char(NEW.executed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')),
        to_json(NEW.digest), NEW.execution_id, to_json(NEW.hold_id), to_json(NEW.task_id),
        to_json(NEW.phase), NEW.sequence);
    NEW.hash := encode(
        sha256(convert_to(NEW.previous_hash || E'\\n' || NEW.canonical, 'UTF8')), 'hex');
    RETURN NEW;
END $$;

CREATE TRIGGER holdpoint_chain_receipt
    BEFORE INSERT ON workflows_executionreceipt
    FOR EACH ROW EXECUTE FUNCTION holdpoint_chain_receipt();
CREATE TRIGGER holdpoint_receipts_append_only
    BEFORE UPDATE OR DELETE ON workflows_executionreceipt
    FOR EACH ROW EXECUTE FUNCTION holdpoint_records_append_only();
CREATE TRIGGER holdpoint_receipts_no_truncate
    BEFORE TRUNCATE ON workflows_executionreceipt
    FOR EACH STATEMENT EXECUTE FUNCTION holdpoint_records_append_only();
"""

BACKWARD = """
DROP TRIGGER holdpoint_receipts_no_truncate ON workflows_executionreceipt;
DROP TRIGGER holdpoint_receipts_append_only ON workflows_executionreceipt;
DROP TRIGGER holdpoint_chain_receipt ON workflows_executionreceipt;
DROP FUNCTION holdpoint_chain_receipt();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0012_secret_reveals"),
        ("workflows", "0016_execution_receipts"),
    ]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
