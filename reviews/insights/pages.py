"""Context of the insights page: five figures, two charts, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.components import labels as components_labels
from reviews.components.number_formatting import grouped, percent, short_day
from reviews.components.tables import Row, Table
from reviews.insights import statistics
from reviews.insights.charts import Series, line_chart, shares
from reviews.insights.statistics import Period, Scope, Tally
from reviews.templatetags.desk import duration_text, elapsed_text, lasting_text
from workflows.executions.access import may_backtest, visible_to

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PERIODS = (7, 30, 90)
_KINDS = (
    (
        "approved",
        N_("approved unchanged"),
        {"decision": "APPROVE", "edited": "false", "expired": "false"},
    ),
    ("edited", N_("edited"), {"edited": "true"}),
    ("rejected", N_("rejected"), {"decision": "REJECT", "expired": "false"}),
    ("returned", N_("sent back"), {"decision": "REQUEST_CHANGES"}),
    ("expired", N_("timed out"), {"expired": "true"}),
)
_GROUP_WORDS = {
    "tool": N_("Tool"),
    "workflow": N_("Workflow"),
    "reason": N_("Reason"),
    "reviewer": N_("Reviewer"),
}

_HEADINGS = {
    "tool": N_("By tool"),
    "workflow": N_("By workflow"),
    "reason": N_("By reason"),
    "reviewer": N_("By reviewer"),
}


def insights_context(user: User, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of the page, filtered by `days` and `workflow` of the query string."""
    days = _days(query.get("days", ""))
    titles = _titles(user)
    workflow = query.get("workflow", "")
    scope = Scope(
        user,
        Period.of(days, today=datetime.now(UTC).date()),
        workflow if workflow in titles else "",
    )
    now, before = statistics.tally(scope), statistics.tally(_earlier(scope))
    return {
        "days": days,
        "periods": tuple((n, _days_text(n), _url(n, scope.workflow)) for n in PERIODS),
        "workflow": scope.workflow,
        "workflows": titles,
        "is_empty": not now.total and not statistics.open_holds(scope).count,
        "figures": _figures(scope, now, before),
        "charts": _charts(scope),
        "tables": _tables(scope),
        "spared": _skipped(scope),
        "backtest_url": reverse("reviews:backtest") if may_backtest(user) else "",
    }


def _skipped(scope: Scope) -> dict[str, Any]:
    """Return the number of skipped reviews and the URL of their list."""
    query = f"?{urlencode({'workflow': scope.workflow})}" if scope.workflow else ""
    return {
        "count": statistics.skipped_review_count(scope),
        "url": f"{reverse('reviews:spared')}{query}",
    }


def _days_text(days: int) -> str:
    return ngettext("%(n)s day", "%(n)s days", days) % {"n": days}


def _earlier(scope: Scope) -> Scope:
    return Scope(scope.user, scope.period.before, scope.workflow)


def _days(text: str) -> int:
    return int(text) if text in {str(each) for each in PERIODS} else 30


def _titles(user: User) -> list[str]:
    titles = visible_to(user).exclude(workflow=None).order_by()
    return sorted(titles.values_list("workflow__title", flat=True).distinct()[:100])


def _url(days: int, workflow: str) -> str:
    query = {"days": str(days)} | ({"workflow": workflow} if workflow else {})
    return f"{reverse('reviews:insights')}?{urlencode(query)}"


def _history(scope: Scope, **more: str) -> str:
    """Return the URL of the history with the decisions behind a number."""
    query = {"from": scope.period.first.isoformat(), "to": scope.period.last.isoformat()}
    if scope.workflow:
        query["workflow"] = scope.workflow
    return f"{reverse('reviews:history')}?{urlencode(query | more)}"


# --- figures --------------------------------------------------------------------------------------


def _figures(scope: Scope, now: Tally, before: Tally) -> tuple[dict[str, Any], ...]:
    waiting = statistics.open_holds(scope)
    claimed, _tries = statistics.claim_times(scope)
    oldest = (
        duration_text((datetime.now(UTC) - waiting.oldest).total_seconds())
        if waiting.oldest
        else ""
    )
    return (
        {
            "label": _("Open now"),
            "value": grouped(waiting.count),
            "note": _("oldest: %(time)s") % {"time": oldest} if oldest else _("none"),
            "url": f"{reverse('reviews:queue')}?tab=open&sort=oldest",
        },
        {
            "label": _("Decided"),
            "value": grouped(now.total),
            "note": _change(now.total, before.total),
            "url": _history(scope),
        },
        {
            "label": _("Median time to decide"),
            "value": _span(now.median),
            "note": _("previous period: %(before)s; to claim: %(claim)s")
            % {"before": _span(before.median), "claim": _span(claimed)},
            "url": "",
        },
        {
            "label": _("Edited"),
            "value": percent(now.rate("edited")),
            "note": _("previous period: %(share)s") % {"share": percent(before.rate("edited"))},
            "url": _history(scope, edited="true"),
        },
        {
            "label": _("Rejected"),
            "value": percent(now.rate("rejected")),
            "note": _("previous period: %(share)s; timed out: %(expired)s")
            % {"share": percent(before.rate("rejected")), "expired": percent(now.rate("expired"))},
            "url": _history(scope, decision="REJECT", expired="false"),
        },
    )


def _change(now: int, before: int) -> str:
    if not before:
        return _("none in the previous period")
    change = (now - before) / before
    if abs(change) < 0.005:
        text = ngettext(
            "same as the %(n)s decision in the previous period",
            "same as the %(n)s decisions in the previous period",
            before,
        )
        return text % {"n": before}
    sign = "+" if change > 0 else ""
    params = {"change": f"{sign}{percent(change)}", "before": grouped(before)}
    return _("%(change)s compared with %(before)s") % params


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else lasting_text(seconds)


def _exact(seconds: float) -> str:
    """Format seconds for an axis: `1 h 30 min`, `20 s`, without zero parts."""
    return elapsed_text(seconds).replace(" 0 min", "").replace(" 0 s", "")


# --- charts ---------------------------------------------------------------------------------------


def _charts(scope: Scope) -> dict[str, Any]:
    days = scope.period.days
    labels = [short_day(day) for day in days]
    by_day = statistics.tally_by_day(scope)
    links = [_day_url(scope, day) for day in days]
    opened = statistics.open_by_day(scope)
    return {
        "open": line_chart(
            labels,
            [Series(_("open"), "first", opened)],
            words=lambda value: grouped(round(value)),
        ),
        "times": line_chart(
            labels,
            [
                Series(name, kind, [_of(by_day.get(day), field) for day in days], links)
                for name, kind, field in (
                    (_("median"), "first", "median"),
                    (_("p90"), "second", "p90"),
                )
            ],
            words=_exact,
            is_time=True,
        ),
        "days": _by_day(
            (label, url, count, by_day.get(day))
            for day, label, url, count in zip(days, labels, links, opened, strict=True)
        ),
    }


def _by_day(days: Iterable[tuple[str, str, int, Tally | None]]) -> Table:
    """Return the numbers of both charts as a table, one row per day."""
    return Table(
        key="by-day",
        heading=_("Numbers per day"),
        first=_("Day"),
        columns=(_("Open at end of day"), _("Decided"), _("Median"), _("p90")),
        rows=tuple(
            Row(
                links=((label, url if tally else ""),),
                cells=(
                    count,
                    tally.total if tally else 0,
                    _span(_of(tally, "median")),
                    _span(_of(tally, "p90")),
                ),
            )
            for label, url, count, tally in days
        ),
    )


def _of(tally: Tally | None, field: str) -> float | None:
    return getattr(tally, field) if tally else None


def _day_url(scope: Scope, day: date) -> str:
    text = day.isoformat()
    return _history(scope, **{"from": text, "to": text})


# --- tables ---------------------------------------------------------------------------------------


def _tables(scope: Scope) -> tuple[Table, ...]:
    """Return a table of outcomes per group; only the first has a legend."""
    keys = tuple((kind, _(name)) for kind, name, _query in _KINDS)
    return tuple(
        Table(
            key=f"by-{group}",
            heading=_(_HEADINGS[group]),
            legend=() if index else keys,
            first=_(title),
            bars=_("Outcomes"),
            columns=(
                _("All"),
                _("Edited"),
                _("Rejected"),
                _("Sent back"),
                _("Timed out"),
                _("Median"),
                _("p90"),
            ),
            rows=_rows(scope, group),
        )
        for index, (group, title) in enumerate(_GROUP_WORDS.items())
    )


def _rows(scope: Scope, group: str) -> tuple[Row, ...]:
    found = statistics.tally_by(scope, group)
    most = max((tally.total for _name, tally in found), default=1)
    return tuple(_row(scope, group, name, tally, most) for name, tally in found)


def _row(scope: Scope, group: str, name: str, tally: Tally, most: int) -> Row:
    parts = [
        (kind, _(label), getattr(tally, kind), _history(scope, **{group: name}, **query))
        for kind, label, query in _KINDS
    ]
    label = components_labels.hold_reason_text(name) if group == "reason" else name
    return Row(
        links=((label, _history(scope, **{group: name})),),
        parts=shares(parts, of=tally.total, most=most),
        cells=(
            tally.total,
            tally.edited,
            tally.rejected,
            tally.returned,
            tally.expired,
            _span(tally.median),
            _span(tally.p90),
        ),
    )
