"""Adding up what rules would have done to past reviews.  Pure.

Sums are plain JSON, so that a worker can put them down between two steps and go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from workflows.engine.review_rules import Verdict

Outcome = Literal["approved", "edited", "rejected", "expired"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("approved", "edited", "rejected", "expired")
#: Reviews of each kind that a report names one by one, the newest ones.
LISTED: Final = 100
#: Tools that are counted by themselves.
TOOLS: Final = 50
OTHER: Final = "other tools"

Sums = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Past:
    """A review as it went.  `waited` is seconds from opening to deciding, `desk` those since it was
    claimed (None when nobody claimed it)."""

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
    """What became of a review; what time decided says nothing about the work."""
    if not by_person:
        return "expired"
    if decision == "REJECT":
        return "rejected"
    return "edited" if edited else "approved"


def empty() -> Sums:
    """Nothing looked at yet."""
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


def add_unknown(sums: Sums, past: Past, why: str) -> None:
    """A review that cannot be held against the rules; it counts as one that stays."""
    _count(sums["unknown"], why)
    _keep(sums, past)


def add(sums: Sums, past: Past, verdict: Verdict) -> None:
    """A review that the rules have a verdict on."""
    _count(sums["codes"], verdict.code)
    if verdict.code == "error" and len(sums["errors"]) < LISTED:
        sums["errors"].append({"record": past.record, "why": verdict.why})
    if not verdict.spared:
        _keep(sums, past)
        return
    sums["reviews"] += 1
    sums["spared"][past.outcome] += 1
    _of_tool(sums, past.target)["spared"][past.outcome] += 1
    by_rule = sums["by_rule"].setdefault(verdict.rule, dict.fromkeys(OUTCOMES, 0))
    by_rule[past.outcome] += 1
    if past.outcome != "expired":
        sums["waited_seconds"] = round(sums["waited_seconds"] + past.waited, 3)
        if past.desk is not None:
            sums["desk_seconds"] = round(sums["desk_seconds"] + past.desk, 3)
            sums["desk_known"] += 1
    _list(sums, past, verdict)


def _keep(sums: Sums, past: Past) -> None:
    sums["reviews"] += 1
    sums["kept"][past.outcome] += 1
    _of_tool(sums, past.target)["kept"][past.outcome] += 1


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _of_tool(sums: Sums, target: str) -> dict[str, dict[str, int]]:
    tools: dict[str, Any] = sums["tools"]
    name = target if target in tools or len(tools) < TOOLS else OTHER
    found: dict[str, dict[str, int]] = tools.setdefault(
        name, {"spared": dict.fromkeys(OUTCOMES, 0), "kept": dict.fromkeys(OUTCOMES, 0)}
    )
    return found


def _list(sums: Sums, past: Past, verdict: Verdict) -> None:
    """The ones that matter: where a person would have been missed."""
    rows = sums["listed"].get(past.outcome)
    if rows is not None and len(rows) < LISTED:
        rows.append(
            {
                "record": past.record,
                "execution": past.execution,
                "node": past.node,
                "target": past.target,
                "changes": past.changes,
                "reviewer": past.reviewer,
                "why": verdict.why,
            }
        )


@dataclass(frozen=True, slots=True)
class Headline:
    """What a reader wants to know first."""

    reviews: int
    spared: int
    unchanged: int
    edited: int
    rejected: int
    expired: int
    unknown: int

    @property
    def missed(self) -> int:
        """Spared reviews in which a person made a difference."""
        return self.edited + self.rejected


def headline(sums: Mapping[str, Any]) -> Headline:
    """The figures on top of a report."""
    spared = sums["spared"]
    return Headline(
        reviews=sums["reviews"],
        spared=sum(spared.values()),
        unchanged=spared["approved"],
        edited=spared["edited"],
        rejected=spared["rejected"],
        expired=spared["expired"],
        unknown=sum(sums["unknown"].values()),
    )
