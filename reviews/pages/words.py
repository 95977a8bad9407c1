"""Short phrases that several pages share."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.utils import timezone

from reviews.filters import risk_of
from reviews.models import HumanReviewRecord
from reviews.summaries import headline
from reviews.templatetags.desk import duration_words
from workflows.engine.policy import TriggerPhase
from workflows.engine.state import HoldReason
from workflows.models import Hold

_BEFORE = TriggerPhase.BEFORE_EXECUTION.value
_AFTER = TriggerPhase.AFTER_EXECUTION.value
_URGENT = 0.2

#: What becomes of a hold that nobody decides.
TIMEOUTS = {
    "reject": "it will be rejected",
    "approve": "it will be approved as it is",
    "abort": "the run will be aborted",
    "continue": "the run goes on",
    "keep_waiting": "it keeps waiting",
}


def counted(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun if number == 1 else noun + 's'}"


def run_title(title: str, execution_id: int) -> str:
    """`Release notes, run 4182`."""
    return f"{title}, run {execution_id}"


def hold_kind(hold: Hold) -> str:
    """The phase of a node review, else the reason, as `headline` takes it."""
    return hold.phase or hold.reason


def subject(hold: Hold) -> str:
    """The part of a hold's sentence that stands out."""
    if hold.phase == _BEFORE:
        return hold.target.rpartition(".")[2] or hold.task_id
    return hold.task_id


def row_sentence(hold: Hold) -> str:
    """`write_file will run in “Release notes”`."""
    return headline(hold_kind(hold), hold.target, hold.task_id, hold.execution.title)


def phase_words(phase: str, *, past: bool = False) -> str:
    """`before it runs`; in the past tense `before it ran`."""
    if phase == _BEFORE:
        return "before it ran" if past else "before it runs"
    return "after it ran" if phase == _AFTER else ""


def step_words(hold: Hold) -> str:
    """`step 3 of 4`."""
    return f"step {hold.layer + 1} of {hold.execution.total_layers}"


def group_words(groups: Collection[str]) -> str:
    """`the reviewer group`, `the groups legal and reviewer`."""
    names = sorted(groups)
    if not names:
        return ""
    if len(names) == 1:
        return f"the {names[0]} group"
    return f"the groups {', '.join(names[:-1])} and {names[-1]}"


def is_urgent(hold: Hold) -> bool:
    """Whether less than a fifth of the hold's time is left."""
    if hold.expires_at is None:
        return False
    total = hold.expires_at - hold.opened_at
    return hold.expires_at - timezone.now() < max(total, timedelta()) * _URGENT


def claimed_by(hold: Hold) -> str:
    """Who has claimed the hold and still holds the claim; "" for nobody."""
    claim = getattr(hold, "claim", None)
    if claim is None or claim.expires_at <= timezone.now():
        return ""
    return str(claim.user.get_username())


def looking_words(names: Collection[str]) -> str:
    """`reviewer2 looks at this`, `ann, bob and 2 more look at this`; "" for nobody."""
    some, rest = sorted(names)[:2], len(names) - 2
    if not some:
        return ""
    if rest > 0:
        return f"{', '.join(some)} and {rest} more look at this"
    return f"{' and '.join(some)} {'looks' if len(some) == 1 else 'look'} at this"


def risk(hold: Hold) -> tuple[str, str]:
    """low, medium or high, and the words for it."""
    level = risk_of(hold)
    if hold.reason == HoldReason.ESCALATION:
        return level, "asks for more permission"
    return level, "" if level == "low" else "does more than read"


def about(task_id: str, reason: str) -> str:
    """What a hold is about, for the middle of a sentence."""
    return task_id or _ABOUT.get(reason, reason.replace("_", " "))


#: Holds without a task whose reason is no noun.
_ABOUT = {"replan_review": "the plan change"}


# --- records --------------------------------------------------------------------------------------


def record_sentence(record: HumanReviewRecord, *, short: bool = False) -> str:
    """`reviewer approved write_file in Release notes with 2 changes, after 3 min`."""
    what = record_subject(record)
    where = "" if short else f" in {record.workflow_title}"
    if record.reviewer_id is None:
        verb = "approved" if record.decision == "APPROVE" else "rejected"
        return f"nobody decided about {what}{where} in time; it was {verb}"
    edits = f" with {counted(record.change_count, 'change')}" if record.is_edited else ""
    verb = "approved" if record.decision == "APPROVE" else "rejected"
    waited = "" if short else f", after {duration_words(record.waited_seconds)}"
    if record.waited_seconds < 1:
        waited = ""
    return f"{record.actor} {verb} {what}{where}{edits}{waited}"


def record_subject(record: HumanReviewRecord) -> str:
    """What was decided about: a tool before it ran, a task after, else the kind of hold."""
    if record.trigger_phase == _BEFORE:
        return record.target.rpartition(".")[2] or record.node_id
    return about(record.node_id, record.reason)


def record_outcome(record: HumanReviewRecord) -> str:
    """APPROVE, REJECT, or EXPIRED for what time decided."""
    return record.decision if record.reviewer_id else "EXPIRED"


def span_words(start: datetime, end: datetime) -> str:
    """How long it took, in one unit."""
    return duration_words((end - start).total_seconds())
