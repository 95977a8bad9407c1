"""Lists that answer from indexes when there are millions of rows.

The SQL is literal on purpose: a migration must not change when the code does.
"""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION holdpoint_lists_of_execution() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM workflows_audience
         WHERE execution_id = NEW.id AND member = 'user:' || OLD.created_by_id;
    END IF;
    INSERT INTO workflows_audience (execution_id, member)
    SELECT NEW.id, 'user:' || NEW.created_by_id WHERE NEW.created_by_id IS NOT NULL
    ON CONFLICT DO NOTHING;
    INSERT INTO workflows_executionwords (execution_id, words)
    VALUES (NEW.id, to_tsvector('simple', translate(NEW.title, '._-/:', '     ')))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE FUNCTION holdpoint_hold_words(hold workflows_hold) RETURNS tsvector LANGUAGE sql STABLE AS $$
    SELECT to_tsvector('simple', translate(concat_ws(' ', run.title, hold.task_id, hold.target,
                                                     hold.why), '._-/:', '     '))
      FROM workflows_execution AS run WHERE run.id = hold.execution_id
$$;

CREATE FUNCTION holdpoint_lists_of_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.groups IS DISTINCT FROM OLD.groups THEN
        INSERT INTO workflows_audience (execution_id, member)
        SELECT NEW.execution_id, 'group:' || name FROM unnest(NEW.groups) AS name
        ON CONFLICT DO NOTHING;
    ELSIF NEW.status = OLD.status THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM workflows_waiting WHERE hold_id = NEW.id;
    END IF;
    IF NEW.status = 'OPEN' AND NEW.decider = 'human' THEN
        INSERT INTO workflows_waiting (hold_id, execution_id, "group", words)
        SELECT DISTINCT NEW.id, NEW.execution_id, name, holdpoint_hold_words(NEW)
          FROM unnest(CASE WHEN cardinality(NEW.groups) = 0 THEN '{""}' ELSE NEW.groups END) AS name;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER holdpoint_lists
    AFTER INSERT OR UPDATE OF created_by_id ON workflows_execution
    FOR EACH ROW EXECUTE FUNCTION holdpoint_lists_of_execution();
CREATE TRIGGER holdpoint_lists
    AFTER INSERT OR UPDATE OF groups, status ON workflows_hold
    FOR EACH ROW EXECUTE FUNCTION holdpoint_lists_of_hold();

INSERT INTO workflows_executionwords (execution_id, words)
SELECT id, to_tsvector('simple', translate(title, '._-/:', '     ')) FROM workflows_execution;

INSERT INTO workflows_audience (execution_id, member)
SELECT id, 'user:' || created_by_id FROM workflows_execution WHERE created_by_id IS NOT NULL
UNION
SELECT execution_id, 'group:' || name FROM workflows_hold, unnest(groups) AS name;

INSERT INTO workflows_waiting (hold_id, execution_id, "group", words)
SELECT DISTINCT hold.id, hold.execution_id, name, holdpoint_hold_words(hold)
  FROM workflows_hold AS hold,
       unnest(CASE WHEN cardinality(groups) = 0 THEN '{""}' ELSE groups END) AS name
 WHERE status = 'OPEN' AND decider = 'human';
"""

BACKWARD = """
DROP TRIGGER holdpoint_lists ON workflows_hold;
DROP TRIGGER holdpoint_lists ON workflows_execution;
DROP FUNCTION holdpoint_lists_of_hold();
DROP FUNCTION holdpoint_hold_words(workflows_hold);
DROP FUNCTION holdpoint_lists_of_execution();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0009_review_rules'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Audience',
            fields=[
                ('pk', models.CompositePrimaryKey('execution_id', 'member', blank=True, editable=False, primary_key=True, serialize=False)),
                ('execution', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='audience', to='workflows.execution')),
                ('member', models.CharField(max_length=160)),
            ],
        ),
        migrations.CreateModel(
            name='ExecutionWords',
            fields=[
                ('execution', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='words', serialize=False, to='workflows.execution')),
                ('words', django.contrib.postgres.search.SearchVectorField()),
            ],
        ),
        migrations.CreateModel(
            name='Waiting',
            fields=[
                ('pk', models.CompositePrimaryKey('hold_id', 'group', blank=True, editable=False, primary_key=True, serialize=False)),
                ('hold', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='waiting', to='workflows.hold')),
                ('execution', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='waiting', to='workflows.execution')),
                ('group', models.CharField(max_length=150)),
                ('words', django.contrib.postgres.search.SearchVectorField()),
            ],
        ),
        migrations.AddIndex(
            model_name='execution',
            index=models.Index(condition=models.Q(('status__in', ('PENDING', 'RUNNING', 'PAUSED_FOR_REVIEW', 'AWAITING_AGENT'))), fields=['created_by'], name='execution_live_by_creator'),
        ),
        migrations.AddIndex(
            model_name='executionevent',
            index=models.Index(condition=models.Q(('kind__in', ('execution_started', 'hold_opened', 'hold_voted', 'hold_decided', 'hold_expired', 'hold_extended', 'hold_escalated', 'execution_completed', 'execution_failed', 'execution_aborted'))), fields=['created_at'], name='event_of_queue_by_time'),
        ),
        migrations.AddIndex(
            model_name='hold',
            index=models.Index(condition=models.Q(('decider', 'human'), ('status', 'OPEN')), fields=['opened_at', 'id'], include=('execution',), name='hold_for_people_by_age'),
        ),
        migrations.AddIndex(
            model_name='hold',
            index=models.Index(condition=models.Q(('status', 'OPEN'), models.Q(('approvals', []), _negated=True)), fields=['id'], name='hold_open_half_approved'),
        ),
        migrations.AddIndex(
            model_name='hold',
            index=models.Index(condition=models.Q(('decider', 'human'), ('status__in', ['APPROVED', 'REJECTED'])), fields=['-decided_at', '-id'], name='hold_decided_by_time'),
        ),
        migrations.AddIndex(
            model_name='executionwords',
            index=django.contrib.postgres.indexes.GinIndex(fields=['words'], name='execution_words'),
        ),
        migrations.AddIndex(
            model_name='audience',
            index=models.Index(fields=['member', 'execution'], name='audience_by_member'),
        ),
        migrations.AddIndex(
            model_name='waiting',
            index=models.Index(fields=['group', 'hold'], include=('execution',), name='waiting_by_group'),
        ),
        migrations.AddIndex(
            model_name='waiting',
            index=django.contrib.postgres.indexes.GinIndex(fields=['words'], name='waiting_words'),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
