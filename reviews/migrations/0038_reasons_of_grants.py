"""Erasing the payloads of records also erases their comments in the grants that they gave.

A grant keeps the comment of its decision as `why`.  `holdpoint_erase` is that of migration 0036
with one more statement.
"""

from django.db import migrations

REASON = """        UPDATE workflows_grant SET why = '' WHERE execution_id = ANY(runs) AND why <> '';
"""

ERASE = """
CREATE OR REPLACE FUNCTION holdpoint_erase(wanted_policy bigint, candidates bigint[]) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    chosen record;
    locked bigint[];
    runs bigint[];
    gone bigint[];
    subject text;
    name text;
    deleted bigint;
    counts jsonb := '{}';
BEGIN
    -- The locks come first: later statements see the legal holds and forks that others committed
    -- before, and others wait until this transaction ends.
    SELECT * INTO chosen FROM reviews_retentionpolicy WHERE id = wanted_policy AND enabled FOR SHARE;
    SELECT array_agg(id) INTO locked FROM (
        SELECT id FROM workflows_execution
         WHERE id = ANY(candidates) ORDER BY id FOR UPDATE SKIP LOCKED) AS rows;
    PERFORM FROM workflows_workflow
      WHERE id IN (SELECT workflow_id FROM workflows_execution WHERE id = ANY(locked)) FOR SHARE;
    SELECT array_agg(execution_id) INTO runs FROM reviews_erasable
     WHERE policy_id = chosen.id AND execution_id = ANY(locked);
    IF runs IS NULL THEN
        RETURN 0;
    END IF;

    UPDATE workflows_execution
       SET erased_at = now(), version = version + 1, state = '{}', inputs = '{}', context = '{}',
           policy_overrides = '[]', error = '', error_code = '', error_params = '{}'
     WHERE id = ANY(runs);
    FOREACH name IN ARRAY ARRAY[
        'workflows_webhookdelivery', 'workflows_speculation', 'workflows_checkpoint',
        'workflows_taskattempt', 'workflows_planrevision', 'workflows_executionevent',
        'workflows_queuedcommand', 'workflows_commandlog', 'workflows_shaper',
        'workflows_executionwords', 'workflows_learningattempt', 'reviews_notice']
    LOOP
        EXECUTE format('DELETE FROM %I WHERE execution_id = ANY($1)', name) USING runs;
        GET DIAGNOSTICS deleted = ROW_COUNT;
        counts := counts || jsonb_build_object(split_part(name, '_', 2), deleted);
    END LOOP;
    FOREACH name IN ARRAY ARRAY[
        'reviews_reviewclaim', 'reviews_claimstart', 'reviews_reviewpresence',
        'reviews_slackmessage', 'reviews_teamsmessage', 'reviews_pushmessage']
    LOOP
        EXECUTE format('DELETE FROM %I WHERE hold_id IN (SELECT id FROM workflows_hold'
                       ' WHERE execution_id = ANY($1))', name) USING runs;
        GET DIAGNOSTICS deleted = ROW_COUNT;
        counts := counts || jsonb_build_object(split_part(name, '_', 2), deleted);
    END LOOP;
    DELETE FROM workflows_gatecall WHERE approval_id IN (
        SELECT id FROM workflows_approval WHERE execution_id = ANY(runs));

    IF chosen.erase_records THEN
        DELETE FROM reviews_payloadkey WHERE execution_id = ANY(runs);
        UPDATE reviews_humanreviewrecord SET original_data = NULL, modified_data = NULL
         WHERE execution_id = ANY(runs) AND sealed = '';
        UPDATE workflows_grant SET why = '' WHERE execution_id = ANY(runs) AND why <> '';
        UPDATE reviews_recordwords AS found
           SET words = to_tsvector('simple', translate(concat_ws(' ', record.node_id,
                   record.target, record.workflow_title, record.actor), '._-/:', '     '))
          FROM reviews_humanreviewrecord AS record
         WHERE record.id = found.record_id AND record.execution_id = ANY(runs);
    END IF;

    -- The row of a run stays while a record, a grant, a capability or a fork refers to it.
    SELECT array_agg(run.id) INTO gone FROM workflows_execution AS run
     WHERE run.id = ANY(runs)
       AND NOT EXISTS (SELECT FROM reviews_humanreviewrecord WHERE execution_id = run.id)
       AND NOT EXISTS (SELECT FROM workflows_executionreceipt WHERE execution_id = run.id)
       AND NOT EXISTS (SELECT FROM reviews_deniedattempt WHERE execution_id = run.id)
       AND NOT EXISTS (SELECT FROM reviews_secretreveal WHERE execution_id = run.id)
       AND NOT EXISTS (SELECT FROM reviews_legalhold WHERE execution_id = run.id)
       AND NOT EXISTS (SELECT FROM workflows_grant WHERE execution_id = run.id)
       AND NOT EXISTS (SELECT FROM workflows_capability WHERE from_execution_id = run.id)
       AND NOT EXISTS (SELECT FROM workflows_execution WHERE parent_id = run.id);
    DELETE FROM workflows_approval WHERE execution_id = ANY(gone);
    DELETE FROM workflows_hold WHERE execution_id = ANY(gone);
    DELETE FROM workflows_audience WHERE execution_id = ANY(gone);
    DELETE FROM workflows_execution WHERE id = ANY(gone);
    UPDATE workflows_hold
       SET payload = NULL, task_title = '', why = '', why_code = '', why_params = '{}',
           instructions = ''
     WHERE execution_id = ANY(runs);
    UPDATE workflows_approval
       SET key_digest = '', body_digest = '', title = '', url = '', context = '',
           callback_url = '', authzen_callback = NULL, result_output = NULL,
           result_arguments = NULL, result_error = ''
     WHERE execution_id = ANY(runs);

    subject := coalesce(
        (SELECT title FROM workflows_workflow WHERE id = chosen.workflow_id), 'All other runs')
        || ': ' || chosen.keep_days || ' days';
    INSERT INTO reviews_retentionentry (kind, actor, subject, executions, detail)
    VALUES ('erased', 'system', subject, runs, counts || jsonb_build_object(
        'runs', cardinality(runs), 'records_erased', chosen.erase_records, 'deleted_runs', coalesce(cardinality(gone), 0)));
    RETURN cardinality(runs);
END $$;
"""

# The owner of the table may empty the reason; `holdpoint_erase` runs with the owner's rights.
GUARD = """
CREATE OR REPLACE FUNCTION holdpoint_guard_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    free text[] := '{uses,last_used_at,revoked_at,revoked_by}';
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a grant is revoked, not deleted' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NEW.why = '' AND pg_has_role(
        current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')
    THEN
        free := array_append(free, 'why');
    END IF;
    IF (to_jsonb(NEW) - free) IS DISTINCT FROM (to_jsonb(OLD) - free)
        OR NEW.uses < OLD.uses
        OR (OLD.revoked_at IS NOT NULL AND (NEW.revoked_at, NEW.revoked_by)
            IS DISTINCT FROM (OLD.revoked_at, OLD.revoked_by))
    THEN
        RAISE EXCEPTION 'a grant can be used and revoked, nothing else'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
"""

GUARD_BEFORE = """
CREATE OR REPLACE FUNCTION holdpoint_guard_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a grant is revoked, not deleted' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF (to_jsonb(NEW) - '{uses,last_used_at,revoked_at,revoked_by}'::text[])
        IS DISTINCT FROM (to_jsonb(OLD) - '{uses,last_used_at,revoked_at,revoked_by}'::text[])
        OR NEW.uses < OLD.uses
        OR (OLD.revoked_at IS NOT NULL AND (NEW.revoked_at, NEW.revoked_by)
            IS DISTINCT FROM (OLD.revoked_at, OLD.revoked_by))
    THEN
        RAISE EXCEPTION 'a grant can be used and revoked, nothing else'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
"""

# Runs whose records were erased before this migration.
ERASED_BEFORE = """
UPDATE workflows_grant AS given SET why = ''
  FROM reviews_retentionentry AS entry
 WHERE entry.kind = 'erased' AND entry.detail @> '{"records_erased": true}'
   AND given.execution_id = ANY(entry.executions) AND given.why <> '';
"""


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0037_legal_holds_of_gates"),
        ("workflows", "0051_count_shown_runs"),
    ]

    operations = [
        migrations.RunSQL(GUARD, GUARD_BEFORE),
        migrations.RunSQL(ERASE, ERASE.replace(REASON, "")),
        migrations.RunSQL(ERASED_BEFORE, migrations.RunSQL.noop),
    ]
