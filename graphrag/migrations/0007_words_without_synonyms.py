"""Remove the labels of synonym groups that earlier versions put behind the searchable words."""

from django.db import migrations

_REMOVE = r"""
UPDATE graphrag_tool SET
    search_name = regexp_replace(search_name, '( [a-z]+0)+$', ''),
    search_summary = regexp_replace(search_summary, '( [a-z]+0)+$', ''),
    search_body = regexp_replace(search_body, '( [a-z]+0)+$', ''),
    search_arguments = regexp_replace(search_arguments, '( [a-z]+0)+$', '')
"""


class Migration(migrations.Migration):
    dependencies = [("graphrag", "0006_tool_sequences")]

    operations = [migrations.RunSQL(_REMOVE, migrations.RunSQL.noop, elidable=True)]
