"""Migrations after the last release run while the processes of that release still serve.

The rules are in CONTRIBUTING.md, under "Migrations". They concern tables that the last release has;
new tables are free. What a new trigger or constraint refuses cannot be read from an
operation: tests/upgrade runs the last release on the migrated database.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.contrib.postgres.operations import (
    AddIndexConcurrently,
    CreateExtension,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import migrations, models
from django.db.migrations import operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Field
from pgtrigger.migrations import AddTrigger, RemoveTrigger

from workflows.common.guards import AppendOnly
from workflows.models import ExecutionEvent

#: The newest migrations of the last release, 0.2.0. A release moves them and empties REVIEWED.
RELEASED = {
    "workflows": "0001_initial",
    "reviews": "0001_initial",
    "graphrag": "0001_initial",
}
#: Migrations that break a rule, and why the last release may serve meanwhile all the same.
REVIEWED: dict[str, str] = {}

Model = tuple[str, str]

ALWAYS_SAFE = (
    operations.CreateModel,
    operations.AlterModelOptions,
    operations.AlterModelManagers,
    operations.RemoveConstraint,
    operations.RemoveIndex,
    operations.RunPython,
    AddIndexConcurrently,
    AddTrigger,
    CreateExtension,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
#: Arguments of a field that change no column, or that have a rule of their own.
NOT_IN_THE_COLUMN = {
    *("default", "db_default", "null", "max_length", "unique", "db_index", "db_constraint"),
    *Field.non_db_attrs,
}

BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
DROPPED = re.compile(r"^DROP (TRIGGER|FUNCTION|VIEW) (?:IF EXISTS )?(\w+)(?:.* ON (\w+))?")
CREATED = re.compile(r"^CREATE (?:OR REPLACE )?(TRIGGER|FUNCTION|VIEW) (\w+)(?:.*? ON (\w+))?")
INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY).*? ON (\w+)")
TABLE = re.compile(r"^(?:ALTER TABLE|DROP TABLE|TRUNCATE)(?: IF EXISTS| ONLY| TABLE)* (\w+)")
TIGHTENED = re.compile(
    r"DROP (?!DEFAULT|NOT NULL|CONSTRAINT)|RENAME|SET NOT NULL|\bTYPE\b|ADD (CONSTRAINT|CHECK|"
    r"UNIQUE|PRIMARY)|DISABLE|TRUNCATE|ADD COLUMN (?!.*\bDEFAULT\b).*NOT NULL"
)
CHANGES_ROWS = re.compile(r"^(UPDATE|INSERT|DELETE|WITH)\b")


# ---------------------------------------------------------------- the rules


def refused(operation: Operation, app: str, state: ProjectState, served: set[Model]) -> str:
    """Return why the last release cannot serve while the operation runs; "" if it can."""
    if isinstance(operation, ALWAYS_SAFE):
        return ""
    if isinstance(operation, operations.RunSQL):
        tables = {state.models[each].options.get("db_table") or "_".join(each) for each in served}
        return "; ".join(refused_statements(statements(operation.sql), tables))
    name = getattr(operation, "model_name", None) or getattr(operation, "name", None)
    if name is None:
        return f"{type(operation).__name__} has no rule here"
    if (app, name.lower()) not in served:
        return ""
    if isinstance(operation, operations.AddField):
        return refused_column(operation.field)
    if isinstance(operation, operations.AlterField):
        before = state.models[app, name.lower()].get_field(operation.name)
        return refused_change(before, operation.field)
    if isinstance(operation, operations.RenameField):
        field = state.models[app, name.lower()].get_field(operation.old_name)
        return "" if field.db_column else "the last release reads and writes the old column"
    if isinstance(operation, operations.AddIndex):
        return "writers wait while the index is built: use AddIndexConcurrently"
    return f"{type(operation).__name__} changes what the last release reads or writes"


def refused_column(field: Field) -> str:
    if field.many_to_many or field.null or field.has_db_default():
        return ""
    return "the last release inserts rows without the column: add null=True or a db_default"


def refused_change(before: Field, after: Field) -> str:
    if before.null and not after.null:
        return "the last release still writes NULL"
    if before.has_db_default() and not after.has_db_default():
        return "the last release inserts rows without the column"
    if after.unique and not before.unique:
        return "the last release still writes duplicates"
    if after.db_index and not before.db_index:
        return "writers wait while the index is built: use AddIndexConcurrently"
    if getattr(after, "db_constraint", False) and not getattr(before, "db_constraint", False):
        return "the last release still writes references to rows that do not exist"
    lengths = [getattr(field, "max_length", None) for field in (before, after)]
    shorter = lengths[1] is not None and (lengths[0] is None or lengths[1] < lengths[0])
    if shorter or column(before) != column(after):
        return "the column gets another type"
    return ""


def column(field: Field) -> tuple[str, Sequence[Any], dict[str, Any]]:
    _, path, args, kwargs = field.deconstruct()
    return path, args, {k: v for k, v in kwargs.items() if k not in NOT_IN_THE_COLUMN}


def statements(sql: Any) -> list[str]:
    """Return the statements, in one line each, with the bodies of functions left out."""
    parts = [sql] if isinstance(sql, str) else [p if isinstance(p, str) else p[0] for p in sql]
    text = COMMENT.sub(" ", BODY.sub("''", ";".join(parts)))
    return [" ".join(each.split()) for each in text.split(";") if each.strip()]


def refused_statements(lines: list[str], tables: set[str]) -> Iterator[str]:
    created = {match.groups() for line in lines if (match := CREATED.match(line))}
    for line in lines:
        if (dropped := DROPPED.match(line)) and dropped.groups() not in created:
            yield f"“{line}” takes away what the last release relies on: replace it"
        if (index := INDEX.match(line)) and index[1] in tables:
            yield f"“{line}”: writers wait while the index is built"
        if (table := TABLE.match(line)) and table[1] in tables and TIGHTENED.search(line):
            yield f"“{line}” changes what the last release reads or writes"


def backfills_under_a_lock(migration: migrations.Migration, served: set[Model]) -> bool:
    """Whether an atomic migration changes rows while it keeps a table of the release locked."""
    if not migration.atomic:
        return False
    changes_rows = any(
        isinstance(each, operations.RunPython)
        or (
            isinstance(each, operations.RunSQL)
            and any(CHANGES_ROWS.match(line) for line in statements(each.sql))
        )
        for each in migration.operations
    )
    columns = (operations.AddField, operations.AlterField, operations.AddConstraint)
    return changes_rows and any(
        isinstance(each, columns) and (migration.app_label, each.model_name.lower()) in served
        for each in migration.operations
    )


def problems(migration: migrations.Migration, state: ProjectState, served: set[Model]) -> list[str]:
    """Return what the migration breaks, and apply it to `state`."""
    found = []
    if backfills_under_a_lock(migration, served):
        found.append("it changes rows while it locks their table: fill them in a later migration")
    replaced = {
        (each.model_name, each.trigger.name)
        for each in migration.operations
        if isinstance(each, AddTrigger)
    }
    for operation in migration.operations:
        if isinstance(operation, RemoveTrigger):
            if (operation.model_name, operation.name) not in replaced:
                found.append(f"the last release relies on the guard {operation.name}: replace it")
            operation.state_forwards(migration.app_label, state)
            continue
        parts = [operation]
        if isinstance(operation, operations.SeparateDatabaseAndState):
            parts = operation.database_operations
        found += [
            why for part in parts if (why := refused(part, migration.app_label, state, served))
        ]
        operation.state_forwards(migration.app_label, state)
    return [f"{migration}: {why}" for why in found]


# ---------------------------------------------------------------- the product's migrations


def at_the_release(loader: MigrationLoader) -> tuple[ProjectState, set[Model]]:
    state = loader.project_state(list(RELEASED.items()))
    return state, set(state.models)


def test_the_last_release_serves_while_later_migrations_run() -> None:
    loader = MigrationLoader(None)
    released = {each for head in RELEASED.items() for each in loader.graph.forwards_plan(head)}
    plan = [node for leaf in loader.graph.leaf_nodes() for node in loader.graph.forwards_plan(leaf)]
    later = [node for node in dict.fromkeys(plan) if node not in released]
    state, served = at_the_release(loader)
    found: dict[str, list[str]] = {}
    for node in later:
        migration = loader.graph.nodes[node]
        found[str(migration)] = problems(migration, state, served)
    ours = {name: each for name, each in found.items() if name.split(".")[0] in RELEASED}
    assert [why for name, each in ours.items() if name not in REVIEWED for why in each] == []
    # An entry that no longer applies is removed.
    assert [name for name in REVIEWED if not ours.get(name)] == []


# ---------------------------------------------------------------- the rules refuse and allow


def verdict(*wanted: Operation, atomic: bool = True) -> list[str]:
    """Return the problems of a migration with these operations, right after the release."""
    migration = migrations.Migration("0002_invented", "workflows")
    migration.operations, migration.atomic = list(wanted), atomic
    return problems(migration, *at_the_release(MigrationLoader(None)))


def text(**more: Any) -> Field:
    return models.CharField(**{"max_length": 40, "default": "", **more})


def nothing(apps: Any, schema_editor: Any) -> None:
    pass


@pytest.mark.parametrize(
    "operation",
    [
        operations.AddField("hold", "colour", text()),
        operations.RemoveField("hold", "why"),
        operations.RenameField("hold", "why", "reason_text"),
        operations.AlterField("hold", "target", models.CharField(max_length=10)),
        operations.AlterField("hold", "target", models.IntegerField()),
        operations.AlterField("hold", "expires_at", models.DateTimeField()),
        operations.AlterField("hold", "target", text(max_length=200, unique=True)),
        operations.AlterField("hold", "target", text(max_length=200, db_index=True)),
        operations.DeleteModel("Hold"),
        operations.RenameModel("Hold", "Pause"),
        operations.AlterModelTable("hold", "pauses"),
        operations.AddIndex("hold", models.Index(fields=["target"], name="hold_by_target")),
        operations.AddConstraint(
            "hold", models.CheckConstraint(condition=models.Q(layer__gte=0), name="hold_layer")
        ),
        RemoveTrigger("executionevent", "append_only"),
        operations.RunSQL("DROP FUNCTION holdpoint_erase(bigint, bigint[])"),
        operations.RunSQL("ALTER TABLE workflows_hold ALTER COLUMN target SET NOT NULL"),
        operations.RunSQL("ALTER TABLE workflows_hold DROP COLUMN target"),
        operations.RunSQL("ALTER TABLE workflows_hold ADD COLUMN colour text NOT NULL"),
        operations.RunSQL("ALTER TABLE workflows_hold DISABLE TRIGGER ALL"),
        operations.RunSQL("CREATE INDEX hold_by_target ON workflows_hold (target)"),
        operations.RunSQL("TRUNCATE workflows_checkpoint"),
        operations.SeparateDatabaseAndState([operations.RemoveField("hold", "why")]),
    ],
    ids=lambda operation: operation.describe()[:40],
)
def test_a_migration_that_the_last_release_cannot_bear_is_refused(operation: Operation) -> None:
    (problem,) = verdict(operation)
    assert problem.startswith("workflows.0002_invented: ")


def test_rows_are_filled_apart_from_the_change_of_their_table() -> None:
    add = operations.AddField("hold", "colour", text(db_default=""))
    fill = operations.RunSQL("UPDATE workflows_hold SET colour = 'red'")
    assert len(verdict(add, fill)) == 1
    assert len(verdict(add, operations.RunPython(nothing))) == 1
    assert verdict(add, fill, atomic=False) == []
    assert verdict(fill) == []


@pytest.mark.parametrize(
    "wanted",
    [
        [operations.AddField("hold", "colour", text(db_default=""))],
        [operations.AddField("hold", "colour", models.DateTimeField(null=True))],
        [operations.AlterField("hold", "target", models.CharField(null=True, max_length=900))],
        [
            operations.CreateModel("Note", [("id", models.BigAutoField(primary_key=True))]),
            operations.AddField("note", "words", text()),
            operations.AddIndex("note", models.Index(fields=["words"], name="note_words")),
            operations.RunSQL("CREATE INDEX note_again ON workflows_note (words)"),
        ],
        [AddIndexConcurrently("hold", models.Index(fields=["target"], name="hold_by_target"))],
        [
            RemoveTrigger("executionevent", "append_only"),
            AddTrigger("executionevent", AppendOnly().compile(ExecutionEvent)),
        ],
        [
            operations.RunSQL(
                "CREATE OR REPLACE FUNCTION holdpoint_erase(policy bigint) RETURNS bigint"
                " LANGUAGE plpgsql AS $$ BEGIN DROP TABLE workflows_hold; END $$"
            )
        ],
    ],
    ids=["default", "null", "wider", "new table", "concurrently", "replaced", "body"],
)
def test_a_migration_that_the_last_release_can_bear_is_allowed(wanted: list[Operation]) -> None:
    assert verdict(*wanted) == []
