"""Guards: triggers in `Meta.triggers` that refuse changes of rows, whoever makes them.

django-pgtrigger installs them with the migrations.  Its functions return early if the setting
`pgtrigger.ignore` of the session names their trigger, and every role may set that.  The functions
of a guard do not, and they look up names in the schema `public` before temporary tables.
"""

from __future__ import annotations

from typing import Any

import pgtrigger
from pgtrigger import compiler

#: Whether the statement runs with the rights of the owner of the table, as `holdpoint_erase` does.
IS_OWNER = """pg_has_role(
    current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')"""
#: Whether retention erases the run of the row.
RUN_IS_ERASED = """EXISTS (
    SELECT FROM workflows_execution WHERE id = OLD.execution_id AND erased_at IS NOT NULL)"""


class GuardSql(compiler.UpsertTriggerSql):
    """The SQL of a guard; migrations refer to it, so it changes only by a new class."""

    def get_template(self) -> str:
        return """
            CREATE OR REPLACE FUNCTION {pgid}()
            RETURNS TRIGGER AS $$
                {declare}
                BEGIN
                    {func}
                END;
            $$ LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp;

            DROP TRIGGER IF EXISTS {pgid} ON {table};
            CREATE {constraint} TRIGGER {pgid}
                {when} {operation} ON {table}
                {timing}
                {referencing}
                FOR EACH {level} {condition}
                EXECUTE PROCEDURE {execute};

            COMMENT ON TRIGGER {pgid} ON {table} IS '{hash}';
        """


class Guard(pgtrigger.Trigger):
    """A trigger before a change, with a function that cannot be switched off."""

    when = pgtrigger.Before

    def compile(self, model: Any) -> compiler.Trigger:
        """Return the trigger with the SQL of a guard."""
        compiled = super().compile(model)
        options = {k: v for k, v in compiled.sql.kwargs.items() if k != "ignore_func_name"}
        return compiler.Trigger(name=compiled.name, sql=GuardSql(**options))


class Refuse(Guard):
    """Refuses changes that meet the condition.

    Args:
        message: what the database answers, after the operation and the table.
        unless: SQL condition under which the change is allowed all the same; unlike `condition`,
            it may read tables.
        error: name of the SQLSTATE.
    """

    message = ""
    unless = ""
    error = "insufficient_privilege"

    def __init__(
        self, *, message: str = "", unless: str = "", error: str = "", **options: Any
    ) -> None:
        self.message = message or self.message
        self.unless = unless or self.unless
        self.error = error or self.error
        super().__init__(**options)

    def get_func(self, model: Any) -> str:
        """Return the body of the function."""
        refuse = f"""
            RAISE EXCEPTION '% of % refused: {self.message}', TG_OP, TG_TABLE_NAME
                USING ERRCODE = '{self.error}';
        """
        allow = f"""
            IF {self.unless} THEN
                RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
            END IF;
        """
        return self.format_sql(allow + refuse if self.unless else refuse)


class AppendOnly(Refuse):
    """Rows are added, never changed or deleted; the product's role has no right to either."""

    name = "append_only"
    operation = pgtrigger.Update | pgtrigger.Delete
    message = "the table is append-only"


class AppendOnlyUntilErased(AppendOnly):
    """Like AppendOnly, for rows that are deleted with the data of their run."""

    unless = f"TG_OP = 'DELETE' AND {RUN_IS_ERASED}"


class NoTruncate(Refuse):
    """The table is never emptied."""

    name = "no_truncate"
    level = pgtrigger.Statement
    operation = pgtrigger.Truncate
    message = "the table is append-only"


class ReadOnly(Refuse, pgtrigger.ReadOnly):
    """The fields, or all but the excluded ones, keep their first value."""

    name = "read_only"
    message = "some columns never change"


class Transitions(Guard, pgtrigger.FSM):
    """The field changes along the given pairs only."""
