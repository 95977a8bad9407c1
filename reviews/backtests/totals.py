"""Totals of a backtest: the effect of rules on past reviews.  Pure.

Totals are plain JSON, so that a worker can save them after each batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from workflows.engine.protocol.review_rules import Verdict
from workflows.engine.values.reasons import reason_fields

Outcome = Literal["approved", "edited", "rejected", "expired"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("approved", "edited", "rejected", "expired")
#: The maximum number of reviews of each kind that a report lists, newest first.
LISTED: Final = 100
#: The maximum number of tools with their own totals; the others are added up under OTHER.
TOOLS: Final = 50
OTHER: Final = "other tools"

Totals = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PastReview:
    """A past review.

    `waited` is seconds from opened to decided, `desk` from claimed to decided (None if unclaimed).
    """

    record: int
    execution: int
    node: str
    target: str
    outcome: Outcome
    waited: float
    desk: float | None
    changes: int = 0
    reviewer: str = ""


def outcome_of(*, decision: str, edited: bool, by_person: bool) -> Outcome:
    """Return the outcome of a review; a timeout is "expired" whatever its decision."""
    if not by_person:
        return "expired"
    if decision == "REJECT":
        return "rejected"
    return "edited" if edited else "approved"


def empty() -> Totals:
    """Return totals without reviews."""
    return {
        "reviews": 0,
        "codes": {},
        "unknown": {},
        "spared": dict.fromkeys(OUTCOMES, 0),
        "kept": dict.fromkeys(OUTCOMES, 0),
        "waited_seconds": 0.0,
        "desk_seconds": 0.0,
        "desk_known": 0,
        "tools": {},
        "by_rule": {},
        "listed": {"rejected": [], "edited": []},
        "errors": [],
    }


def add_unknown(totals: Totals, past: PastReview, why: str) -> None:
    """Add a review that the rules cannot evaluate; it counts as still reviewed."""
    _count(totals["unknown"], why)
    _add_still_reviewed(totals, past)


def add(totals: Totals, past: PastReview, verdict: Verdict) -> None:
    """Add a review with the verdict of the rules."""
    _count(totals["codes"], verdict.code)
    if verdict.code == "error" and len(totals["errors"]) < LISTED:
        totals["errors"].append({"record": past.record, **reason_fields("why", verdict.reason)})
    if not verdict.skips_review:
        _add_still_reviewed(totals, past)
        return
    totals["reviews"] += 1
    totals["spared"][past.outcome] += 1
    _of_tool(totals, past.target)["spared"][past.outcome] += 1
    by_rule = totals["by_rule"].setdefault(verdict.rule, dict.fromkeys(OUTCOMES, 0))
    by_rule[past.outcome] += 1
    if past.outcome != "expired":
        totals["waited_seconds"] = round(totals["waited_seconds"] + past.waited, 3)
        if past.desk is not None:
            totals["desk_seconds"] = round(totals["desk_seconds"] + past.desk, 3)
            totals["desk_known"] += 1
    _list(totals, past, verdict)


def _add_still_reviewed(totals: Totals, past: PastReview) -> None:
    totals["reviews"] += 1
    totals["kept"][past.outcome] += 1
    _of_tool(totals, past.target)["kept"][past.outcome] += 1


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _of_tool(totals: Totals, target: str) -> dict[str, dict[str, int]]:
    tools: dict[str, Any] = totals["tools"]
    name = target if target in tools or len(tools) < TOOLS else OTHER
    found: dict[str, dict[str, int]] = tools.setdefault(
        name, {"spared": dict.fromkeys(OUTCOMES, 0), "kept": dict.fromkeys(OUTCOMES, 0)}
    )
    return found


def _list(totals: Totals, past: PastReview, verdict: Verdict) -> None:
    """List a skipped review that a person had edited or rejected."""
    rows = totals["listed"].get(past.outcome)
    if rows is not None and len(rows) < LISTED:
        rows.append(
            {
                "record": past.record,
                "execution": past.execution,
                "node": past.node,
                "target": past.target,
                "changes": past.changes,
                "reviewer": past.reviewer,
                **reason_fields("why", verdict.reason),
            }
        )


@dataclass(frozen=True, slots=True)
class Headline:
    """The key figures of a report."""

    reviews: int
    spared: int
    unchanged: int
    edited: int
    rejected: int
    expired: int
    unknown: int

    @property
    def missed(self) -> int:
        """Skipped reviews that a person had edited or rejected."""
        return self.edited + self.rejected


def headline(totals: Mapping[str, Any]) -> Headline:
    """Return the key figures of a report."""
    spared = totals["spared"]
    return Headline(
        reviews=totals["reviews"],
        spared=sum(spared.values()),
        unchanged=spared["approved"],
        edited=spared["edited"],
        rejected=spared["rejected"],
        expired=spared["expired"],
        unknown=sum(totals["unknown"].values()),
    )
