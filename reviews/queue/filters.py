"""Filters of the queue and their query string."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from django.db.models import F, Q, QuerySet

from reviews.models import RecordWords
from workflows.common.full_text import full_text_filter
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError
from workflows.engine.plans import risk
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.models import Hold, Waiting

_AFTER = TriggerPhase.AFTER_EXECUTION.value

#: Orders of the queue: the column, and whether the largest comes first.
SORTS: Final = {"oldest": ("opened_at", False), "newest": ("opened_at", True)}
RISKS: Final = tuple(reversed(risk.RISKS))
REASONS: Final = tuple(reason.value for reason in HoldReason)
PHASES: Final = tuple(phase.value for phase in TriggerPhase)
#: Keys of the query string, in the order of its canonical form.
KEYS: Final = ("q", "workflow", "phase", "reason", "risk", "group", "sort")
_MAX_CHARACTERS = 200

# `critical`: the task, or a task of the layer or plan change, is of high risk
# (`workflows.engine.plans.risk`).
# The review of an output is about what has already run.
_HIGH = (
    Q(reason=HoldReason.ESCALATION.value)
    | (Q(critical=True) & ~Q(phase=_AFTER))
    | Q(stated_risk="high")
)
_MEDIUM = Q(stated_risk="medium") & ~_HIGH
_RISK_CONDITIONS: Final = {"high": _HIGH, "medium": _MEDIUM, "low": ~(_HIGH | _MEDIUM)}


def risk_condition(level: str) -> Q:
    """The condition on holds of this risk, one of RISKS."""
    return _RISK_CONDITIONS[level]


def risk_of(hold: Hold) -> str:
    """low, medium or high, by the same conditions as the SQL above."""
    is_ahead = hold.critical and hold.phase != _AFTER
    if hold.reason == HoldReason.ESCALATION.value or is_ahead or hold.stated_risk == "high":
        return "high"
    return "medium" if hold.stated_risk == "medium" else "low"


@dataclass(frozen=True, slots=True)
class QueueFilters:
    """Conditions on holds; "" means any.  `errors` names invalid parameters."""

    q: str = ""
    workflow: str = ""
    phase: str = ""
    reason: str = ""
    risk: str = ""
    group: str = ""
    sort: str = "oldest"
    errors: tuple[FieldError, ...] = field(default=())

    @property
    def narrows(self) -> bool:
        """Whether a filter other than the order is set."""
        return any((self.q, self.workflow, self.phase, self.reason, self.risk, self.group))

    def query(self) -> dict[str, str]:
        """The parameters that differ from their defaults."""
        params = {name: str(getattr(self, name)) for name in KEYS}
        return {name: text for name, text in params.items() if text and text != "oldest"}


def parse_queue_filters(query: Mapping[str, str]) -> QueueFilters:
    """Parse a query string; invalid parameters are ignored and named in `errors`."""
    errors: list[FieldError] = []
    texts = {name: plain_text(query, name, errors) for name in KEYS}
    choices = {"phase": PHASES, "reason": REASONS, "risk": RISKS, "sort": tuple(SORTS)}
    for name, known in choices.items():
        if texts[name] and texts[name] not in known:
            errors.append(FieldError(name, f"must be one of {', '.join(known)}"))
            texts[name] = ""
    texts["sort"] = texts["sort"] or "oldest"
    return QueueFilters(**texts, errors=tuple(errors))


def query_string(query: Mapping[str, str], *, tab: str) -> str:
    """The canonical query string of a tab and its filters: known keys alone, in one order."""
    params = {"tab": tab} if tab != "me" else {}
    return urlencode(params | parse_queue_filters(query).query())


def apply_filters(
    rows: QuerySet[Hold], filters: QueueFilters, *, decided: bool = False
) -> QuerySet[Hold]:
    """Filter rows that are all open or all decided."""
    exact = {
        "execution__workflow__name": filters.workflow,
        "phase": filters.phase,
        "reason": filters.reason,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if filters.group:
        rows = rows.filter(groups__contains=[filters.group])
    if filters.risk:
        rows = rows.filter(risk_condition(filters.risk))
    return rows.filter(_matches(filters.q, decided=decided)) if filters.q else rows


def apply_order(rows: QuerySet[Hold], filters: QueueFilters) -> QuerySet[Hold]:
    """Order the rows as requested, with the id as tie-breaker."""
    column, largest_first = SORTS[filters.sort]
    if largest_first:
        return rows.order_by(F(column).desc(), "-id")
    return rows.order_by(column, "id")


def _matches(q: str, *, decided: bool) -> Q:
    """Holds in whose run's title, task, tool or reason each word of `q` begins a word.

    What waits is looked for in its own narrow table, what was decided in the records.
    """
    words, column = (RecordWords, "record__hold_id") if decided else (Waiting, "hold_id")
    matches = full_text_filter(q, words.objects.all(), column=column)
    number = parse_natural_number(q)
    return matches if number is None else matches | Q(execution_id=number)


def plain_text(query: Mapping[str, str], name: str, errors: list[FieldError]) -> str:
    """A parameter's text; "" with an error for what no column holds or nobody types."""
    value = (query.get(name) or "").strip()
    if "\0" in value or len(value) > _MAX_CHARACTERS:
        errors.append(
            FieldError(name, f"must be plain text of at most {_MAX_CHARACTERS} characters")
        )
        return ""
    return value
