"""Panels of a run: speculation, and policy overrides."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.authoring.policy_labels import policy_label, policy_value
from reviews.components.number_formatting import counted, number_text
from reviews.decisions.api_context import shown_overrides
from reviews.templatetags.desk import seconds_text
from workflows import conf
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.status import ExecutionStatus
from workflows.executions.selectors import (
    SpeculationCounts,
    open_holds,
    speculation_counts,
    speculation_stopped,
    speculative_results,
    speculative_results_behind,
)
from workflows.models import Execution, Hold
from workflows.speculation.policy import Stopped

#: Period after a hold opened in which the page polls: speculation sends no change notification.
_JUST_OPENED = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationStatus:
    """The speculation block of the run page.  `ready` are ids of tasks with a stored result."""

    sentence: str
    facts: tuple[str, ...]
    ready: frozenset[str]
    looks_again: bool
    stopped: str
    until: datetime | None
    restart_url: str


def speculation_panel(execution: Execution, *, may: bool) -> SpeculationStatus | None:
    """Return the speculation block, or None if the policy disables speculation."""
    enabled = Policy.model_validate(execution.policy).speculation.enabled
    if not enabled:
        return None
    states, counts = speculative_results(execution), speculation_counts(execution)
    live = not ExecutionStatus(execution.status).is_final
    stopped = speculation_stopped(execution) if live else None
    running = [name for name, state in states.items() if state == "RUNNING"]
    ready = frozenset(states).difference(running)
    looks_again = ExecutionStatus(execution.status).is_resting and (
        bool(running) or (not ready and not stopped and _just_opened(execution))
    )
    return SpeculationStatus(
        sentence=_sentence(execution, len(ready), len(running), counts),
        facts=_facts(counts),
        ready=ready,
        looks_again=looks_again,
        stopped=_stopped_text(stopped) if stopped else "",
        until=stopped.until if stopped else None,
        restart_url=reverse("reviews:work_ahead", args=(execution.pk,)) if stopped and may else "",
    )


def _just_opened(execution: Execution) -> bool:
    latest = open_holds(execution).values_list("opened_at", flat=True).last()
    return latest is not None and timezone.now() - latest < _JUST_OPENED


def _sentence(execution: Execution, ready: int, running: int, counts: SpeculationCounts) -> str:
    parts = []
    if ready:
        parts.append(_ready_text(ready))
    if running:
        text = ngettext(
            "%(n)s task is being precomputed.", "%(n)s tasks are being precomputed.", running
        )
        parts.append(text % {"n": running})
    if parts:
        return " ".join(parts)
    total = counts.hits + counts.misses
    if total:
        text = ngettext(
            "%(hits)s of %(results)s precomputed was used.",
            "%(hits)s of %(results)s precomputed were used.",
            counts.hits,
        )
        return text % {"hits": counts.hits, "results": counted(total, "result")}
    if ExecutionStatus(execution.status).is_resting:
        return _("Nothing is precomputed: only read-only tools can be.")
    return _("While a review is open, the tasks after it are precomputed.")


def _ready_text(ready: int) -> str:
    text = ngettext(
        "%(n)s later task is already computed; its result is used if you approve unchanged.",
        "%(n)s later tasks are already computed; their results are used if you approve unchanged.",
        ready,
    )
    return text % {"n": ready}


def _facts(counts: SpeculationCounts) -> tuple[str, ...]:
    if not (counts.hits or counts.misses or counts.wasted_seconds):
        return ()
    used = ngettext("%(n)s used", "%(n)s used", counts.hits)
    dropped = ngettext("%(n)s discarded", "%(n)s discarded", counts.misses)
    facts = [used % {"n": counts.hits}, dropped % {"n": counts.misses}]
    if counts.saved_seconds >= 0.05:
        facts.append(_("%(time)s saved") % {"time": seconds_text(counts.saved_seconds)})
    if counts.wasted_seconds >= 0.05:
        facts.append(_("%(time)s wasted") % {"time": seconds_text(counts.wasted_seconds)})
    return tuple(facts)


def _stopped_text(stopped: Stopped) -> str:
    tally = stopped.tally
    total = tally.hits + tally.misses
    text = _("Stopped: only %(hits)s of the last %(total)s decisions used precomputed results.")
    return text % {"hits": tally.hits, "total": total}


def behind(hold: Hold) -> str:
    """Return the speculation line of the decision page; "" without stored results."""
    if hold.status != Hold.Status.OPEN:
        return ""
    ready = [each for each in speculative_results_behind(hold) if each.state == "READY"]
    return _ready_text(len(ready)) if ready else ""


# --- policy overrides -----------------------------------------------------------------------------


def overrides_context(execution: Execution) -> tuple[dict[str, Any], ...]:
    """Return the masked policy overrides of a run, loosening ones first."""
    rows = sorted(shown_overrides(execution), key=lambda each: not each["loosens"])
    return tuple(
        {
            "field": each["field"],
            "label": policy_label(each["field"]),
            "before": _policy_text(each["field"], each["from"]),
            "after": _policy_text(each["field"], each["to"]),
            "loosens": each["loosens"],
            "by": each["by"],
        }
        for each in rows
    )


def _policy_text(field: str, value: Any) -> str:
    if field.endswith("_seconds") and isinstance(value, int | float):
        return seconds_text(value)
    words = policy_value(field, value)
    if words != value:
        return str(words)
    return number_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def floor_json() -> str:
    """Return the policy floor of plans without a workflow, as indented JSON."""
    return json.dumps(conf.policy_floor(), indent=2, ensure_ascii=False)
