"""Leaves room on each page of the tool table for new versions of its rows.

A new PageRank changes no indexed column. With room on its page the new version needs no entry in
any index; without, each one would leave a dead copy of the tool's vector in the HNSW index, and
many copies of one vector lead a scan astray until the next vacuum.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("graphrag", "0001_tools")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE graphrag_tool SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)",
            "ALTER TABLE graphrag_tool RESET (fillfactor, autovacuum_vacuum_scale_factor)",
        )
    ]
