"""Revisions: how a worker notices that what it keeps in memory is out of date."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar
from uuid import UUID, uuid4

from django.db import connection, transaction

from graphrag.models import Revision

Name = Literal["catalogue", "graph"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen:
    """A revision as it was when it was looked at: what is kept in memory for it bears its token."""

    number: int
    token: UUID


def present() -> dict[str, Seen]:
    """``catalogue`` and ``graph`` as they are now; what never changed is left out.

    Written by hand: every plan, search and prediction asks it first.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, number, token FROM graphrag_revision")
        return {name: Seen(number, token) for name, number, token in cursor.fetchall()}


class Kept(Generic[T]):
    """One value in memory, made anew once its revision has changed."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._value: tuple[UUID, T] | None = None

    def at(self, seen: Seen | None) -> T:
        """The value for a revision just looked at; kept by nobody before the first change."""
        if seen is None:
            return self._make()
        with self._lock:
            if self._value is None or self._value[0] != seen.token:
                self._value = (seen.token, self._make())
            return self._value[1]


def number(name: Name) -> int:
    """How often it has changed; 0 before the first change."""
    return Revision.objects.filter(name=name).values_list("number", flat=True).first() or 0


@dataclass(frozen=True, slots=True)
class Change:
    """A new revision: its number, and the token of the one before it (None for the first)."""

    number: int
    before: UUID | None


def bump(name: Name) -> Change:
    """Record a change; call it inside the transaction that makes the change.

    The row stays locked until that transaction ends, so numbers are seen in order.
    """
    with transaction.atomic():
        Revision.objects.get_or_create(name=name, defaults={"token": uuid4()})
        row = Revision.objects.select_for_update().get(name=name)
        change = Change(row.number + 1, row.token if row.number else None)
        row.number, row.token = change.number, uuid4()
        row.save()
    return change
