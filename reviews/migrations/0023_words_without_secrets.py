"""Leave the secrets of comments, which pages mask, out of the words that a search finds."""

from django.db import migrations

from workflows.common.redaction import mask_secrets

UPDATE = """
UPDATE reviews_recordwords AS found
   SET words = to_tsvector('simple', translate(concat_ws(' ', record.node_id, record.target,
               %s, record.workflow_title, record.actor), '._-/:', '     '))
  FROM reviews_humanreviewrecord AS record
 WHERE record.id = found.record_id AND record.id = %s
"""


def hide_secrets(apps, schema_editor):
    records = apps.get_model('reviews', 'HumanReviewRecord').objects.exclude(comment='')
    with schema_editor.connection.cursor() as cursor:
        for pk, comment in records.order_by('pk').values_list('pk', 'comment').iterator():
            shown = mask_secrets(comment)
            if shown != comment:
                cursor.execute(UPDATE, [shown, pk])


class Migration(migrations.Migration):

    dependencies = [
        ('reviews', '0022_chat_hook_formats'),
    ]

    operations = [
        migrations.RunPython(hide_secrets, migrations.RunPython.noop),
    ]
