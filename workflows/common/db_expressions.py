"""Conditions that Django has no words for."""

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
    """``AnyOf("pk", ids)`` in a filter: as ``pk__in=ids``, with one parameter for all of them.

    Of a thousand values ``__in`` makes a thousand parameters, which takes longer than the query.
    A queryset of one column is asked first, by itself, and never turned into a join: for one that
    is known to give few rows.
    """

    prepare_rhs = False

    def __init__(self, field: str, values: Iterable[Any] | QuerySet[Any, Any]) -> None:
        array = ArraySubquery(values) if isinstance(values, QuerySet) else list(values)
        super().__init__(F(field), array)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        """``column = ANY(array)``; of no values the query is not asked at all."""
        column, parameters = self.process_lhs(compiler, connection)
        if isinstance(self.rhs, list):
            if not self.rhs:
                raise EmptyResultSet
            return f"{column} = ANY(%s)", (*parameters, self.rhs)
        array, more = compiler.compile(self.rhs)
        return f"{column} = ANY({array})", (*parameters, *more)
