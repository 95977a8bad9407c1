"""Retention: policies, legal holds, their log, and the one function that erases runs.

Payloads and comments of new records are encrypted with a key per run.  Where a policy says so,
`holdpoint_erase` deletes the key, empties the payload columns of older records, and takes the
comments out of the search.  The hash chain covers digests of all of them, so it stays whole.

The product's role cannot delete rows of the journal.  `holdpoint_erase` runs with the rights of
the owner, and erases only runs of the view `reviews_erasable`: ended runs past an enabled policy,
without a legal hold, an open review or a fork whose data is kept.  `search_path` keeps a temporary
table of the calling role from standing in for a real one.
"""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

FORWARD = """
CREATE TRIGGER holdpoint_retention_append_only
    BEFORE UPDATE OR DELETE ON reviews_retentionentry
    FOR EACH ROW EXECUTE FUNCTION holdpoint_records_append_only();
CREATE TRIGGER holdpoint_retention_no_truncate
    BEFORE TRUNCATE ON reviews_retentionentry
    FOR EACH STATEMENT EXECUTE FUNCTION holdpoint_records_append_only();

CREATE FUNCTION holdpoint_guard_legal_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.lifted_at IS NOT NULL
       OR NEW.lifted_at IS NULL OR NEW.lifted_by_id IS NULL
       OR (NEW.id, NEW.execution_id, NEW.workflow_id, NEW.reason, NEW.placed_by_id, NEW.placed_at)
          IS DISTINCT FROM
          (OLD.id, OLD.execution_id, OLD.workflow_id, OLD.reason, OLD.placed_by_id, OLD.placed_at)
    THEN
        RAISE EXCEPTION 'a legal hold can be lifted, once; nothing else of it changes'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER holdpoint_guard_legal_hold
    BEFORE UPDATE OR DELETE ON reviews_legalhold
    FOR EACH ROW EXECUTE FUNCTION holdpoint_guard_legal_hold();

CREATE TRIGGER holdpoint_key_append_only
    BEFORE UPDATE OR DELETE ON reviews_payloadkey
    FOR EACH ROW EXECUTE FUNCTION holdpoint_journal_append_only();

CREATE FUNCTION holdpoint_emptied_append_only() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.original_data IS NULL AND NEW.modified_data IS NULL
       AND to_jsonb(NEW) - '{original_data,modified_data}'::text[]
           = to_jsonb(OLD) - '{original_data,modified_data}'::text[]
       AND EXISTS (SELECT FROM workflows_execution
                    WHERE id = OLD.execution_id AND erased_at IS NOT NULL)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;

DROP TRIGGER holdpoint_records_append_only ON reviews_humanreviewrecord;
CREATE TRIGGER holdpoint_records_append_only
    BEFORE UPDATE OR DELETE ON reviews_humanreviewrecord
    FOR EACH ROW EXECUTE FUNCTION holdpoint_emptied_append_only();

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
       SELECT FROM workflows_hold AS hold
        WHERE hold.execution_id = run.id
          AND (hold.status = 'OPEN' OR hold.undo_until IS NOT NULL))
   AND NOT EXISTS (
       SELECT FROM workflows_execution AS fork
        WHERE fork.parent_id = run.id AND fork.erased_at IS NULL);

CREATE FUNCTION holdpoint_erase(wanted_policy bigint, candidates bigint[]) RETURNS bigint
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
       SET payload = NULL, why = '', why_code = '', why_params = '{}', instructions = ''
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
REVOKE ALL ON FUNCTION holdpoint_erase FROM PUBLIC;
"""

BACKWARD = """
DROP FUNCTION holdpoint_erase;
DROP VIEW reviews_erasable;
DROP TRIGGER holdpoint_records_append_only ON reviews_humanreviewrecord;
CREATE TRIGGER holdpoint_records_append_only
    BEFORE UPDATE OR DELETE ON reviews_humanreviewrecord
    FOR EACH ROW EXECUTE FUNCTION holdpoint_records_append_only();
DROP FUNCTION holdpoint_emptied_append_only();
DROP TRIGGER holdpoint_key_append_only ON reviews_payloadkey;
DROP TRIGGER holdpoint_guard_legal_hold ON reviews_legalhold;
DROP FUNCTION holdpoint_guard_legal_hold();
DROP TRIGGER holdpoint_retention_no_truncate ON reviews_retentionentry;
DROP TRIGGER holdpoint_retention_append_only ON reviews_retentionentry;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('reviews', '0030_names_of_security_events'),
        ('workflows', '0045_indexes_of_erasure'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ErasableRun',
            fields=[
                ('execution', models.OneToOneField(on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='+', serialize=False, to='workflows.execution')),
                ('finished_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'reviews_erasable',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='LegalHold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reason', models.TextField(help_text='Such as the number of the case. Everybody who sees the run can read it.')),
                ('placed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('lifted_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'verbose_name': 'legal hold',
                'ordering': ('-id',),
            },
        ),
        migrations.CreateModel(
            name='RetentionEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('policy_set', 'policy set'), ('policy_deleted', 'policy deleted'), ('hold_placed', 'legal hold placed'), ('hold_lifted', 'legal hold lifted'), ('erased', 'runs erased')], max_length=20)),
                ('actor', models.CharField(max_length=150)),
                ('subject', models.TextField()),
                ('executions', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None)),
                ('detail', models.JSONField(default=dict)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'verbose_name': 'retention entry',
                'verbose_name_plural': 'retention log',
                'ordering': ('-id',),
                'indexes': [django.contrib.postgres.indexes.GinIndex(fields=['executions'], name='retention_entry_of_run')],
            },
        ),
        migrations.CreateModel(
            name='RetentionPolicy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('keep_days', models.PositiveIntegerField(blank=True, help_text='Days from the end of a run until its data is erased. Empty: keep it forever.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(36500)], verbose_name='keep for (days)')),
                ('erase_records', models.BooleanField(db_default=False, default=False, help_text='Also erase what people saw, changed and commented. Who decided what, and when, stays.', verbose_name='erase payloads of review records')),
                ('enabled', models.BooleanField(default=False, help_text='Look at the preview before you enable a policy.')),
            ],
            options={
                'verbose_name': 'retention policy',
                'verbose_name_plural': 'retention policies',
                'ordering': ('workflow__title',),
            },
        ),
        migrations.AddField(
            model_name='legalhold',
            name='execution',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='legal_holds', to='workflows.execution', verbose_name='run'),
        ),
        migrations.AddField(
            model_name='legalhold',
            name='lifted_by',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='legalhold',
            name='placed_by',
            field=models.ForeignKey(editable=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='legalhold',
            name='workflow',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='legal_holds', to='workflows.workflow'),
        ),
        migrations.AddField(
            model_name='retentionpolicy',
            name='workflow',
            field=models.OneToOneField(blank=True, help_text='Empty: runs of workflows without an enabled policy of their own, and of plans.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='retention_policy', to='workflows.workflow'),
        ),
        migrations.AddConstraint(
            model_name='legalhold',
            constraint=models.CheckConstraint(condition=models.Q(('execution', None), ('workflow', None), _connector='XOR'), name='legal_hold_of_one_thing'),
        ),
        migrations.AddConstraint(
            model_name='retentionpolicy',
            constraint=models.UniqueConstraint(fields=('workflow',), name='retention_policy_once', nulls_distinct=False, violation_error_message='There is a policy for all other runs already.'),
        ),
        migrations.AddConstraint(
            model_name='retentionpolicy',
            constraint=models.CheckConstraint(condition=models.Q(('keep_days', None), ('keep_days__gte', 1), _connector='OR'), name='retention_keeps_a_day'),
        ),
        migrations.CreateModel(
            name='PayloadKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('execution', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='payload_key', to='workflows.execution')),
                ('key', models.TextField()),
            ],
        ),
        migrations.AddField(
            model_name='humanreviewrecord',
            name='sealed',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
        migrations.AlterField(
            model_name='humanreviewrecord',
            name='original_data',
            field=models.JSONField(db_column='original_data', null=True),
        ),
        migrations.RenameField('humanreviewrecord', 'original_data', 'stored_original'),
        migrations.AlterField(
            model_name='humanreviewrecord',
            name='modified_data',
            field=models.JSONField(db_column='modified_data', null=True),
        ),
        migrations.RenameField('humanreviewrecord', 'modified_data', 'stored_modified'),
        migrations.AlterField(
            model_name='humanreviewrecord',
            name='comment',
            field=models.TextField(blank=True, db_column='comment', default=''),
        ),
        migrations.RenameField('humanreviewrecord', 'comment', 'stored_comment'),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
