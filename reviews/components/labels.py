"""Short phrases that several pages share."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.components.number_formatting import counted
from reviews.decisions.summaries import headline
from reviews.models import Decision, HumanReviewRecord
from reviews.queue.filters import risk_of
from reviews.templatetags.desk import lasting_text, visible
from workflows.engine.permissions import PermissionSet
from workflows.engine.policy import TriggerPhase
from workflows.engine.state import HoldReason
from workflows.models import Execution, Hold

_BEFORE = TriggerPhase.BEFORE_EXECUTION.value
_AFTER = TriggerPhase.AFTER_EXECUTION.value
_URGENT = 0.2

#: What becomes of a hold that nobody decides.
_TIMEOUTS = {
    "reject": N_("it will be rejected"),
    "approve": N_("it will be approved unchanged"),
    "abort": N_("the run will be aborted"),
    "continue": N_("the run continues"),
    "keep_waiting": N_("it stays open"),
}


def on_timeout(hold: Hold) -> str:
    """What becomes of the hold when nobody decides, for the end of a sentence."""
    known = _TIMEOUTS.get(hold.on_timeout)
    return _(known) if known else ""


def progress_text(execution: Execution) -> str:
    """`layer 2 of 4`."""
    told = {"layer": max(execution.layer + 1, 0), "layers": execution.total_layers}
    return _("layer %(layer)s of %(layers)s") % told


def allowed_text(permissions: PermissionSet) -> str:
    """What a permission set allows, a sentence per entry."""
    return " ".join(each for each in permissions.sentences())


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one value, in the language of the page."""

    path: str
    message: str


def faults(errors: Iterable[Any]) -> tuple[Fault, ...]:
    """Errors with `path` and `message`, said in the language of the page."""
    return tuple(Fault(each.path, each.message) for each in errors)


def run_title(title: str, execution_id: int) -> str:
    """`Release notes, run 4182`; characters that turn or hide text are spelled out."""
    return _("%(title)s, run %(number)s") % {"title": visible(title), "number": execution_id}


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


def phase_text(phase: str, *, past: bool = False) -> str:
    """`before it runs`; in the past tense `before it ran`."""
    if phase == _BEFORE:
        return _("before it ran") if past else _("before it runs")
    return _("after it ran") if phase == _AFTER else ""


def step_text(hold: Hold) -> str:
    """`step 3 of 4`."""
    told = {"step": hold.layer + 1, "steps": hold.execution.total_layers}
    return _("step %(step)s of %(steps)s") % told


def group_text(groups: Collection[str]) -> str:
    """`the reviewer group`, `the groups legal and reviewer`."""
    names = sorted(groups)
    if not names:
        return ""
    if len(names) == 1:
        return _("the %(name)s group") % {"name": names[0]}
    told = {"names": ", ".join(names[:-1]), "last": names[-1]}
    return _("the groups %(names)s and %(last)s") % told


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


def viewers_text(names: Collection[str]) -> str:
    """`reviewer2 looks at this`, `ann, bob and 2 more look at this`; "" for nobody."""
    some, rest = sorted(names)[:2], len(names) - 2
    if not some:
        return ""
    if rest > 0:
        text = ngettext(
            "%(names)s and %(n)s more are viewing", "%(names)s and %(n)s more are viewing", rest
        )
        return text % {"names": ", ".join(some), "n": rest}
    if len(some) == 1:
        return _("%(name)s is viewing") % {"name": some[0]}
    return _("%(one)s and %(other)s are viewing") % {"one": some[0], "other": some[1]}


def risk(hold: Hold) -> tuple[str, str]:
    """low, medium or high, and the words for it."""
    level = risk_of(hold)
    if hold.reason == HoldReason.ESCALATION:
        return level, _("asks for more permission")
    return level, "" if level == "low" else _("can modify data")


def about(task_id: str, reason: str) -> str:
    """What a hold is about, for the middle of a sentence."""
    return task_id or reason_text(reason)


def reason_text(reason: str) -> str:
    """Why a hold opened, as a noun; a reason that is not known as it is."""
    known = _REASONS.get(reason)
    return _(known) if known else reason.replace("_", " ")


_REASONS = {
    "replan_review": N_("the plan change"),
    "node_review": N_("node review"),
    "layer_approval": N_("layer approval"),
    "layer_validation": N_("layer validation"),
    "escalation": N_("escalation"),
    "agent_decision": N_("agent decision"),
}


# --- records --------------------------------------------------------------------------------------


def record_sentence(record: HumanReviewRecord, *, short: bool = False) -> str:
    """`reviewer approved write_file in Release notes with 2 changes, after 3 min`."""
    is_approved = record.decision == "APPROVE"
    told = {
        "name": record.actor,
        "what": record_subject(record),
        "run": record.workflow_title,
        "changes": counted(record.change_count, "change"),
        "time": lasting_text(record.waited_seconds),
    }
    if record.decision == Decision.WITHDRAW:
        return _taken_back(record, told, short=short)
    if record.reviewer_id is None:
        return _(_IN_NO_TIME[is_approved, short]) % told
    text = _(_BY_SOMEBODY[is_approved, record.is_edited, short]) % told
    if record.decision == Decision.REQUEST_CHANGES:
        text = _(_SENT_BACK[short]) % told
    if short or record.waited_seconds < 1:
        return text
    return _("%(sentence)s, after %(time)s") % {"sentence": text, "time": told["time"]}


#: (approved, short) → the sentence about what time decided.
_IN_NO_TIME = {
    (True, True): N_("%(what)s timed out and was approved"),
    (True, False): N_("%(what)s in %(run)s timed out and was approved"),
    (False, True): N_("%(what)s timed out and was rejected"),
    (False, False): N_("%(what)s in %(run)s timed out and was rejected"),
}
#: (approved, edited, short) → the sentence about what a person decided.
_BY_SOMEBODY = {
    (True, False, True): N_("%(name)s approved %(what)s"),
    (True, False, False): N_("%(name)s approved %(what)s in %(run)s"),
    (True, True, True): N_("%(name)s approved %(what)s with %(changes)s"),
    (True, True, False): N_("%(name)s approved %(what)s in %(run)s with %(changes)s"),
    (False, False, True): N_("%(name)s rejected %(what)s"),
    (False, False, False): N_("%(name)s rejected %(what)s in %(run)s"),
    (False, True, True): N_("%(name)s rejected %(what)s with %(changes)s"),
    (False, True, False): N_("%(name)s rejected %(what)s in %(run)s with %(changes)s"),
}


#: short → the sentence about a request for changes.
_SENT_BACK = {
    True: N_("%(name)s requested changes to %(what)s"),
    False: N_("%(name)s requested changes to %(what)s in %(run)s"),
}
#: (what was taken back, short) → the sentence that says so.
_TAKEN_BACK = {
    ("APPROVE", True): N_("%(name)s withdrew the approval of %(what)s"),
    ("APPROVE", False): N_("%(name)s withdrew the approval of %(what)s in %(run)s"),
    ("REJECT", True): N_("%(name)s withdrew the rejection of %(what)s"),
    ("REJECT", False): N_("%(name)s withdrew the rejection of %(what)s in %(run)s"),
    ("REQUEST_CHANGES", True): N_("%(name)s withdrew the request for changes to %(what)s"),
    ("REQUEST_CHANGES", False): N_(
        "%(name)s withdrew the request for changes to %(what)s in %(run)s"
    ),
}


def _taken_back(record: HumanReviewRecord, told: dict[str, Any], *, short: bool) -> str:
    """`ann took back the approval of write_file in Release notes`."""
    gone = record.withdraws
    was = gone.decision if gone else "APPROVE"
    text = _(_TAKEN_BACK[was, short]) % told
    if gone is None or gone.actor == record.actor:
        return text
    return _("%(sentence)s by %(name)s") % {"sentence": text, "name": gone.actor}


def record_subject(record: HumanReviewRecord) -> str:
    """What was decided about: a tool before it ran, a task after, else the kind of hold."""
    if record.trigger_phase == _BEFORE:
        return record.target.rpartition(".")[2] or record.node_id
    return about(record.node_id, record.reason)


def record_outcome(record: HumanReviewRecord) -> str:
    """What the record's decision is, or EXPIRED for what time decided."""
    by_person = record.reviewer_id or record.decision == Decision.WITHDRAW
    return record.decision if by_person else "EXPIRED"


def span_text(start: datetime, end: datetime) -> str:
    """How long it took, in one unit."""
    return lasting_text((end - start).total_seconds())
