"""The hand-written operations of `0001_initial`: what models cannot declare."""

from django.db import DatabaseError, migrations
from pgvector.django import VectorExtension


class RequireVectorExtension(VectorExtension):
    """Create the `vector` extension, or say in plain words what the server lacks."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        try:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        except DatabaseError as error:
            raise RuntimeError(
                "This PostgreSQL server has no usable 'vector' extension (pgvector 0.8 or newer). "
                "Install pgvector on the server, or have a superuser run CREATE EXTENSION vector."
            ) from error


#: A new PageRank changes no indexed column.  With room on its page, the new version of the row needs
#: no entry in any index; without, each one leaves a dead copy of the vector in the HNSW index, and
#: many copies of one vector lead a scan astray until the next vacuum.
ROOM_FOR_UPDATES = """
ALTER TABLE graphrag_tool SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)
"""

#: Before the tables.
EXTENSIONS = [RequireVectorExtension()]
OPERATIONS = [migrations.RunSQL(ROOM_FOR_UPDATES, migrations.RunSQL.noop)]
