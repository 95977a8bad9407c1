"""The queue: tabs, rows, and the words for an empty one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from reviews import conf, selectors
from workflows.access import may_start
from workflows.models import Hold, Workflow

from . import words

_LABELS = {
    "me": "Needs me",
    "groups": "My groups",
    "claimed": "Claimed by me",
    "open": "All open",
    "decided": "Decided",
}


def queue_context(viewer: selectors.Viewer, *, tab: str, q: str, cursor: str) -> dict[str, Any]:
    """The context of the queue without the open review; raises selectors.BadCursor."""
    tab = tab if tab in selectors.TABS else "me"
    counts = selectors.tab_counts(viewer)
    time = "decided_at" if tab == "decided" else "opened_at"
    rows = selectors.queue(viewer, tab, q)
    page = selectors.page(rows, cursor=cursor, size=conf.page_size(), time=time)
    return {
        "tab": tab,
        "tab_label": _LABELS[tab],
        "tabs": tuple(
            {"key": key, "label": label, "count": counts.get(key), "url": queue_url(tab=key)}
            for key, label in _LABELS.items()
        ),
        "rows": tuple(_row(hold, viewer) for hold in page.rows),
        "q": q,
        "next_url": queue_url(tab=tab, q=q, cursor=page.next) if page.next else "",
        "clear_url": queue_url(tab=tab),
        "demo_url": demo_url(viewer),
        "group_words": words.group_words(viewer.deciding),
        "waiting_count": counts["me"],
    }


def queue_url(**query: str) -> str:
    """The queue's address with what of `query` says something."""
    kept = {name: value for name, value in query.items() if value}
    return f"{reverse('reviews:queue')}?{urlencode(kept)}" if kept else reverse("reviews:queue")


def demo_url(viewer: selectors.Viewer) -> str:
    """Where a demo run is started; "" for those who may not, and where there is no demo."""
    if not may_start(viewer.user) or not Workflow.objects.filter(name=DEMO, enabled=True).exists():
        return ""
    return reverse("reviews:start_demo")


#: The workflow that the demo button starts.
DEMO = "release-notes"


def _row(hold: Hold, viewer: selectors.Viewer) -> dict[str, Any]:
    is_open = hold.status == Hold.Status.OPEN
    level, reason = words.risk(hold)
    needs = hold.quorum > 1 and is_open
    return {
        "hold_id": hold.id,
        "execution_id": str(hold.execution_id),
        "url": reverse("reviews:decision", args=(hold.execution_id, hold.id)),
        "sentence": words.row_sentence(hold),
        "subject": words.subject(hold),
        "phase_words": words.phase_words(hold.phase, past=not is_open),
        "step_words": words.step_words(hold),
        "since": hold.opened_at if is_open else hold.decided_at,
        "deadline": hold.expires_at if is_open else None,
        "urgent": is_open and words.is_urgent(hold),
        "why": hold.why,
        "risk": level if is_open else "low",
        "risk_words": reason,
        "looking": words.looking(hold, viewer.user.pk) if is_open else "",
        "outcome": "" if is_open else _outcome(hold),
        "quorum_words": f"{len(hold.approvals)} of {hold.quorum} approvals" if needs else "",
    }


def _outcome(hold: Hold) -> str:
    return "EXPIRED" if hold.decided_by == "system" else hold.decision
