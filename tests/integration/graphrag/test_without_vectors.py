"""A database without the ``vector`` extension: said by the check, by the migration, by answers."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from config.checks import vector_extension
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import replanning
from graphrag.planning import services as planning_services
from graphrag.retrieval import search
from workflows.planning.planner import tool_schemas


@pytest.fixture
def dropped(files_catalogue: list[ToolRecord]) -> None:
    """The extension is gone, with every column of its type, until the test's transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("DROP EXTENSION vector CASCADE")


def test_the_check_is_silent_while_nothing_is_missing(db: None) -> None:
    assert vector_extension(None, databases=["default"]) == []
    assert vector_extension(None) == []


def test_the_check_names_what_is_missing_and_what_to_do(dropped: None) -> None:
    (told,) = vector_extension(None, databases=["default"])
    assert told.id == "holdpoint.E005"
    assert "'vector' is missing" in told.msg
    assert "pgvector 0.8" in str(told.hint)


def test_tools_are_still_found_planned_and_run(dropped: None) -> None:
    answer = search.search("parse an XML document")
    assert answer.found[0].tool.name == "files.parse_xml"
    assert "full text alone" in answer.warnings[0]
    suggested = planning_services.suggest("parse the XML", {"text": "<a/>"})
    assert suggested.plan is not None
    task = {"id": "t", "type": "tool", "tool": "files.read_file", "arguments": {"path": "a"}}
    changed = replanning.replan({"tasks": [task]}, ["t"], "parse XML", {"text": "<a/>"})
    assert changed.plan is not None
    assert tool_schemas(["files.read_file"])["files.read_file"].read_only


@pytest.fixture
def bare(db: None) -> Iterator[dict[str, Any]]:
    """A database without the extension, and a role that may not create it."""
    owner = dict(connection.get_connection_params())
    keys = ("host", "port", "user", "password", "dbname")
    options = {key: owner[key] for key in keys if owner.get(key)}
    name = f"{options['dbname']}_bare"
    with psycopg.connect(**options, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name}")
        admin.execute("DROP ROLE IF EXISTS bare_owner")
        admin.execute("CREATE ROLE bare_owner")
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 OWNER bare_owner")
        try:
            yield {**options, "dbname": name}
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
            admin.execute("DROP ROLE bare_owner")


def test_the_first_migration_names_the_missing_extension(
    bare: dict[str, Any],
) -> None:
    from importlib import import_module

    from django.db import ConnectionHandler
    from django.db.migrations.state import ProjectState

    migration = import_module("graphrag.migrations.0001_initial")
    settings = {**connection.settings_dict, "NAME": bare["dbname"]}
    other = ConnectionHandler({"default": settings})["default"]
    try:
        with other.cursor() as cursor:
            cursor.execute("SET ROLE bare_owner")
        operation = migration.Migration.operations[0]
        state = ProjectState()
        with (
            pytest.raises(RuntimeError, match=r"no usable 'vector' extension.*pgvector"),
            other.schema_editor() as editor,
        ):
            operation.database_forwards("graphrag", editor, state, state)
    finally:
        other.close()
