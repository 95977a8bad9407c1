"""Reviews that rules spared: reading them back from the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import QuerySet

from workflows.executions.access import visible_to
from workflows.models import ExecutionEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import User

KIND = "review_spared"


def spared(user: User) -> QuerySet[ExecutionEvent]:
    """The spared reviews of executions the user may see, newest first."""
    rows = ExecutionEvent.objects.filter(kind=KIND, execution__in=visible_to(user))
    return rows.select_related("execution").order_by("-id")
