"""The queue: tabs, filters, rows, and the words for an empty one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews import conf
from reviews.components import labels as components_labels
from reviews.components.reasons import render_stored
from reviews.decisions.hold_text import one_line
from reviews.decisions.rights import Right, right_now
from reviews.queue import selectors
from reviews.queue.bulk import Outcome
from reviews.queue.claims import candidates
from reviews.queue.extensions import may_extend
from reviews.queue.filters import PHASES, RISKS, SORTS, QueueFilters, parse_queue_filters
from reviews.queue.key_arguments import (
    key_arguments,
    payload_schemas_by_target,
    task_arguments,
)
from reviews.queue.presence import viewers_of
from reviews.queue.saved_views import canonical_query, views_for
from workflows.common import keyset
from workflows.engine.protocol.state import HoldReason
from workflows.executions.access import may_operate, may_start, visible_to
from workflows.models import Hold, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User


#: Runs that one look at what changed may name.
_MAX_CHANGED_RUNS = 25
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
    "layer_approval": N_("the next layer needs approval"),
    "escalation": N_("it needs more permission"),
    "replan_review": N_("the plan changes"),
}
_SORT_LABELS = {"oldest": N_("oldest first"), "newest": N_("newest first")}
_RISK_LABELS = {"high": N_("high"), "medium": N_("medium"), "low": N_("low")}


@dataclass(frozen=True, slots=True)
class ChangedRuns:
    """Runs that news came of, and the cursor at which the page that is shown ends ("" for none)."""

    runs: frozenset[int]
    until: str

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ChangedRuns | None:
        """What `changed` and `until` of the address say; None for a whole page.

        Raises keyset.BadCursor for what no page of ours asks.
        """
        text = query.get("changed", "")
        if not text:
            return None
        names = text.split(",")
        if len(names) > _MAX_CHANGED_RUNS or not all(map(_RUN.fullmatch, names)):
            raise keyset.BadCursor
        return cls(frozenset(map(int, names)), query.get("until", ""))


def rows_context(
    viewer: selectors.Viewer,
    *,
    tab: str,
    filters: QueueFilters,
    cursor: str,
    changed: ChangedRuns | None = None,
) -> dict[str, Any]:
    """The context of the queue's rows; raises keyset.BadCursor.

    With `changed`, return only rows of these runs that belong on the page.
    """
    tab = _known(tab)
    page = _page(viewer, tab, filters, cursor, changed)
    schemas = payload_schemas_by_target(page.rows)
    looking = viewers_of((hold.id for hold in page.rows), but=viewer.user.pk) if page.rows else {}
    query = filters.query()
    return {
        "tab": tab,
        "tab_label": _(_LABELS[tab]),
        "rows": tuple(_row(hold, looking.get(hold.id, []), schemas) for hold in page.rows),
        "oldest_first": tab != "decided" and filters.sort == "oldest",
        "q": filters.q,
        "narrowed": filters.narrows,
        "filter_errors": filters.errors,
        "may_bulk": bool(viewer.deciding) and tab != "decided",
        "next_url": queue_url(**_tab_query(tab), **query, cursor=page.next) if page.next else "",
        "page_end": page.next,
        "clear_url": queue_url(**_tab_query(tab)),
        "demo_url": "" if page.rows or changed else demo_url(viewer),
        "group_text": components_labels.group_text(viewer.deciding),
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


def queue_changes(user: User, query: Mapping[str, str], *, run: int, until: str) -> dict[str, Any]:
    """Return the rows of `run` and the tabs of the queue page with this query string.

    `until` is the cursor at the page's end.  Raises keyset.BadCursor.
    """
    viewer, tab = selectors.Viewer(user), query.get("tab", "me")
    filters = parse_queue_filters(query)
    changed = ChangedRuns(frozenset({run}), until)
    cursor = query.get("cursor", "")
    return {
        **rows_context(viewer, tab=tab, filters=filters, cursor=cursor, changed=changed),
        **tabs_context(viewer, tab=tab, filters=filters),
    }


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
    changed: ChangedRuns | None,
) -> keyset.Page:
    runs = None if changed is None else changed.runs
    rows = selectors.page_rows(selectors.queue(viewer, tab, filters, runs))
    size = conf.page_size()
    column, largest_first = ("decided_at", True) if tab == "decided" else SORTS[filters.sort]
    order: dict[str, Any] = {"time": column, "ascending": not largest_first}
    if changed is None:
        return keyset.page(rows, cursor=cursor, size=size, **order)
    rows_of_page = keyset.rows_between(rows, cursor=cursor, until=changed.until, **order)
    return keyset.Page(list(rows_of_page[:size]), "")


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
            "owner": view.owner,
            "here": view.query == here,
        }
        for view in views_for(viewer.user)
    )
    name = next((row["name"] for row in rows if row["here"]), "")
    return {"saved_views": rows, "saved_here": name, "here": here}


def _selects(viewer: selectors.Viewer, filters: QueueFilters) -> tuple[dict[str, Any], ...]:
    """The filter's drop-down lists; each begins with the choice that asks nothing."""
    enabled = Workflow.objects.filter(enabled=True).order_by("title")
    workflows: dict[str, str] = dict(enabled.values_list("name", "title"))
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
    params = {name: value for name, value in query.items() if value}
    return f"{reverse('reviews:queue')}?{urlencode(params)}" if params else reverse("reviews:queue")


def demo_url(viewer: selectors.Viewer) -> str:
    """Where a demo run is started; "" for those who may not, and where there is no demo."""
    if not may_start(viewer.user) or not Workflow.objects.filter(name=DEMO, enabled=True).exists():
        return ""
    return reverse("reviews:start_demo")


#: The workflow that the demo button starts.
DEMO = "release-notes"


def _row(hold: Hold, looking: list[str], schemas: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    is_open = hold.status == Hold.Status.OPEN
    level, reason = components_labels.risk(hold)
    sentence = components_labels.row_sentence(hold)
    needs = hold.quorum > 1 and is_open
    return {
        "hold_id": hold.id,
        "execution_id": str(hold.execution_id),
        "version": hold.execution.version,
        "url": reverse("reviews:decision", args=(hold.execution_id, hold.id)),
        "sentence": sentence,
        "select_text": _("Select: %(sentence)s") % {"sentence": sentence},
        "title": _row_title(hold),
        "arguments": key_arguments(hold, schemas.get((hold.target, hold.phase))),
        "tasks": task_arguments(hold, schemas) if is_open else (),
        "kind_text": components_labels.kind_text(hold, past=not is_open),
        "run_title": components_labels.run_title(hold.execution.title, hold.execution_id),
        "requester_text": _("by %(name)s") % {"name": _requester(hold)},
        "layer_text": components_labels.layer_text(hold),
        "since": hold.opened_at if is_open else hold.decided_at,
        "deadline": hold.expires_at if is_open else None,
        "urgent": is_open and components_labels.is_urgent(hold),
        "risk": level if is_open else "low",
        "risk_word": _(_RISK_WORDS[level]) if is_open and level in _RISK_WORDS else "",
        "risk_reason": reason,
        "claimed": components_labels.claimed_by(hold) if is_open else "",
        "looking": components_labels.viewers_text(looking) if is_open else "",
        "outcome": "" if is_open else _outcome(hold),
        "quorum_words": _quorum_words(hold) if needs else "",
    }


_RISK_WORDS = {"high": N_("High risk"), "medium": N_("Medium risk")}


def _row_title(hold: Hold) -> str:
    """The title of the task; for a layer the names of its tasks, for a plan change what it adds."""
    if hold.task_id:
        return hold.task_title or hold.task_id
    payload = hold.payload if isinstance(hold.payload, dict) else {}
    if hold.reason == HoldReason.LAYER_APPROVAL:
        names = [str(each.get("id", "")) for each in payload.get("next_layer") or ()]
        return _("Next tasks: %(names)s") % {"names": one_line(", ".join(names))}
    if hold.reason == HoldReason.REPLAN_REVIEW:
        wish = str(payload.get("requirement", ""))
        return _("Plan change: %(wish)s") % {"wish": one_line(wish)}
    return components_labels.hold_reason_text(hold.reason).capitalize()


def _requester(hold: Hold) -> str:
    creator = hold.execution.created_by
    return creator.get_username() if creator else _("the system")


def _quorum_words(hold: Hold) -> str:
    params = {"given": len(hold.approvals), "needed": hold.quorum}
    return _("%(given)s of %(needed)s approvals") % params


def _outcome(hold: Hold) -> str:
    return "EXPIRED" if hold.decided_by_id is None else hold.decision


#: Action → the sentence about so many reviews.
_DONE: Mapping[str, Callable[[int], str]] = {
    "claim": lambda n: ngettext("%(n)s review claimed", "%(n)s reviews claimed", n),
    "release": lambda n: ngettext("%(n)s review released", "%(n)s reviews released", n),
    "assign": lambda n: ngettext("%(n)s review assigned", "%(n)s reviews assigned", n),
    "approve": lambda n: ngettext("%(n)s review approved", "%(n)s reviews approved", n),
    "reject": lambda n: ngettext("%(n)s review rejected", "%(n)s reviews rejected", n),
    "withdraw": lambda n: ngettext("%(n)s decision undone", "%(n)s decisions undone", n),
}


def bulk_context(user: User, action: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """rows: sentence, done, message, url ("" for what is not visible); a summary; and `undo`."""
    holds = {
        hold.id: hold
        for hold in Hold.objects.filter(
            pk__in=[each.hold_id for each in outcomes], execution__in=visible_to(user)
        ).select_related("execution")
    }
    done = sum(each.done for each in outcomes)
    left = len(outcomes) - done
    summary = _DONE[action](done) % {"n": done}
    return {
        "errors": (),
        "done": done,
        "left": left,
        "summary": _with_not_done(summary, left) if left else f"{summary}.",
        "rows": tuple(_bulk_row(each, holds.get(each.hold_id)) for each in outcomes),
        "undo": _undo_all([holds[each.hold_id] for each in outcomes if _rests(each, holds)]),
    }


def _rests(outcome: Outcome, holds: Mapping[str, Hold]) -> bool:
    """Whether it is a decision that can still be taken back."""
    hold = holds.get(outcome.hold_id)
    return outcome.undo_until is not None and hold is not None and hold.undo_until is not None


def _undo_all(resting: Sequence[Hold]) -> dict[str, Any] | None:
    """What takes all of it back: the holds, and the seconds until the first of them goes on."""
    first = min((hold.undo_until for hold in resting if hold.undo_until), default=None)
    if first is None:
        return None
    label = ngettext("Undo %(n)s decision", "Undo %(n)s decisions", len(resting))
    return {
        "url": reverse("reviews:bulk"),
        "holds": tuple(f"{hold.id}@{hold.execution.version}" for hold in resting),
        "label": label % {"n": len(resting)},
        "seconds": round(max(0.0, (first - timezone.now()).total_seconds()), 1),
    }


def _with_not_done(summary: str, left: int) -> str:
    text = ngettext("%(summary)s, %(n)s unchanged.", "%(summary)s, %(n)s unchanged.", left)
    return text % {"summary": summary, "n": left}


def _bulk_row(outcome: Outcome, hold: Hold | None) -> dict[str, Any]:
    return {
        "hold_id": outcome.hold_id,
        "done": outcome.done,
        "message": render_stored(outcome, "message"),
        "sentence": components_labels.row_sentence(hold)
        if hold
        else _("A review that no longer exists"),
        "url": reverse("reviews:decision", args=(hold.execution_id, hold.id)) if hold else "",
    }


def claim_context(user: User, hold: Hold, right: Right) -> dict[str, Any]:
    """`claim` of `d`: by, mine, until, given_by, looking; addresses, "" where not offered."""
    is_open = hold.status == Hold.Status.OPEN
    by = components_labels.claimed_by(hold) if is_open else ""
    place = (hold.execution_id, hold.id)
    may_assign = is_open and (right.any or may_operate(user, hold.execution))
    names = viewers_of([hold.id], but=user.pk).get(hold.id, []) if is_open else []
    claim = hold.claim if by else None
    giver = claim.assigned_by if claim else None
    return {
        "by": by,
        "by_id": claim.user_id if claim else None,
        "mine": claim is not None and claim.user_id == user.pk,
        "until": claim.expires_at if claim else None,
        "given_by": giver.get_username() if giver else "",
        "given_by_id": giver.pk if giver else None,
        "looking": components_labels.viewers_text(names),
        "may_claim": is_open and right.any,
        "url": reverse("reviews:claim", args=place) if may_assign else "",
        "looking_url": reverse("reviews:looking", args=place) if is_open else "",
        "people": tuple(name for name in candidates(hold) if name != by) if may_assign else (),
    }


def deadline_context(user: User, hold: Hold, *, error: str = "") -> dict[str, Any]:
    """`d` of `_deadline.html` alone; `hold.execution` is loaded."""
    return {
        "state": "open" if hold.status == Hold.Status.OPEN else "settled",
        "deadline": hold.expires_at,
        "urgent": components_labels.is_urgent(hold),
        "on_timeout": components_labels.on_timeout(hold),
        "deadline_reason": components_labels.deadline_reason(hold),
        "extend_error": error,
        **deadline_addresses(hold, right_now(user, hold)),
    }


def deadline_addresses(hold: Hold, right: Right) -> dict[str, str]:
    """Where the deadline is read anew, and where it is moved ("" when that is not offered)."""
    if hold.expires_at is None:
        return {"deadline_url": "", "extend_url": ""}
    url = reverse("reviews:extend", args=(hold.execution_id, hold.id))
    offered = may_extend(hold, may_decide=right.any)
    return {"deadline_url": url, "extend_url": url if offered else ""}
