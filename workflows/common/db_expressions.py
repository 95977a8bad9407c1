"""Database expressions that Django does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import EmptyResultSet
from django.db.models import F, Lookup, QuerySet

if TYPE_CHECKING:
    _Lookup = Lookup[Any]
else:
    _Lookup = Lookup


class AnyOf(_Lookup):
    """``AnyOf("pk", ids)`` filters like ``pk__in=ids``, with a single array parameter.

    For a thousand values ``__in`` creates a thousand parameters, which takes longer than the query.
    A queryset of one column becomes an array subquery: PostgreSQL evaluates it once and never turns
    it into a join. Use it for querysets with few rows.
    """

    prepare_rhs = False

    def __init__(self, field: str, values: Iterable[Any] | QuerySet[Any, Any]) -> None:
        array = ArraySubquery(values) if isinstance(values, QuerySet) else list(values)
        super().__init__(F(field), array)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        """Return ``column = ANY(array)``; raise EmptyResultSet for an empty list."""
        column, parameters = self.process_lhs(compiler, connection)
        if isinstance(self.rhs, list):
            if not self.rhs:
                raise EmptyResultSet
            return f"{column} = ANY(%s)", (*parameters, self.rhs)
        array, more = compiler.compile(self.rhs)
        return f"{column} = ANY({array})", (*parameters, *more)
