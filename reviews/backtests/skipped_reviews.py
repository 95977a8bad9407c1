"""Reviews that a rule skipped, read from the journal, and the page that lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from reviews.audit.audit_lists import AuditListText, Entry, audit_list_context
from reviews.components import labels as components_labels
from reviews.components.reasons import render_stored
from workflows.executions.access import visible_to
from workflows.models import ExecutionEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import User


KIND = "review_spared"


def skipped_reviews(user: User) -> QuerySet[ExecutionEvent]:
    """Return the skipped reviews of executions visible to the user, newest first."""
    rows = ExecutionEvent.objects.filter(kind=KIND, execution__in=visible_to(user))
    return rows.select_related("execution").order_by("-id")


# --- page -----------------------------------------------------------------------------------------


_MAX_LENGTH = 200


def skipped_reviews_context(user: User, *, cursor: str, workflow: str, rule: str) -> dict[str, Any]:
    """Return the context of the list of skipped reviews; raises keyset.BadCursor."""
    rows = skipped_reviews(user)
    filters = {
        name: value.replace("\0", "")[:_MAX_LENGTH]
        for name, value in (("workflow", workflow), ("rule", rule))
        if value
    }
    if "workflow" in filters:
        rows = rows.filter(execution__title=filters["workflow"])
    if "rule" in filters:
        rows = rows.filter(payload__rule=filters["rule"])
    names = {"workflow": _("Workflow"), "rule": _("Rule")}
    return audit_list_context(
        _list_text(),
        rows,
        _entry,
        address=reverse("reviews:spared"),
        cursor=cursor,
        filters=filters,
        chips=((names[name], value) for name, value in filters.items()),
    )


def _list_text() -> AuditListText:
    return AuditListText(
        heading=_("Skipped reviews"),
        lead=_(
            "Reviews that a rule or a standing answer skipped. Each entry says why. These"
            " entries are kept permanently."
        ),
        nothing=_("No skipped reviews"),
        nothing_more=_(
            "When a rule skips a review, it is listed here with the rule, its version and"
            " the reason."
        ),
    )


def _entry(event: ExecutionEvent) -> Entry:
    task = str(event.payload["task_id"])
    title = components_labels.run_title(event.execution.title, event.execution_id)
    when = components_labels.phase_text(event.payload.get("phase") or "", past=True)
    run = reverse("reviews:run", args=(event.execution_id,))
    params = {"task": task, "run": title, "when": when}
    return Entry(
        sentence=_("%(task)s in %(run)s was not reviewed %(when)s") % params,
        subject=task,
        quote=render_stored(event.payload, "why"),
        at=event.created_at,
        url=f"{run}#event-{event.seq}",
    )
