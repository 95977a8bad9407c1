"""Revisions: how a worker notices that what it keeps in memory is out of date."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID, uuid4

from django.db import connection, transaction

from graphrag.models import Revision

Kept = Literal["catalogue", "graph"]


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


def number(name: Kept) -> int:
    """How often it has changed; 0 before the first change."""
    return Revision.objects.filter(name=name).values_list("number", flat=True).first() or 0


@dataclass(frozen=True, slots=True)
class Change:
    """A new revision: its number, and the token of the one before it (None for the first)."""

    number: int
    before: UUID | None


def bump(name: Kept) -> Change:
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
