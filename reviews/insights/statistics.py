"""Review statistics: counts, rates and times of a period, limited to runs visible to a user.

Times are seconds.  Median and 90th percentile are PostgreSQL's `percentile_cont`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from django.db.models import Aggregate, Count, FloatField, Min, Q, QuerySet
from django.db.models.functions import TruncDate

from reviews.audit.history import records
from reviews.backtests.skipped_reviews import skipped_reviews
from reviews.models import ClaimStart, HumanReviewRecord
from workflows.executions.access import filter_visible
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Columns of records that reviews are grouped by.
GROUPS: Final = {
    "tool": "target",
    "workflow": "workflow_title",
    "reason": "reason",
    "reviewer": "actor",
}
_MAX_ROWS: Final = 20


class Percentile(Aggregate):
    """`percentile_cont(fraction)` of an expression."""

    function = "percentile_cont"
    template = "%(function)s(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()

    def __init__(self, expression: str, *, fraction: float, **extra: Any) -> None:
        super().__init__(expression, fraction=fraction, **extra)


@dataclass(frozen=True, slots=True)
class Period:
    """Days from `first` to `last`, both included, in UTC."""

    first: date
    last: date

    @classmethod
    def of(cls, days: int, *, today: date) -> Period:
        return cls(today - timedelta(days=days - 1), today)

    @property
    def days(self) -> tuple[date, ...]:
        return tuple(self.first + timedelta(days=n) for n in range(self.length))

    @property
    def length(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def before(self) -> Period:
        """The previous period of the same length."""
        return Period(self.first - timedelta(days=self.length), self.first - timedelta(days=1))

    @property
    def start(self) -> datetime:
        return datetime.combine(self.first, datetime.min.time(), tzinfo=UTC)

    @property
    def end(self) -> datetime:
        return self.start + timedelta(days=self.length)


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes of `total` reviews; `median` and `p90` are None if no person decided."""

    total: int
    approved: int
    edited: int
    rejected: int
    returned: int
    expired: int
    median: float | None
    p90: float | None

    def rate(self, name: str) -> float:
        """The share of approved, edited, rejected, returned or expired, 0 to 1."""
        return float(getattr(self, name)) / self.total if self.total else 0.0


_BY_PEOPLE = Q(reviewer__isnull=False)
_TALLY: Mapping[str, Any] = {
    "total": Count("pk"),
    "approved": Count("pk", filter=_BY_PEOPLE & Q(decision="APPROVE", is_edited=False)),
    "edited": Count("pk", filter=_BY_PEOPLE & Q(is_edited=True)),
    "rejected": Count("pk", filter=_BY_PEOPLE & Q(decision="REJECT")),
    "returned": Count("pk", filter=_BY_PEOPLE & Q(decision="REQUEST_CHANGES")),
    "expired": Count("pk", filter=Q(reviewer__isnull=True)),
}


def _times() -> dict[str, Percentile]:
    return {
        name: Percentile("waited_seconds", fraction=fraction, filter=_BY_PEOPLE)
        for name, fraction in (("median", 0.5), ("p90", 0.9))
    }


@dataclass(frozen=True, slots=True)
class Scope:
    """A user's view of a period, optionally limited to one workflow title."""

    user: User
    period: Period
    workflow: str = ""

    def records(self) -> QuerySet[HumanReviewRecord]:
        """Return the decisions of the period, without withdrawn ones."""
        rows = records(self.user).standing().order_by()
        if self.workflow:
            rows = rows.filter(workflow_title=self.workflow)
        return rows.filter(reviewed_at__gte=self.period.start, reviewed_at__lt=self.period.end)

    def holds(self) -> QuerySet[Hold]:
        """Return all holds for people, regardless of the period."""
        rows = filter_visible(Hold.objects.filter(decider="human"), self.user)
        return rows.filter(execution__title=self.workflow) if self.workflow else rows


def tally(scope: Scope) -> Tally:
    """Return the tally of the whole period."""
    return Tally(**scope.records().aggregate(**_TALLY, **_times()))


def tally_by(scope: Scope, group: str) -> list[tuple[str, Tally]]:
    """Return the tallies of the twenty most frequent non-empty values of a group."""
    column = GROUPS[group]
    rows = scope.records().exclude(**{column: ""})
    if group == "tool":
        # The target of a record without a task is a layer or a plan revision.
        rows = rows.exclude(node_id="")
    rows = rows.values(column)
    found = rows.annotate(**_TALLY, **_times()).order_by("-total", column)[:_MAX_ROWS]
    return [(row.pop(column), Tally(**row)) for row in found]


def tally_by_day(scope: Scope) -> dict[date, Tally]:
    """Return the tallies of days with decisions."""
    rows = scope.records().annotate(day=TruncDate("reviewed_at", tzinfo=UTC)).values("day")
    found = cast("Iterable[dict[str, Any]]", rows.annotate(**_TALLY, **_times()))
    return {row.pop("day"): Tally(**row) for row in found}


def open_by_day(scope: Scope) -> list[int]:
    """Return the number of open holds at the end of each day."""
    period, holds = scope.period, scope.holds()
    settled_later = Q(status=Hold.Status.OPEN) | Q(decided_at__gte=period.start)
    count = holds.filter(settled_later, opened_at__lt=period.start).count()
    opened = _per_day(holds, "opened_at", period)
    # A hold closed with its run has `decided_at`, or is not counted at all.
    ended = _per_day(holds.exclude(status=Hold.Status.OPEN), "decided_at", period)
    counts = []
    for day in period.days:
        count += opened.get(day, 0) - ended.get(day, 0)
        counts.append(max(0, count))
    return counts


def _per_day(holds: QuerySet[Hold], column: str, period: Period) -> dict[date, int]:
    inside = {f"{column}__gte": period.start, f"{column}__lt": period.end}
    if column == "opened_at":
        holds = holds.filter(Q(status=Hold.Status.OPEN) | Q(decided_at__isnull=False))
    rows = holds.filter(**inside).annotate(day=TruncDate(column, tzinfo=UTC)).values("day")
    return dict(rows.annotate(number=Count("pk")).values_list("day", "number"))


def skipped_review_count(scope: Scope) -> int:
    """Return the number of reviews of the period that rules skipped."""
    rows = skipped_reviews(scope.user).order_by()
    if scope.workflow:
        rows = rows.filter(execution__title=scope.workflow)
    return rows.filter(created_at__gte=scope.period.start, created_at__lt=scope.period.end).count()


@dataclass(frozen=True, slots=True)
class OpenHolds:
    """The number of open holds and the time of the oldest."""

    count: int
    oldest: datetime | None


def open_holds(scope: Scope) -> OpenHolds:
    """Return the open holds, regardless of the period."""
    open_now = scope.holds().filter(status=Hold.Status.OPEN)
    return OpenHolds(**open_now.aggregate(count=Count("pk"), oldest=Min("opened_at")))


def claim_times(scope: Scope) -> tuple[float | None, float | None]:
    """Return median and 90th percentile of the time until the first claim of a hold."""
    rows = ClaimStart.objects.filter(
        hold__in=scope.holds(),
        claimed_at__gte=scope.period.start,
        claimed_at__lt=scope.period.end,
    )
    found = rows.aggregate(
        median=Percentile("after_seconds", fraction=0.5),
        p90=Percentile("after_seconds", fraction=0.9),
    )
    return found["median"], found["p90"]
