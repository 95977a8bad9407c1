"""Labels and short phrases shared by pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.components.number_formatting import counted
from reviews.components.reasons import render_reason
from reviews.decisions.hold_text import headline
from reviews.models import Decision, HumanReviewRecord
from reviews.queue.filters import risk_of
from reviews.templatetags.desk import lasting_text, visible
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.models import Execution, Hold

_BEFORE = TriggerPhase.BEFORE_EXECUTION.value
_AFTER = TriggerPhase.AFTER_EXECUTION.value
_URGENT = 0.2

#: The effect of a timeout.
_TIMEOUTS = {
    "reject": N_("it will be rejected"),
    "approve": N_("it will be approved unchanged"),
    "abort": N_("the run will be aborted"),
    "continue": N_("the run continues"),
    "keep_waiting": N_("it stays open"),
}


def on_timeout(hold: Hold) -> str:
    """Return the effect of a timeout, for the end of a sentence."""
    known = _TIMEOUTS.get(hold.on_timeout)
    return _(known) if known else ""


def deadline_reason(hold: Hold) -> str:
    """Return how the deadline was counted; "" around the clock.  `hold.execution` is loaded."""
    hours = hold.execution.policy.get("business_hours")
    if not hours or hold.decider != "human":
        return ""
    return _("The time counts in the business hours of “%(name)s”.") % {"name": hours["name"]}


COMMANDS: Final = {
    "abort": N_("abort"),
    "continue": N_("continue"),
    "replan": N_("replan"),
    "inject_task": N_("add a task"),
    "modify_args": N_("change arguments"),
    "skip_layer": N_("skip a layer"),
    "update_state": N_("update the context"),
    "approval_response": N_("decision"),
    "checkpoint_response": N_("decision"),
    "withdraw_answer": N_("undo of a decision"),
    "add_message": N_("message"),
    "expire_hold": N_("timeout of a review"),
    "fail_execution": N_("end of a failed run"),
    "extend_hold": N_("extension of a deadline"),
    "escalate_hold": N_("escalation of a review"),
    "settle_answer": N_("end of the time to undo"),
    "resubmit_action": N_("changed arguments of an agent"),
    "report_result": N_("result of an agent's action"),
    "revise_plan": N_("new plan"),
}
"""`kind` of a command -> its label."""
COMMAND_OUTCOMES: Final = {
    "applied": N_("applied"),
    "queued": N_("applied after the layer"),
    "refused": N_("refused"),
    "invalid": N_("invalid"),
}


def command_text(kind: str) -> str:
    """Return the label of a command; unknown kinds with spaces."""
    known = COMMANDS.get(kind)
    return _(known) if known else kind.replace("_", " ")


def command_outcome_text(outcome: str) -> str:
    """Return the label of a command's outcome; unknown outcomes unchanged."""
    known = COMMAND_OUTCOMES.get(outcome)
    return _(known) if known else outcome


def progress_text(execution: Execution) -> str:
    """`layer 2 of 4`; the first one before it starts."""
    params = {"layer": max(execution.layer + 1, 1), "layers": execution.total_layers}
    return _("layer %(layer)s of %(layers)s") % params


def allowed_text(permissions: PermissionSet) -> str:
    """Describe a permission set, one sentence per entry."""
    return " ".join(render_reason(each) for each in permissions.descriptions())


@dataclass(frozen=True, slots=True)
class Fault:
    """A validation error of one value."""

    path: str
    message: str


def faults(errors: Iterable[Any]) -> tuple[Fault, ...]:
    """Convert errors with `path` and `message`."""
    return tuple(Fault(each.path, each.message) for each in errors)


def run_title(title: str, execution_id: int) -> str:
    """Return `Release notes, run 4182`, with invisible characters escaped."""
    return _("%(title)s, run %(number)s") % {
        "title": visible(title),
        "number": execution_id,
    }


def hold_kind(hold: Hold) -> str:
    """Return the phase of a node review, else the reason, as `headline` expects it."""
    return hold.phase or hold.reason


def subject(hold: Hold) -> str:
    """Return the part of a hold's sentence in bold."""
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


def kind_text(hold: Hold, *, past: bool = False) -> str:
    """`write_file will run`, `output of draft`, `layer approval`."""
    if hold.phase == _BEFORE:
        tool = hold.target.rpartition(".")[2] or hold.task_id
        return (_("%(tool)s before it ran") if past else _("%(tool)s will run")) % {"tool": tool}
    if hold.phase == _AFTER:
        return _("output of %(task)s") % {"task": hold.task_id}
    if hold.reason == HoldReason.ESCALATION:
        return _("asks for permission")
    return hold_reason_text(hold.reason)


def layer_text(hold: Hold) -> str:
    """`layer 3/4`."""
    params = {"layer": hold.layer + 1, "layers": hold.execution.total_layers}
    return _("layer %(layer)s/%(layers)s") % params


def step_text(hold: Hold) -> str:
    """`layer 3 of 4`."""
    params = {"layer": hold.layer + 1, "layers": hold.execution.total_layers}
    return _("layer %(layer)s of %(layers)s") % params


def group_text(groups: Collection[str]) -> str:
    """`the reviewer group`, `the groups legal and reviewer`."""
    names = sorted(groups)
    if not names:
        return ""
    if len(names) == 1:
        return _("the %(name)s group") % {"name": names[0]}
    params = {"names": ", ".join(names[:-1]), "last": names[-1]}
    return _("the groups %(names)s and %(last)s") % params


def is_urgent(hold: Hold) -> bool:
    """Return whether less than a fifth of the hold's time is left."""
    if hold.expires_at is None:
        return False
    total = hold.expires_at - hold.opened_at
    return hold.expires_at - timezone.now() < max(total, timedelta()) * _URGENT


def claimed_by(hold: Hold) -> str:
    """Return the name of the current claimant, or ""."""
    claim = getattr(hold, "claim", None)
    if claim is None or claim.expires_at <= timezone.now():
        return ""
    return str(claim.user.get_username())


def viewers_text(names: Collection[str]) -> str:
    """Return `reviewer2 is viewing`, `ann, bob and 2 more are viewing`, or ""."""
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
    """Return low, medium or high, and its label."""
    level = risk_of(hold)
    if hold.reason == HoldReason.ESCALATION:
        return level, _("requests permission")
    return level, "" if level == "low" else _("can modify data")


def about(task_id: str, reason: str) -> str:
    """Return the subject of a hold, for the middle of a sentence."""
    return task_id or hold_reason_text(reason)


def hold_reason_text(reason: str) -> str:
    """Return the reason of a hold as a noun; unknown reasons unchanged."""
    known = _REASONS.get(reason)
    return _(known) if known else reason.replace("_", " ")


_REASONS = {
    "replan_review": N_("the plan change"),
    "node_review": N_("task review"),
    "layer_approval": N_("layer approval"),
    "layer_validation": N_("layer validation"),
    "escalation": N_("permission request"),
    "agent_decision": N_("agent decision"),
}


# --- records --------------------------------------------------------------------------------------


def actor_text(record: HumanReviewRecord) -> str:
    """`ben`, or `ben (for ann)` for a decision of ann's delegate."""
    if not record.on_behalf_of:
        return record.actor
    return _("%(name)s (for %(absent)s)") % {"name": record.actor, "absent": record.on_behalf_of}


SOURCES: Final = {
    "web": N_("Desk"),
    "admin": N_("Admin"),
    "bulk": N_("Several at once"),
    "link": N_("Link in an e-mail"),
    "slack": N_("Slack"),
    "rest": N_("REST"),
    "mcp": N_("MCP"),
    "time": N_("Time ran out"),
}
"""`source` of a record -> its name: where the decision was made."""
COMMAND_SOURCES: Final = {**SOURCES, "sweeper": N_("Sweeper")}
"""`source` of a command -> its name: where it came from."""


def source_text(source: str) -> str:
    """Return the name of a source; unknown sources unchanged."""
    known = COMMAND_SOURCES.get(source)
    return _(known) if known else source


def record_sentence(record: HumanReviewRecord, *, short: bool = False) -> str:
    """`reviewer approved write_file in Release notes with 2 changes, after 3 min`."""
    is_approved = record.decision == "APPROVE"
    params = {
        "name": actor_text(record),
        "what": record_subject(record),
        "run": record.workflow_title,
        "changes": counted(record.change_count, "change"),
        "time": lasting_text(record.waited_seconds),
    }
    if record.decision == Decision.WITHDRAW:
        return _withdrawal_sentence(record, params, short=short)
    if record.reviewer_id is None:
        return _(_TIMED_OUT[is_approved, short]) % params
    text = _(_DECIDED[is_approved, record.is_edited, short]) % params
    if record.decision == Decision.REQUEST_CHANGES:
        text = _(_SENT_BACK[short]) % params
    if short or record.waited_seconds < 1:
        return text
    return _("%(sentence)s, after %(time)s") % {"sentence": text, "time": params["time"]}


#: (approved, short) → the sentence about a timeout.
_TIMED_OUT = {
    (True, True): N_("%(what)s timed out and was approved"),
    (True, False): N_("%(what)s in %(run)s timed out and was approved"),
    (False, True): N_("%(what)s timed out and was rejected"),
    (False, False): N_("%(what)s in %(run)s timed out and was rejected"),
}
#: (approved, edited, short) → the sentence about a person's decision.
_DECIDED = {
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
#: (withdrawn decision, short) → the sentence about a withdrawal.
_WITHDRAWALS = {
    ("APPROVE", True): N_("%(name)s withdrew the approval of %(what)s"),
    ("APPROVE", False): N_("%(name)s withdrew the approval of %(what)s in %(run)s"),
    ("REJECT", True): N_("%(name)s withdrew the rejection of %(what)s"),
    ("REJECT", False): N_("%(name)s withdrew the rejection of %(what)s in %(run)s"),
    ("REQUEST_CHANGES", True): N_("%(name)s withdrew the request for changes to %(what)s"),
    ("REQUEST_CHANGES", False): N_(
        "%(name)s withdrew the request for changes to %(what)s in %(run)s"
    ),
}


def _withdrawal_sentence(record: HumanReviewRecord, params: dict[str, Any], *, short: bool) -> str:
    """Return `ann withdrew the approval of write_file in Release notes`."""
    withdrawn = record.withdraws
    was = withdrawn.decision if withdrawn else "APPROVE"
    text = _(_WITHDRAWALS[was, short]) % params
    if withdrawn is None or withdrawn.actor == record.actor:
        return text
    return _("%(sentence)s by %(name)s") % {"sentence": text, "name": withdrawn.actor}


def record_subject(record: HumanReviewRecord) -> str:
    """Return the subject of a record: tool before execution, task after, else the reason."""
    if record.trigger_phase == _BEFORE:
        return record.target.rpartition(".")[2] or record.node_id
    return about(record.node_id, record.reason)


def record_outcome(record: HumanReviewRecord) -> str:
    """Return the decision of a record, or EXPIRED for a timeout."""
    by_person = record.reviewer_id or record.decision == Decision.WITHDRAW
    return record.decision if by_person else "EXPIRED"


def span_text(start: datetime, end: datetime) -> str:
    """Return the duration in one unit."""
    return lasting_text((end - start).total_seconds())
