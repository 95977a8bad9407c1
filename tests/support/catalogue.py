"""The Python tools in the catalogue of a test, without embedding and indexing them each time.

`sync_python_tools` takes a tenth of all time of the tests that start runs. Its first rows are
kept as PostgreSQL writes them, and laid into the empty catalogue of the next test in one
statement. Revisions are new each time: nothing that a process keeps outlives its test.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from django.db import connection

from graphrag import conf
from graphrag.models import Revision, Tool
from tests.support.groups import known_groups
from workflows.planning.planner import sync_python_tools
from workflows.tools import registry

KEPT = (Tool, Revision)
#: The rows of each of these models as JSON, by the embedder and the tools that were declared.
_rows: dict[Hashable, list[Any]] = {}


def stock_catalogue() -> None:
    """What `sync_python_tools()` does to an empty catalogue; that itself where it is not empty.

    The groups that plans of the tests name are made as well.
    """
    known_groups()
    tools = registry.all_tools()
    # Tests declare tools of their own for a while: the same objects, the same rows.
    declared = (conf.embedder(), *sorted((tool.name, id(tool)) for tool in tools))
    if any(model.objects.exists() for model in KEPT):
        sync_python_tools()
    elif declared in _rows:
        _lay(_rows[declared][1:])
    else:
        sync_python_tools()
        # The tools are held as well, so that no other object gets the id of one of them.
        _rows[declared] = [tools, *(_read(model) for model in KEPT)]


def _read(model: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT json_agg(each)::text FROM {_quoted(model)} AS each")
        return str(cursor.fetchone()[0])


def _lay(rows: list[str]) -> None:
    renew = f"UPDATE {_quoted(Revision)} SET token = gen_random_uuid()"
    with connection.cursor() as cursor:
        cursor.execute("; ".join([*(_insert(model) for model in KEPT), renew]), rows)


def _insert(model: Any) -> str:
    """Columns that PostgreSQL works out by itself are left to it."""
    quote = connection.ops.quote_name
    names = ", ".join(
        quote(field.column) for field in model._meta.concrete_fields if not field.generated
    )
    table = _quoted(model)
    return (
        f"INSERT INTO {table} ({names})"
        f" SELECT {names} FROM json_populate_recordset(NULL::{table}, %s::json)"
    )


def _quoted(model: Any) -> str:
    return str(connection.ops.quote_name(model._meta.db_table))
