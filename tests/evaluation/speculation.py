"""How often speculative results are used, and the seconds that they save, on replayed decisions.

The histories are invented: each workflow holds a task behind which some reads wait. People approve
unchanged (all results are used), edit (half of them are) or reject (none is). The product's policy
decides before each decision what to compute, from the decisions so far.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from workflows import conf
from workflows.speculation import policy

_DAYS = 7
_START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Read:
    """A task behind the hold: its tool, the seconds it takes, and whether its result fits."""

    tool: str
    seconds: float
    fits: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about one hold, and the reads behind it."""

    id: str
    when: datetime
    reads: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """A workflow: decisions a day, and on each day the shares of approvals and of edits."""

    per_day: int
    days: tuple[tuple[float, float], ...]

    def history(self, label: str) -> list[Decision]:
        """Draw the decisions of a week."""
        chance = random.Random(label)
        every = timedelta(days=1) / self.per_day
        return [
            self._decision(f"{label}-{at}", _START + at * every, chance)
            for at in range(_DAYS * self.per_day)
        ]

    def _decision(self, name: str, when: datetime, chance: random.Random) -> Decision:
        approved, edited = self.days[(when - _START).days % len(self.days)]
        outcome = chance.random()
        reads = tuple(
            Read(
                tool=f"read{at}",
                seconds=chance.expovariate(1 / 1.5),
                fits=outcome < approved or (outcome < approved + edited and chance.random() < 0.5),
            )
            for at in range(chance.choice((1, 2, 3, 6)))
        )
        return Decision(name, when, reads)


WORKLOADS = {
    "mostly approved": Workload(60, ((0.85, 0.1),)),
    "often edited": Workload(60, ((0.6, 0.3),)),
    "two in three": Workload(60, ((0.65, 0.0),)),
    "mostly rejected": Workload(60, ((0.2, 0.1),)),
    "few, two in three": Workload(8, ((0.65, 0.1),)),
    "bad, then good": Workload(60, ((0.1, 0.1), (0.1, 0.1), *((0.9, 0.05),) * (_DAYS - 2))),
}
_IMPROVES = _START + timedelta(days=2)


@dataclass(slots=True)
class Outcome:
    """What one policy did on one history."""

    used: int = 0
    dropped: int = 0
    saved: float = 0.0
    wasted: float = 0.0
    possible: float = 0.0
    stops: int = 0
    computed_at: list[datetime] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """Share of used results."""
        return self.used / max(1, self.used + self.dropped)


@dataclass(frozen=True, slots=True)
class _Result:
    decision: str
    tool: str
    used: bool
    when: datetime


def replay(
    history: Sequence[Decision], confidence: policy.Confidence, *, former: bool = False
) -> Outcome:
    """Let the policy choose before each decision; ``former`` counts results and never explores."""
    outcome, results, was_stopped = Outcome(), list[_Result](), False
    memory = timedelta(seconds=conf.speculation_memory_seconds())
    for decision in history:
        results = [each for each in results if each.when > decision.when - memory]
        stopped = policy.stopped(_newest(results, former=former)) is not None
        outcome.stops += stopped and not was_stopped
        was_stopped = stopped
        explores = not former and policy.explores(decision.id)
        for read in decision.reads:
            outcome.possible += read.seconds * read.fits
            tally = _tally(results, read.tool, former=former)
            worthwhile = not stopped and policy.is_worthwhile(confidence, tally)
            if not (worthwhile or explores):
                continue
            explores = False
            outcome.computed_at += [] if stopped else [decision.when]
            outcome.used += read.fits
            outcome.dropped += not read.fits
            outcome.saved += read.seconds * read.fits
            outcome.wasted += read.seconds * (not read.fits)
            results.append(_Result(decision.id, read.tool, read.fits, decision.when))
    return outcome


def _newest(results: Sequence[_Result], *, former: bool) -> list[tuple[bool, datetime]]:
    newest = [(each.decision, each.used, each.when) for each in reversed(results)]
    found = [each[1:] for each in newest] if former else policy.decisions(newest)
    return found[: conf.speculation_window()]


def _tally(results: Sequence[_Result], tool: str, *, former: bool) -> policy.Tally:
    mine = [(each.decision, each.used, each.when) for each in results if each.tool == tool]
    outcomes = [each[1:] for each in mine] if former else policy.decisions(mine)
    hits = sum(hit for hit, _ in outcomes)
    return policy.Tally(hits, len(outcomes) - hits)


def measure() -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        f"{'':20}{'results used':>14}{'seconds saved':>15}{'of possible':>13}{'wasted':>9}"
        f"{'stops':>7}{'resumed after':>15}"
    )
    rules: tuple[tuple[str, policy.Confidence, bool], ...] = (
        ("confidence 0.7", 0.7, False),
        ('confidence "learned"', "learned", False),
        ("former rule, 0.7", 0.7, True),
        ('former rule, "learned"', "learned", True),
    )
    for rule, confidence, former in rules:
        yield rule
        every = Outcome()
        for label, workload in WORKLOADS.items():
            found = replay(workload.history(label), confidence, former=former)
            resumed = next((at for at in found.computed_at if at >= _IMPROVES), None)
            recovery = f"{(resumed - _IMPROVES).total_seconds() / 3600:.1f} h" if resumed else "-"
            yield _line(label, found, recovery if label == "bad, then good" else "")
            for name in ("used", "dropped", "saved", "wasted", "possible", "stops"):
                setattr(every, name, getattr(every, name) + getattr(found, name))
        yield _line("all", every, "")


def _line(label: str, found: Outcome, resumed: str) -> str:
    return (
        f"  {label:18}{found.hit_rate:14.2f}{found.saved:13.0f} s"
        f"{found.saved / found.possible:13.2f}{found.wasted:7.0f} s{found.stops:7}{resumed:>15}"
    )
