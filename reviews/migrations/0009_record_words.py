"""Full text of records from a narrow table: words are parted once, when a record is written."""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION holdpoint_words_of_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reviews_recordwords (record_id, words)
    VALUES (NEW.id, to_tsvector('simple', translate(concat_ws(' ', NEW.node_id, NEW.target,
            NEW.comment, NEW.workflow_title, NEW.actor), '._-/:', '     ')));
    RETURN NULL;
END $$;

CREATE TRIGGER holdpoint_words_of_record
    AFTER INSERT ON reviews_humanreviewrecord
    FOR EACH ROW EXECUTE FUNCTION holdpoint_words_of_record();

INSERT INTO reviews_recordwords (record_id, words)
SELECT id, to_tsvector('simple', translate(concat_ws(' ', node_id, target, comment,
       workflow_title, actor), '._-/:', '     '))
  FROM reviews_humanreviewrecord;
"""

BACKWARD = """
DROP TRIGGER holdpoint_words_of_record ON reviews_humanreviewrecord;
DROP FUNCTION holdpoint_words_of_record();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('reviews', '0008_backtest'),
    ]

    operations = [
        migrations.CreateModel(
            name='RecordWords',
            fields=[
                ('record', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='words', serialize=False, to='reviews.humanreviewrecord')),
                ('words', django.contrib.postgres.search.SearchVectorField()),
            ],
        ),
        migrations.RemoveIndex(
            model_name='humanreviewrecord',
            name='record_words',
        ),
        migrations.AddIndex(
            model_name='recordwords',
            index=django.contrib.postgres.indexes.GinIndex(fields=['words'], name='words_of_records'),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
