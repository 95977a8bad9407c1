"""A run that belongs to somebody else than the person who started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflows.models import Audience, Execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def change_starter(execution: Execution, person: User) -> None:
    """Make the person the starter of the run, as if they had started it."""
    Execution.objects.filter(pk=execution.pk).update(created_by=person)
    rows = Audience.objects.filter(execution=execution)
    rows.filter(member__startswith="user:").delete()
    rows.create(execution=execution, member=f"user:{person.pk}")
