"""Reviews that a rule spared, a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from reviews import conf, selectors
from reviews.spared import spared
from workflows.models import ExecutionEvent

from . import words

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_LONGEST = 200


def spared_context(user: User, *, cursor: str, workflow: str, rule: str) -> dict[str, Any]:
    """rows: sentence, subject, why, at, url; raises selectors.BadCursor."""
    rows = spared(user)
    asked = {
        name: value.replace("\0", "")[:_LONGEST]
        for name, value in (("workflow", workflow), ("rule", rule))
        if value
    }
    if "workflow" in asked:
        rows = rows.filter(execution__title=asked["workflow"])
    if "rule" in asked:
        rows = rows.filter(payload__rule=asked["rule"])
    page = selectors.page(rows, cursor=cursor, size=conf.page_size())
    address = reverse("reviews:spared")
    return {
        "asked": asked,
        "rows": tuple(_row(event) for event in page.rows),
        "next_url": f"{address}?{urlencode({**asked, 'cursor': page.next})}" if page.next else "",
        "previous_url": f"{address}?{urlencode(asked)}".rstrip("?") if cursor else "",
        "page_words": "",
    }


def _row(event: ExecutionEvent) -> dict[str, Any]:
    task = str(event.payload["task_id"])
    title = words.run_title(event.execution.title, event.execution_id)
    when = words.phase_words(event.payload.get("phase") or "", past=True)
    run = reverse("reviews:run", args=(event.execution_id,))
    return {
        "sentence": _("%(task)s in %(run)s was not reviewed %(when)s")
        % {"task": task, "run": title, "when": when},
        "subject": task,
        "why": event.payload["why"],
        "at": event.created_at,
        "url": f"{run}#event-{event.seq}",
    }
