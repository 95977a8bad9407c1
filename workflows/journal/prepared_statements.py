"""Handwritten SQL as prepared statements: PostgreSQL plans each one once per connection."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, NotSupportedError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model, QuerySet

M = TypeVar("M", bound=Model)

Row = tuple[Any, ...]
Parameters = Mapping[str, Any] | Sequence[Any]

#: psycopg prepares a statement automatically after this many executions.  With the highest value,
#: only statements with `prepare=True` are prepared.
_NEVER_AUTOMATICALLY = 2**31
#: Prepared statements per connection; psycopg drops the least recently used ones.  A plan takes up
#: to 0.3 MB.
_MAX_PREPARED = 50


def execute(statement: str, parameters: Parameters | None = None) -> list[Row]:
    """Run a statement with server-side parameters and return its rows.

    It is prepared, unless HOLDPOINT_DB_TRANSACTION_POOLING is on. A statement without a result
    returns an empty list.
    """
    database = _open_connection()
    with database.wrap_database_errors, psycopg.Cursor(database.connection) as cursor:
        cursor.execute(statement, parameters, prepare=True)
        # `description` would tell too whether there is a result, but describes each column.
        return [] if cursor.rownumber is None else cursor.fetchall()


def query(statement: str, parameters: Parameters | None = None) -> list[Row]:
    """Run a statement that replaces a queryset.

    It appears in Django's query log, and is prepared again if a migration has changed the type of
    its result; in a transaction, after it has failed with NotSupportedError.
    """
    database = connections[DEFAULT_DB_ALIAS]
    begun = time.monotonic()
    try:
        rows = execute(statement, parameters)
    except NotSupportedError:
        # "cached plan must not change result type": a new connection has no cached plans.
        if database.in_atomic_block:
            database.connection.close()  # the next transaction opens a new one
            raise
        _close_connection(database)
        rows = execute(statement, parameters)
    if database.queries_logged:
        text = _with_values(statement, parameters) if parameters else statement
        database.queries_log.append({"sql": text, "time": f"{time.monotonic() - begun:.3f}"})
    return rows


@dataclass(frozen=True, slots=True)
class BuiltQuery:
    """The SQL of a queryset of `values_list`, for reads that every request or decision makes.

    Django takes longer to build it than PostgreSQL to execute it.  The queryset has placeholders as
    parameters: values that no row has, such as -1, and lists of them for `AnyOf`.
    """

    sql: str
    parameters: tuple[Any, ...]

    @classmethod
    def of(cls, rows: QuerySet[Any, Any]) -> BuiltQuery:
        return cls(*rows.query.sql_with_params())

    def with_constants(self, places: Collection[Hashable]) -> BuiltQuery:
        """Return the query with every parameter that is not one of `places` as a constant.

        The plan that PostgreSQL makes once for all values reads a partial index only then.
        """
        text, *texts = self.sql.split("%s")
        parts = [text]
        parameters: list[Any] = []
        for parameter, text in zip(self.parameters, texts, strict=True):
            if _place(parameter) in places:
                parameters.append(parameter)
                parts += ("%s", text)
            else:
                parts += (_with_values("%s", [parameter]).replace("%", "%%"), text)
        return BuiltQuery("".join(parts), tuple(parameters))

    def rows(self, values: Mapping[Hashable, Any]) -> list[Row]:
        """Return the rows with `values` in place of the placeholders; a tuple stands for a list."""
        return query(self.sql, [_value(each, values) for each in self.parameters])


def _value(parameter: Any, values: Mapping[Hashable, Any]) -> Any:
    return values.get(_place(parameter), parameter)


def _place(parameter: Any) -> Hashable:
    """Return the key of a parameter in `values`; None for a value that is no placeholder."""
    if isinstance(parameter, list):
        return tuple(parameter)
    return parameter if isinstance(parameter, str | int) else None


def column_names(model: type[Model], *, without: Sequence[str] = ()) -> list[str]:
    """Return the names of a model's columns as `instance_of` takes them."""
    names = (field.attname for field in model._meta.concrete_fields)
    return [name for name in names if name not in without]


def instance_of(model: type[M], columns: Sequence[str], values: Sequence[Any]) -> M:
    """Return an instance from values of a `BuiltQuery`; columns that were not read are deferred."""
    database = connections[DEFAULT_DB_ALIAS]
    fields = {field.attname: field for field in model._meta.concrete_fields}
    converters = (getattr(fields[name], "from_db_value", None) for name in columns)
    converted = [
        value if convert is None else convert(value, None, database)
        for convert, value in zip(converters, values, strict=True)
    ]
    return model.from_db(DEFAULT_DB_ALIAS, columns, converted)


def insert(row: Model) -> None:
    """Insert a row whose key the database chooses, and set the key.

    Like `row.save(force_insert=True)`, without signals and without building the SQL each time.
    """
    database = connections[DEFAULT_DB_ALIAS]
    values = [
        field.get_db_prep_save(getattr(row, field.attname), database)
        for field in _inserted_fields(type(row))
    ]
    [(row.pk,)] = query(_insert_statement(type(row)), values)
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def _inserted_fields(model: type[Model]) -> list[Field[Any, Any]]:
    return [field for field in model._meta.concrete_fields if not field.primary_key]


# One per model, never invalidated: the SQL depends only on the model.
@cache
def _insert_statement(model: type[Model]) -> str:
    columns = ", ".join(str(field.column) for field in _inserted_fields(model))
    values = ", ".join("%s" for _ in _inserted_fields(model))
    table, key = model._meta.db_table, model._meta.pk.column
    # The text has names of the model only, no values.
    return f"INSERT INTO {table} ({columns}) VALUES ({values}) RETURNING {key}"  # noqa: S608


def _with_values(statement: str, parameters: Parameters) -> str:
    """Return the statement's text with its parameters quoted and inserted."""
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    return psycopg.ClientCursor(database.connection).mogrify(statement, parameters)


def _close_connection(database: BaseDatabaseWrapper) -> None:
    """Close the connection; a psycopg connection closed first does not return to the pool."""
    database.connection.close()
    database.close()


def _open_connection() -> BaseDatabaseWrapper:
    """Return Django's connection, open and with prepared statements enabled.

    Behind a pooler in transaction mode they stay disabled: the next statement may run in another
    session of PostgreSQL, which does not know them.
    """
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    if database.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        return database
    # Django disables prepared statements for its own queries (`prepare_threshold=None`).
    database.connection.prepare_threshold = _NEVER_AUTOMATICALLY
    database.connection.prepared_max = _MAX_PREPARED
    return database
