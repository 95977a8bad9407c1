"""Log changes of policies and legal holds that no entry names, and erase titles of tasks.

The product writes an entry for each change in the same transaction.  A change in SQL has none, so a
trigger adds it at the end of the transaction, with the database role as the actor.  The database
sets the time of entries: none can be written in advance.

`holdpoint_erase` is that of migration 0031, and also empties the titles of tasks in reviews.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION holdpoint_time_of_entry() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    NEW.at := statement_timestamp();
    RETURN NEW;
END $$;
CREATE TRIGGER holdpoint_time_of_entry BEFORE INSERT ON reviews_retentionentry
    FOR EACH ROW EXECUTE FUNCTION holdpoint_time_of_entry();

CREATE FUNCTION holdpoint_log_policy() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    policy reviews_retentionpolicy;
    action text := 'policy_set';
    fields jsonb := '{}';
    said text;
BEGIN
    IF TG_OP = 'DELETE' THEN
        policy := OLD;
        action := 'policy_deleted';
    ELSE
        policy := NEW;
        fields := jsonb_build_object('enabled', NEW.enabled, 'keep_days', NEW.keep_days,
                                     'erase_records', NEW.erase_records);
    END IF;
    said := coalesce(
        (SELECT title FROM workflows_workflow WHERE id = policy.workflow_id), 'All other runs')
        || ': ' || coalesce(policy.keep_days || ' days', 'forever');
    IF NOT EXISTS (
        SELECT FROM reviews_retentionentry
         WHERE at >= now() AND kind = action AND subject = said AND detail @> fields)
    THEN
        INSERT INTO reviews_retentionentry (kind, actor, subject, executions, detail)
        VALUES (action, 'database role ' || session_user, said, '{}', fields);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER holdpoint_log_policy
    AFTER INSERT OR UPDATE ON reviews_retentionpolicy
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdpoint_log_policy();
-- At once: a workflow that is deleted with its policy still has its title.
CREATE TRIGGER holdpoint_log_deleted_policy AFTER DELETE ON reviews_retentionpolicy
    FOR EACH ROW EXECUTE FUNCTION holdpoint_log_policy();

CREATE FUNCTION holdpoint_log_legal_hold() RETURNS trigger LANGUAGE plpgsql
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
            coalesce('Run ' || NEW.execution_id, 'Workflow ' || (
                SELECT title FROM workflows_workflow WHERE id = NEW.workflow_id)),
            array_remove(ARRAY[NEW.execution_id], NULL),
            jsonb_build_object('legal_hold', NEW.id, 'reason', NEW.reason));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER holdpoint_log_legal_hold
    AFTER INSERT OR UPDATE ON reviews_legalhold
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION holdpoint_log_legal_hold();

UPDATE workflows_hold AS hold SET task_title = ''
  FROM workflows_execution AS run
 WHERE run.id = hold.execution_id AND run.erased_at IS NOT NULL AND hold.task_title <> '';

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
        'reviews_slackmessage', 'reviews_pushmessage']
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

# `holdpoint_erase` stays: the one of migration 0031 differs only in the titles that it keeps.
BACKWARD = """
DROP TRIGGER holdpoint_log_legal_hold ON reviews_legalhold;
DROP FUNCTION holdpoint_log_legal_hold();
DROP TRIGGER holdpoint_log_deleted_policy ON reviews_retentionpolicy;
DROP TRIGGER holdpoint_log_policy ON reviews_retentionpolicy;
DROP FUNCTION holdpoint_log_policy();
DROP TRIGGER holdpoint_time_of_entry ON reviews_retentionentry;
DROP FUNCTION holdpoint_time_of_entry();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('reviews', '0033_security_events_of_retention'),
    ]

    operations = [
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
