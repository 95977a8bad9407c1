"""Caches in the memory of a worker that are dropped when a revision in the database changes."""

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
class CacheVersion:
    """A revision as read from the database; a cached value is valid for exactly one token."""

    number: int
    token: UUID


def current_versions() -> dict[str, CacheVersion]:
    """Return the versions of ``catalogue`` and ``graph``; a name that never changed is absent.

    Plain SQL, because every plan, search and prediction runs this query first.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, number, token FROM graphrag_revision")
        return {name: CacheVersion(number, token) for name, number, token in cursor.fetchall()}


class VersionedCache(Generic[T]):
    """One value in memory, rebuilt when its revision has changed.

    Key: the revision's token. Bound: one value. Invalidation: ``bump`` stores a new token.
    """

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._value: tuple[UUID, T] | None = None

    def at(self, version: CacheVersion | None) -> T:
        """Return the value for a version just read; None builds it without caching."""
        if version is None:
            return self._build()
        with self._lock:
            if self._value is None or self._value[0] != version.token:
                self._value = (version.token, self._build())
            return self._value[1]


@dataclass(frozen=True, slots=True)
class Change:
    """New revisions: the first number, and the token before it (None if there was none)."""

    number: int
    previous_token: UUID | None


def bump(name: Name, count: int = 1) -> Change:
    """Store `count` new revisions; call this inside the transaction that makes the changes.

    The row stays locked until that transaction ends, so numbers become visible in order.
    """
    with transaction.atomic():
        Revision.objects.get_or_create(name=name, defaults={"token": uuid4()})
        row = Revision.objects.select_for_update().get(name=name)
        change = Change(row.number + 1, row.token if row.number else None)
        row.number, row.token = row.number + count, uuid4()
        row.save()
    return change
