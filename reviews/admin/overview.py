"""The admin's first page: counts that need somebody, and the oldest reviews."""

from __future__ import annotations

from typing import Any

import redis
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from reviews.components import labels
from reviews.components.number_formatting import at_least, count_up_to
from reviews.components.views import current_user
from reviews.queue import selectors
from workflows.engine.protocol.status import ExecutionStatus
from workflows.executions import dispatch
from workflows.executions.access import visible_to
from workflows.metrics import process_liveness

from .holds import NOTHING, RiskFilter

_MAX_REVIEWS = 10


def overview_context(request: HttpRequest) -> dict[str, Any]:
    """Return `cards` and `oldest` (None without the permission to view reviews)."""
    user = current_user(request)
    may_view = user.has_perm("workflows.view_hold")
    cards: list[dict[str, Any]] = []
    if may_view:
        cards += _review_cards(user)
    if user.has_perm("workflows.view_execution"):
        cards.append(_failed(user))
    if user.has_perm("workflows.view_commandlog"):
        cards += _process_cards(user)
    return {"cards": cards, "oldest": _oldest(user) if may_view else None}


def _card(label: str, count: str, url: str) -> dict[str, Any]:
    return {"label": label, "count": count, "url": url}


def _review_cards(user: Any) -> list[dict[str, Any]]:
    rows = selectors.pending(user)
    url = reverse("admin:workflows_hold_changelist")
    overdue = rows.filter(expires_at__lte=timezone.now())
    return [
        _card(_("Waiting reviews"), at_least(count_up_to(rows)), url),
        _card(_("Overdue reviews"), at_least(count_up_to(overdue)), f"{url}?due=overdue"),
        _card(
            _("Escalated reviews"),
            at_least(count_up_to(rows.filter(escalated__gt=0))),
            f"{url}?escalated=yes",
        ),
    ]


def _failed(user: Any) -> dict[str, Any]:
    status = ExecutionStatus.FAILED.value
    rows = visible_to(user).filter(status=status)
    url = reverse("admin:workflows_execution_changelist")
    return _card(_("Failed runs"), at_least(count_up_to(rows)), f"{url}?status__exact={status}")


def _process_cards(user: Any) -> list[dict[str, Any]]:
    """Return live workers and waiting jobs; a dash while Redis is unavailable."""
    try:
        workers = str(process_liveness.total_count("workers", fresh_seconds=30))
        jobs = str(sum(dispatch.queue_length(name) for name in settings.RQ_QUEUES))
    except (redis.RedisError, OSError):
        workers = jobs = NOTHING
    url = reverse("admin:section", args=("system",))
    if user.has_perm("django_rq.admin"):
        url = reverse("admin:django_rq_dashboard_changelist")
    return [_card(_("Workers"), workers, url), _card(_("Jobs in queues"), jobs, url)]


def _oldest(user: Any) -> list[dict[str, Any]]:
    rows = selectors.pending(user).order_by("opened_at", "id")[:_MAX_REVIEWS]
    return [
        {
            "title": labels.row_sentence(hold),
            "url": reverse("admin:workflows_hold_change", args=(hold.pk,)),
            "run": labels.run_title(hold.execution.title, hold.execution_id),
            "risk": _(RiskFilter.labels[labels.risk(hold)[0]]),
            "since": hold.opened_at,
            "due": hold.expires_at,
        }
        for hold in rows
    ]
