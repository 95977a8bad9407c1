"""The queue: tabs, filters, rows, and the words for an empty one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews import conf
from reviews.components import labels as components_labels
from reviews.queue import selectors
from reviews.queue.filters import PHASES, RISKS, SORTS, QueueFilters
from reviews.queue.presence import lookers
from reviews.queue.saved_views import canonical_query, views_for
from workflows.executions.access import may_start
from workflows.models import Hold, Workflow

#: Runs that one look at what changed may name.
_MOST_RUNS = 25
_RUN = re.compile(r"[0-9]{1,18}")
_LABELS = {
    "me": N_("Needs me"),
    "groups": N_("My groups"),
    "claimed": N_("Claimed by me"),
    "open": N_("All open"),
    "decided": N_("Decided"),
}
_PHASE_LABELS = {
    "BEFORE_EXECUTION": N_("before it runs"),
    "AFTER_EXECUTION": N_("after it ran"),
}
_REASON_LABELS = {
    "node_review": N_("a task asks for review"),
    "layer_approval": N_("the next layer is signed"),
    "escalation": N_("it needs more permission"),
    "replan_review": N_("the plan changes"),
}
_SORT_LABELS = {"newest": N_("newest first"), "oldest": N_("longest waiting first")}
_RISK_LABELS = {"high": N_("high"), "medium": N_("medium"), "low": N_("low")}


@dataclass(frozen=True, slots=True)
class Changed:
    """Runs that news came of, and the cursor at which the page that is shown ends ("" for none)."""

    runs: frozenset[int]
    until: str

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Changed | None:
        """What `changed` and `until` of the address say; None for a whole page.

        Raises selectors.BadCursor for what no page of ours asks.
        """
        text = query.get("changed", "")
        if not text:
            return None
        names = text.split(",")
        if len(names) > _MOST_RUNS or not all(map(_RUN.fullmatch, names)):
            raise selectors.BadCursor
        return cls(frozenset(map(int, names)), query.get("until", ""))


def rows_context(
    viewer: selectors.Viewer,
    *,
    tab: str,
    filters: QueueFilters,
    cursor: str,
    changed: Changed | None = None,
) -> dict[str, Any]:
    """The context of the queue's rows; raises selectors.BadCursor.

    With `changed` the rows are those of these runs alone that belong on the page.
    """
    tab = _known(tab)
    page = _page(viewer, tab, filters, cursor, changed)
    looking = lookers((hold.id for hold in page.rows), but=viewer.user.pk) if page.rows else {}
    query = filters.query()
    return {
        "tab": tab,
        "tab_label": _(_LABELS[tab]),
        "rows": tuple(_row(hold, looking.get(hold.id, [])) for hold in page.rows),
        "q": filters.q,
        "narrowed": filters.narrows,
        "filter_errors": filters.errors,
        "may_bulk": bool(viewer.deciding) and tab != "decided",
        "next_url": queue_url(**_tab_query(tab), **query, cursor=page.next) if page.next else "",
        "page_end": page.next,
        "clear_url": queue_url(**_tab_query(tab)),
        "demo_url": "" if page.rows or changed else demo_url(viewer),
        "group_words": components_labels.group_words(viewer.deciding),
    }


def tabs_context(viewer: selectors.Viewer, *, tab: str, filters: QueueFilters) -> dict[str, Any]:
    """The context of the queue's tabs, each with its number."""
    counts, query = selectors.tab_counts(viewer), filters.query()
    tabs = tuple(
        {
            "key": key,
            "label": _(label),
            "count": counts.get(key),
            "url": queue_url(**_tab_query(key), **query),
        }
        for key, label in _LABELS.items()
    )
    return {"tab": _known(tab), "tabs": tabs, "waiting_count": counts["me"]}


def _known(tab: str) -> str:
    return tab if tab in selectors.TABS else "me"


def controls_context(
    viewer: selectors.Viewer, *, tab: str, filters: QueueFilters
) -> dict[str, Any]:
    """The context of what stands round the rows: the filter's choices and the saved views."""
    tab = _known(tab)
    return {
        "selects": _selects(viewer, filters),
        **_saved(viewer, urlencode(_tab_query(tab) | filters.query())),
    }


def _page(
    viewer: selectors.Viewer,
    tab: str,
    filters: QueueFilters,
    cursor: str,
    changed: Changed | None,
) -> selectors.Page:
    runs = None if changed is None else changed.runs
    rows, size = selectors.queue(viewer, tab, filters, runs), conf.page_size()
    column, largest_first = ("decided_at", True) if tab == "decided" else SORTS[filters.sort]
    order: dict[str, Any] = {"time": column, "ascending": not largest_first}
    if changed is None:
        return selectors.page(rows, cursor=cursor, size=size, **order)
    found = selectors.among(rows, cursor=cursor, until=changed.until, **order)
    return selectors.Page(list(found[:size]), "")


def _tab_query(tab: str) -> dict[str, str]:
    return {} if tab == "me" else {"tab": tab}


def _saved(viewer: selectors.Viewer, here: str) -> dict[str, Any]:
    """The views one may choose, and which of them is open."""
    here = canonical_query(here)
    rows = tuple(
        {
            "id": view.pk,
            "name": view.name,
            "url": f"{reverse('reviews:queue')}?{view.query}" if view.query else queue_url(),
            "mine": view.owner_id == viewer.user.pk,
            "shared": view.shared,
            "owner": view.owner.get_username(),
            "here": view.query == here,
        }
        for view in views_for(viewer.user)
    )
    name = next((row["name"] for row in rows if row["here"]), "")
    return {"saved_views": rows, "saved_here": name, "here": here}


def _selects(viewer: selectors.Viewer, filters: QueueFilters) -> tuple[dict[str, Any], ...]:
    """The filter's drop-down lists; each begins with the choice that asks nothing."""
    workflows = dict(
        Workflow.objects.filter(enabled=True).order_by("title").values_list("name", "title")
    )
    lists = (
        ("workflow", _("Workflow"), _("every workflow"), workflows),
        ("phase", _("When"), _("before and after"), _labels(_PHASE_LABELS, PHASES)),
        ("reason", _("Why it stopped"), _("for any reason"), _labels(_REASON_LABELS)),
        ("risk", _("Risk"), _("any risk"), _labels(_RISK_LABELS, RISKS)),
        ("group", _("Group"), _("every group"), {each: each for each in sorted(viewer.groups)}),
        ("sort", _("Order"), "", _labels(_SORT_LABELS)),
    )
    return tuple(
        {
            "name": name,
            "label": label,
            "value": getattr(filters, name),
            "options": ((("", blank),) if blank else ()) + tuple(choices.items()),
        }
        for name, label, blank, choices in lists
    )


def _labels(labels: Mapping[str, str], keys: Iterable[str] = ()) -> dict[str, str]:
    """The words for some or all choices, in the language of the page."""
    return {each: _(labels[each]) for each in keys or labels}


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


def _row(hold: Hold, looking: list[str]) -> dict[str, Any]:
    is_open = hold.status == Hold.Status.OPEN
    level, reason = components_labels.risk(hold)
    needs = hold.quorum > 1 and is_open
    return {
        "hold_id": hold.id,
        "execution_id": str(hold.execution_id),
        "version": hold.execution.version,
        "url": reverse("reviews:decision", args=(hold.execution_id, hold.id)),
        "sentence": components_labels.row_sentence(hold),
        "subject": components_labels.subject(hold),
        "phase_words": components_labels.phase_words(hold.phase, past=not is_open),
        "step_words": components_labels.step_words(hold),
        "since": hold.opened_at if is_open else hold.decided_at,
        "deadline": hold.expires_at if is_open else None,
        "urgent": is_open and components_labels.is_urgent(hold),
        "why": hold.why,
        "risk": level if is_open else "low",
        "risk_words": reason,
        "claimed": components_labels.claimed_by(hold) if is_open else "",
        "looking": components_labels.looking_words(looking) if is_open else "",
        "outcome": "" if is_open else _outcome(hold),
        "quorum_words": _quorum_words(hold) if needs else "",
    }


def _quorum_words(hold: Hold) -> str:
    told = {"given": len(hold.approvals), "needed": hold.quorum}
    return _("%(given)s of %(needed)s approvals") % told


def _outcome(hold: Hold) -> str:
    return "EXPIRED" if hold.decided_by == "system" else hold.decision
