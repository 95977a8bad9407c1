"""The hand-written operations of `0001_initial`: what models cannot declare."""

from django.db import migrations

#: The model `ErasableRun` is this view: runs whose data a policy lets erase now.
ERASABLE = """
CREATE VIEW reviews_erasable AS
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
   AND NOT EXISTS (
       SELECT FROM workflows_approval AS approval
         JOIN workflows_gatecall AS call ON call.approval_id = approval.id
         JOIN reviews_legalhold AS stop ON stop.gate_id = call.gate_id
        WHERE approval.execution_id = run.id AND stop.lifted_at IS NULL)
   AND NOT EXISTS (
       SELECT FROM workflows_hold AS hold
        WHERE hold.execution_id = run.id
          AND (hold.status = 'OPEN' OR hold.undo_until IS NOT NULL))
   AND NOT EXISTS (
       SELECT FROM workflows_execution AS fork
        WHERE fork.parent_id = run.id AND fork.erased_at IS NULL);
"""

#: The only function with rights that the product's role lacks: it deletes and empties guarded rows.
ERASE = """
CREATE FUNCTION holdpoint_erase(wanted_policy bigint, candidates bigint[]) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
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
        'reviews_slackmessage']
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
           callback_url = '', result_output = NULL,
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

#: Receipts are chained by hash; the role that inserts them chooses neither place nor time.
CHAIN_RECEIPT = r"""
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
        sha256(convert_to(NEW.previous_hash || E'\n' || NEW.canonical, 'UTF8')), 'hex');
    RETURN NEW;
END $$;
CREATE TRIGGER holdpoint_chain_receipt BEFORE INSERT ON workflows_executionreceipt
    FOR EACH ROW EXECUTE FUNCTION holdpoint_chain_receipt();
"""

#: Changes of policies and legal holds in SQL are in the retention log.
RETENTION_LOG = """
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
            coalesce(
                'Run ' || NEW.execution_id,
                'Workflow ' || (SELECT title FROM workflows_workflow WHERE id = NEW.workflow_id),
                'MCP gate ' || (SELECT name FROM workflows_gate WHERE id = NEW.gate_id)),
            array_remove(ARRAY[NEW.execution_id], NULL),
            jsonb_build_object('legal_hold', NEW.id, 'reason', NEW.reason));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER holdpoint_log_legal_hold AFTER INSERT OR UPDATE ON reviews_legalhold DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION holdpoint_log_legal_hold();
CREATE CONSTRAINT TRIGGER holdpoint_log_policy AFTER INSERT OR UPDATE ON reviews_retentionpolicy DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION holdpoint_log_policy();
CREATE TRIGGER holdpoint_log_deleted_policy AFTER DELETE ON reviews_retentionpolicy
    FOR EACH ROW EXECUTE FUNCTION holdpoint_log_policy();
"""

OPERATIONS = [
    migrations.RunSQL(sql)
    for sql in (ERASABLE, ERASE, CHAIN_RECEIPT, RETENTION_LOG)
]
