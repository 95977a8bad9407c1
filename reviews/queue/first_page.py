"""The first page of the queue as one statement that PostgreSQL and this process keep.

Programs ask for it again and again.  To put its statement together takes Django, and to plan it
takes PostgreSQL, several times as long as to answer it; both depend on who asks, not on what waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.core.exceptions import EmptyResultSet

from workflows.executions import access
from workflows.journal.statements import ask, with_values

from .filters import QueueFilters
from .selectors import ADDRESSED, Viewer, light_rows, queue

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Rows of the page that is asked for when no size is named, and one that says whether more follow.
FIRST = 51


@dataclass(frozen=True)
class Listing:
    """A tab of the queue as light rows; a page of REST orders, narrows and cuts it as a queryset.

    The kept statement serves whoever names no size and narrows nothing, neither by `filters` nor by
    a cursor.
    """

    viewer: Viewer
    tab: str
    filters: QueueFilters
    _order: tuple[str, ...] = ()
    _after: tuple[tuple[str, Any], ...] = ()

    def order_by(self, *names: str) -> Listing:
        return Listing(self.viewer, self.tab, self.filters, names, self._after)

    def filter(self, **conditions: Any) -> Listing:
        after = (*self._after, *conditions.items())
        return Listing(self.viewer, self.tab, self.filters, self._order, after)

    def __getitem__(self, span: slice) -> Sequence[dict[str, Any]]:
        if self._after or self.filters.narrows or span.start or span.stop != FIRST:
            rows = light_rows(queue(self.viewer, self.tab, self.filters))
            return list(rows.filter(**dict(self._after)).order_by(*self._order)[span])
        statement, names = _kept(_Look.of(self.viewer.user, self.tab, self._order))
        found = ask(statement) if statement else ()
        return [dict(zip(names, row, strict=True)) for row in found]


@dataclass(frozen=True, slots=True)
class _Look:
    """All that the statement depends on.  `viewer` is who looked so first, and puts it together."""

    tab: str
    order: tuple[str, ...]
    user: int
    name: str
    active: bool
    groups: frozenset[str]
    deciding: tuple[str, ...]
    only: frozenset[int] | None
    few: bool
    viewer: Viewer = field(compare=False, repr=False)

    @classmethod
    def of(cls, person: User, tab: str, order: tuple[str, ...]) -> _Look:
        # Their groups are read once: what is put together has the rights that it is kept under.
        user = access.knowing_groups(copy(person))
        viewer = Viewer(user)
        return cls(
            tab,
            order,
            user.pk,
            viewer.name,
            user.is_active,
            access.roles_of(user),
            tuple(viewer.deciding),
            access.limit_of(user),
            tab in ADDRESSED and viewer.has_few,
            viewer,
        )


@lru_cache(maxsize=100)
def _kept(look: _Look) -> tuple[str, tuple[str, ...]]:
    """The statement with its values in it, so that it is planned for them; and names of columns.

    "" when nothing can be there, as for somebody who is in no group.
    """
    rows = light_rows(queue(look.viewer, look.tab)).order_by(*look.order)[:FIRST]
    try:
        sql, parameters = rows.query.sql_with_params()
    except EmptyResultSet:
        return "", ()
    names = rows.query.selected or ()
    return with_values(sql, parameters), tuple(names)
