"""Bots of Teams with linked accounts and cards; `holdpoint_erase` also deletes the cards.

`holdpoint_erase` is that of migration 0034 with one more table.
"""

import django.core.serializers.json
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

FORWARD = """
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

BACKWARD = FORWARD.replace("'reviews_teamsmessage', ", "")


class Migration(migrations.Migration):

    dependencies = [
        ('reviews', '0035_security_events_of_sign_out'),
        ('workflows', '0047_gate_call_not_sent'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='TeamsBot',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('app_id', models.CharField(max_length=36, unique=True, verbose_name='app ID')),
                ('tenant_id', models.CharField(max_length=36, verbose_name='tenant ID')),
                ('client_secret', models.TextField()),
                ('enabled', models.BooleanField(default=True)),
                ('last_success_at', models.DateTimeField(editable=False, null=True)),
                ('last_failure_at', models.DateTimeField(editable=False, null=True)),
                ('last_error', models.TextField(blank=True, default='', editable=False)),
            ],
            options={
                'verbose_name': 'Teams bot',
                'ordering': ('name',),
            },
        ),
        migrations.AlterField(
            model_name='slackaccount',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.CreateModel(
            name='TeamsAccount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('linked_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('session_hash', models.CharField(blank=True, db_default='', default='', editable=False, max_length=64)),
                ('teams_user', models.CharField(max_length=200, verbose_name='Teams user ID')),
                ('name', models.CharField(blank=True, default='', max_length=200)),
                ('service_url', models.CharField(max_length=300)),
                ('conversation', models.CharField(max_length=300)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('bot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='accounts', to='reviews.teamsbot')),
            ],
            options={
                'verbose_name': 'linked Teams account',
                'ordering': ('-id',),
            },
        ),
        migrations.CreateModel(
            name='TeamsMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('waiting', 'a review waits for me or my group'), ('reminder', 'a review still waits'), ('escalated', 'a review is escalated to me'), ('decided', 'a run of mine was decided'), ('mismatch', 'an action that I approved was run with other arguments'), ('claim_given', 'a review is given to me'), ('claim_taken', 'my claim is given to somebody else'), ('claim_ended', 'my claim runs out')], max_length=12)),
                ('key', models.CharField(max_length=120)),
                ('actor', models.CharField(blank=True, default='', max_length=150)),
                ('detail', models.JSONField(default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder)),
                ('status', models.CharField(choices=[('PENDING', 'on its way'), ('SENT', 'sent'), ('DROPPED', 'nothing was left to tell'), ('FAILED', 'given up')], default='PENDING', max_length=8)),
                ('claims', models.IntegerField(db_default=0, default=0)),
                ('attempts', models.IntegerField(db_default=0, default=0)),
                ('next_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('error', models.TextField(blank=True, db_default='', default='')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('finished_at', models.DateTimeField(null=True)),
                ('activity', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('account', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='reviews.teamsaccount')),
                ('bot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='reviews.teamsbot')),
                ('hold', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='workflows.hold')),
            ],
            options={
                'verbose_name': 'Teams message',
                'ordering': ('-id',),
            },
        ),
        migrations.AddConstraint(
            model_name='teamsaccount',
            constraint=models.UniqueConstraint(fields=('bot', 'teams_user'), name='teams_account_of_one_person'),
        ),
        migrations.AddConstraint(
            model_name='teamsaccount',
            constraint=models.UniqueConstraint(fields=('bot', 'user'), name='teams_account_per_person'),
        ),
        migrations.AddIndex(
            model_name='teamsmessage',
            index=models.Index(condition=models.Q(('status', 'PENDING')), fields=['next_at'], name='teams_due'),
        ),
        migrations.AddIndex(
            model_name='teamsmessage',
            index=models.Index(fields=['finished_at'], name='teams_finished'),
        ),
        migrations.AddConstraint(
            model_name='teamsmessage',
            constraint=models.UniqueConstraint(fields=('account', 'key'), name='teams_message_once'),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
