"""Work ahead as people see it: what waits for a decision, what came of it, whether it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils import timezone

from reviews.templatetags.desk import seconds_words
from workflows.engine.policy import Policy
from workflows.engine.status import ExecutionStatus
from workflows.models import Execution, Hold
from workflows.odds import Stopped
from workflows.selectors import (
    SpeculationCounts,
    open_holds,
    speculated,
    speculation_counts,
    speculation_stopped,
    speculations_behind,
)

from . import words

#: For so long after a hold opened a page looks again by itself: work ahead says nothing when done.
_LOOKS_AGAIN = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkAhead:
    """The block of the run page.  `ready` are ids of tasks with a result that waits."""

    sentence: str
    facts: tuple[str, ...]
    ready: frozenset[str]
    looks_again: bool
    stopped: str
    until: datetime | None
    restart_url: str


def work_ahead(execution: Execution, *, may: bool) -> WorkAhead | None:
    """None for a run whose policy does without, and that has none."""
    enabled = Policy.model_validate(execution.policy).speculation.enabled
    if not enabled:
        return None
    states, counts = speculated(execution), speculation_counts(execution)
    live = not ExecutionStatus(execution.status).is_final
    stopped = speculation_stopped(execution) if live else None
    running = [name for name, state in states.items() if state == "RUNNING"]
    ready = frozenset(states).difference(running)
    looks_again = ExecutionStatus(execution.status).is_resting and (
        bool(running) or (not ready and not stopped and _just_opened(execution))
    )
    return WorkAhead(
        sentence=_sentence(execution, len(ready), len(running), counts),
        facts=_facts(counts),
        ready=ready,
        looks_again=looks_again,
        stopped=_stopped_words(stopped) if stopped else "",
        until=stopped.until if stopped else None,
        restart_url=reverse("reviews:work_ahead", args=(execution.pk,)) if stopped and may else "",
    )


def _just_opened(execution: Execution) -> bool:
    latest = open_holds(execution).values_list("opened_at", flat=True).last()
    return latest is not None and timezone.now() - latest < _LOOKS_AGAIN


def _sentence(execution: Execution, ready: int, running: int, counts: SpeculationCounts) -> str:
    parts = []
    if ready:
        parts.append(_ready_words(ready))
    if running:
        parts.append(f"{words.counted(running, 'step')} being computed ahead.")
    if parts:
        return " ".join(parts)
    total = counts.hits + counts.misses
    if total:
        used = f"{counts.hits} of {words.counted(total, 'result')} computed ahead"
        return f"{used} {'was' if counts.hits == 1 else 'were'} used."
    if ExecutionStatus(execution.status).is_resting:
        return "Nothing is computed ahead: only tools that do no more than read are."
    return "While a decision is open, what lies behind it is computed ahead."


def _ready_words(ready: int) -> str:
    verb, they = ("is", "it is") if ready == 1 else ("are", "they are")
    steps = words.counted(ready, "step")
    return f"{steps} behind this {verb} already computed; {they} used if you approve unchanged."


def _facts(counts: SpeculationCounts) -> tuple[str, ...]:
    if not (counts.hits or counts.misses or counts.wasted_seconds):
        return ()
    told = [f"{counts.hits} used", f"{counts.misses} dropped"]
    for seconds, what in ((counts.saved_seconds, "saved"), (counts.wasted_seconds, "wasted")):
        if seconds >= 0.05:
            told.append(f"{seconds_words(seconds)} {what}")
    return tuple(told)


def _stopped_words(stopped: Stopped) -> str:
    tally = stopped.tally
    total = tally.hits + tally.misses
    return f"Stopped: only {tally.hits} of the last {total} results were used."


def behind(hold: Hold) -> str:
    """The quiet line of the decision page; "" when nothing is known ahead."""
    if hold.status != Hold.Status.OPEN:
        return ""
    ready = [each for each in speculations_behind(hold) if each.state == "READY"]
    return _ready_words(len(ready)) if ready else ""
