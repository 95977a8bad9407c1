"""Context of the decision page."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.audit.reveals import hold_place, may_reveal
from reviews.components import labels as components_labels
from reviews.components.json_diffs import diff
from reviews.components.number_formatting import grouped
from reviews.components.reasons import render_reason, render_stored
from reviews.decisions.edits import payload_schema, shown_payload
from reviews.decisions.hold_text import closed_headline, headline
from reviews.decisions.masking import Masked, edited_as_shown, masked
from reviews.decisions.payload_forms import payload_fields
from reviews.decisions.rights import Right, right_now
from reviews.decisions.services import reason_required
from reviews.models import Decision, HumanReviewRecord
from reviews.queue import selectors
from reviews.queue.pages import claim_context, deadline_addresses
from reviews.runs.panels import behind, overrides_context
from workflows.common.schemas import FieldError
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.models import ExecutionEvent, Hold

from .conflicts import conflict_context, shown_digest
from .edit_impact import impact_context, takes_edits
from .external_action import (
    allows_edits,
    external_action_context,
    is_external_action,
    with_locks,
)
from .hold_context import HoldContext, effects
from .layer_review import REJECT_PRESETS as LAYER_PRESETS
from .layer_review import layer_review_context
from .masked_values import masks_context
from .permission_requests import NARROWEST, REJECT_PRESETS, GrantChoice, escalation_context
from .plan_review import ALL_KEPT, KeptTasks, plan_review_context
from .plan_review import REJECT_PRESETS as PLAN_PRESETS
from .standing_answer_form import NOT_GIVEN, StandingChoice, standing_context
from .withdrawal import withdrawal_context, without_withdrawn

if TYPE_CHECKING:
    from django.contrib.auth.models import User


#: Characters of a payload that a page shows at once; what is longer is read in parts of as many.
MAX_SHOWN_CHARACTERS = 400_000

_PRESETS = {
    TriggerPhase.BEFORE_EXECUTION.value: (
        N_("Wrong arguments"),
        N_("Not now"),
        N_("Should not run at all"),
    ),
    TriggerPhase.AFTER_EXECUTION.value: (
        N_("Wrong result"),
        N_("Incomplete"),
        N_("Needs another look"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormState:
    """A posted form that was not accepted, or has to be confirmed: it is shown again.

    `value` is the whole payload as the person made it; `text` the JSON text in JSON mode; `read`
    how many characters of a long payload they have before them. With `asks_for_more` nothing was
    submitted: the next part of such a payload is wanted. `unnamed` are the keys that the edit
    adds and the tool's schema does not name.
    """

    value: Any
    text: str = ""
    comment: str = ""
    mode: str = "form"
    errors: tuple[FieldError, ...] = ()
    rejected: dict[str, str] | None = None
    stale: bool = False
    confirm: bool = False
    unnamed: tuple[str, ...] = ()
    grant_choice: GrantChoice = NARROWEST
    standing: StandingChoice = NOT_GIVEN
    kept: KeptTasks = ALL_KEPT
    read: int = 0
    asks_for_more: bool = False
    decision: str = ""


#: Decision of a form that is shown again → the panel that is open in it.
_PANELS = {"REJECT": "reject", "REQUEST_CHANGES": "changes"}


def decision_context(user: User, hold: Hold, form: FormState | None = None) -> dict[str, Any]:
    """`d` of the templates; `hold.execution` is loaded."""
    right = right_now(user, hold)
    run_records = HumanReviewRecord.objects.filter(execution_id=hold.execution_id).with_keys()
    records = list(run_records.select_related("withdraws").order_by("id"))
    hold_records = without_withdrawn([record for record in records if record.hold_id == hold.id])
    schema = payload_schema(hold)
    view = shown_payload(hold, schema)
    shown = as_shown(hold, view)
    state = hold_state(hold, hold_records)
    hold_context = HoldContext(shown, may_reveal=may_reveal(user, hold.execution, hold))
    form_context = _form_context(view, form)
    edited = form if form and not form.asks_for_more else None
    return {
        **_addresses(hold),
        **deadline_addresses(hold, right),
        **_heading(hold),
        **_standing(hold, right, state, hold_records, user),
        **_payload(shown, form, schema),
        "masks": masks_context(view, hold_place(hold), may=hold_context.may_reveal),
        "undo": withdrawal_context(user, hold),
        **revision_rounds_context(hold, view),
        "overrides": overrides_context(hold.execution),
        "escalation": escalation_context(shown, form.grant_choice if form else NARROWEST),
        "external_action": external_action_context(hold),
        "standing_answer": _standing_answer(shown, right, form),
        "plan_review": _plan_review(hold, view, hold_records, form),
        "layer_review": layer_review_context(shown, hold_context.by_id, view),
        **effects(hold_context),
        "ahead": behind(hold),
        **closed_hold_context(hold, state, hold_records, hold_context, view),
        "layers": hold_context.layer_steps(),
        "context": hold_context.sections(),
        "history": hold_context.history(records),
        "reject_presets": tuple(_(each) for each in _presets(hold)),
        "next_review_url": _next_url(user, hold) if _is_closed_for(hold, state, user) else "",
        **form_context,
        "impact": impact_context(hold, (each.path for each in form_context["changes"])),
        "conflict": conflict_context(view, state, hold_records, edited.value) if edited else None,
    }


def _standing_answer(hold: Hold, right: Right, form: FormState | None) -> dict[str, Any] | None:
    if hold.status == Hold.Status.OPEN and not right.approve:
        return None
    choice, errors = (form.standing, form.errors) if form else (NOT_GIVEN, ())
    return standing_context(hold, choice, errors)


def _presets(hold: Hold) -> tuple[str, ...]:
    if hold.reason == HoldReason.ESCALATION:
        return REJECT_PRESETS
    if hold.reason == HoldReason.REPLAN_REVIEW:
        return PLAN_PRESETS
    if hold.reason == HoldReason.LAYER_APPROVAL:
        return LAYER_PRESETS
    return _PRESETS.get(hold.phase, ("Not now", "Needs another look"))


def _plan_review(
    hold: Hold, view: Masked, hold_records: list[HumanReviewRecord], form: FormState | None
) -> dict[str, Any] | None:
    approved = [each for each in hold_records if each.decision == "APPROVE"]
    decided = None
    if approved and hold.status == Hold.Status.APPROVED:
        record = approved[-1]
        decided = record.modified_data if record.is_edited else record.original_data
    return plan_review_context(hold, view, form.kept if form else ALL_KEPT, decided)


def verdict_context(user: User, hold: Hold) -> dict[str, Any]:
    """`verdict` of `_decided.html`: the decision on a hold as a sentence, and how to undo it."""
    rows = HumanReviewRecord.objects.filter(hold=hold).with_keys().order_by("id")
    records = without_withdrawn(rows.select_related("withdraws"))
    is_decided = hold_state(hold, records) == "decided" and bool(records)
    return {
        "hold_id": hold.id,
        "execution_id": str(hold.execution_id),
        "version": hold.execution.version,
        "sentence": decision_sentence(records[-1]) if is_decided else "",
        "undo": withdrawal_context(user, hold),
    }


def status_context(user: User, hold: Hold) -> dict[str, Any]:
    """The part of `d` that the status banner shows."""
    return decision_context(user, hold)


def _addresses(hold: Hold) -> dict[str, Any]:
    place = (hold.execution_id, hold.id)
    return {
        "hold_id": hold.id,
        "execution_id": str(hold.execution_id),
        "url": reverse("reviews:decision", args=place),
        "status_url": reverse("reviews:decision_status", args=place),
        "queue_url": reverse("reviews:queue"),
        "precedents_url": reverse("reviews:precedents", args=place) if hold.target else "",
        "run_url": reverse("reviews:run", args=(hold.execution_id,)),
        "preview_url": reverse("reviews:preview", args=place),
        "impact_url": reverse("reviews:impact", args=place) if takes_edits(hold) else "",
    }


def _heading(hold: Hold) -> dict[str, Any]:
    heading = headline if hold.status == Hold.Status.OPEN else closed_headline
    return {
        "headline": heading(components_labels.hold_kind(hold), hold.target, hold.task_id),
        "subject": components_labels.subject(hold),
        "run_title": components_labels.run_title(hold.execution.title, hold.execution_id),
        "step_text": components_labels.step_text(hold),
        "deadline": hold.expires_at,
        "urgent": components_labels.is_urgent(hold),
        "on_timeout": components_labels.on_timeout(hold),
        "deadline_reason": components_labels.deadline_reason(hold),
        "why": render_stored(hold, "why"),
        "instructions": hold.instructions,
        "payload_title": _payload_title(hold),
    }


def _payload_title(hold: Hold) -> str:
    if hold.phase == TriggerPhase.BEFORE_EXECUTION:
        return _("Inputs")
    if hold.phase == TriggerPhase.AFTER_EXECUTION:
        return _("Output")
    return _("Requested permission") if hold.reason == HoldReason.ESCALATION else _("Next tasks")


def _standing(
    hold: Hold, right: Right, state: str, hold_records: list[HumanReviewRecord], user: User
) -> dict[str, Any]:
    approvals = [record for record in hold_records if record.decision == "APPROVE"]
    return {
        "version": hold.execution.version,
        "digest": shown_digest(hold),
        "state": state,
        "may": _may(state, right),
        "can_decide": state == "open" and right.approve,
        "can_reject": state == "open" and right.reject,
        "can_edit": state == "open" and right.approve and takes_edits(hold),
        "no_edits": _no_edits(hold) if state == "open" and right.approve else "",
        "reason_required": reason_required(hold, "web"),
        "blocked_reason": render_reason(right.refusal) if right.refusal else "",
        "on_behalf_of": right.on_behalf_of if state == "open" else "",
        "is_closed_for_user": _is_closed_for(hold, state, user),
        "quorum_needed": hold.quorum,
        "approvals": tuple(
            {
                "by": components_labels.actor_text(each),
                "by_id": each.reviewer_id,
                "at": each.reviewed_at,
            }
            for each in approvals
        ),
        "claim": claim_context(user, hold, right),
    }


def _may(state: str, right: Right) -> str:
    """`approve` (and reject), `reject` or "": an open page loads its form again when it changes."""
    if state != "open":
        return ""
    return "approve" if right.approve else "reject" if right.reject else ""


def _no_edits(hold: Hold) -> str:
    """Why a payload with a form cannot be edited; "" where it can, and where it has no form."""
    if hold.reason == HoldReason.NODE_REVIEW and hold.quorum > 1:
        return _("Several people approve this, so nobody can edit it.")
    if hold.reason == HoldReason.NODE_REVIEW and not allows_edits(hold):
        return _("The agent does not allow edits.")
    return ""


def _is_closed_for(hold: Hold, state: str, user: User) -> bool:
    return state != "open" or user.pk in hold.approver_ids


def _next_url(user: User, hold: Hold) -> str:
    following = selectors.next_review(user, hold)
    if following is None:
        return ""
    return reverse("reviews:decision", args=(following.execution_id, following.id))


# --- the payload ----------------------------------------------------------------------------------


def as_shown(hold: Hold, view: Masked) -> Hold:
    """The hold with its payload as people see it; never to be saved."""
    shown = copy(hold)
    shown.payload = view.value
    return shown


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _payload(hold: Hold, form: FormState | None, schema: Any) -> dict[str, Any]:
    text = pretty(hold.payload)
    part = _part(len(text), form)
    raw_only = bool(part) or hold.reason != HoldReason.NODE_REVIEW
    fields: tuple[Any, ...] = ()
    if not raw_only:
        fields = payload_fields(
            schema,
            form.value if form else hold.payload,
            original=hold.payload,
            rejected=form.rejected if form else None,
            errors=form.errors if form else (),
        )
        fields = with_locks(hold, fields)
    return {
        "part": part,
        "raw_only": raw_only,
        "fields": fields,
        "mode": "json" if raw_only else "form",
        "original_json": text[: part["read"]] if part else text,
        "errors": components_labels.faults(form.errors) if form else (),
        "comment_error": _comment_error(form),
        "open_panel": _PANELS.get(form.decision, "") if form and form.errors else "",
        "why_off": _approve_off(part),
    }


def _approve_off(part: dict[str, Any]) -> str:
    """Why the payload cannot be approved yet."""
    if not part or not part["more"]:
        return ""
    return _("You cannot approve yet: part of the payload is not shown.")


def _comment_error(form: FormState | None) -> str:
    errors = form.errors if form else ()
    return next((each.message for each in errors if each.path == "comment"), "")


def _part(size: int, form: FormState | None) -> dict[str, Any]:
    """How far a long payload of `size` characters is shown; empty when it is not long.

    `on_from` is the share of it that was shown before the part that was just asked for.
    """
    if size <= MAX_SHOWN_CHARACTERS:
        return {}
    wanted = max(MAX_SHOWN_CHARACTERS, form.read if form else 0)
    read = min(size, wanted)
    asks_for_more = form is not None and form.asks_for_more
    on_from = f"{min(1.0, (wanted - MAX_SHOWN_CHARACTERS) / read):.4f}" if asks_for_more else ""
    if read == size:
        message = _("All of its %(all)s characters are shown.") % {"all": grouped(size)}
        return {"read": read, "message": message, "more": "", "on_from": on_from}
    message = _("It has %(all)s characters; the first %(some)s are shown here.")
    following = min(MAX_SHOWN_CHARACTERS, size - read)
    more = ngettext("Show the next %(n)s character", "Show the next %(n)s characters", following)
    return {
        "read": read,
        "message": message % {"all": grouped(size), "some": grouped(read)},
        "more": more % {"n": grouped(following)},
        "on_from": on_from,
    }


def _approve_label(changes: int) -> str:
    text = ngettext("Approve with %(n)s change", "Approve with %(n)s changes", changes)
    return text % {"n": changes}


def _form_context(view: Masked, form: FormState | None) -> dict[str, Any]:
    """What the person had written, when the page is shown again."""
    if form is None:
        return {
            "edits_json": "",
            "edited": False,
            "comment": "",
            "changes": (),
            "confirm": False,
            "unnamed": (),
            "stale": False,
        }
    changes = diff(view.value, edited_as_shown(view, form.value))
    more: dict[str, Any] = {"mode": form.mode}
    if changes:
        more["approve_label"] = _approve_label(len(changes))
    return {
        "edits_json": form.text,
        "edited": not form.asks_for_more,
        "comment": form.comment,
        "changes": changes,
        "confirm": form.confirm,
        "unnamed": form.unnamed,
        "stale": form.stale,
        **more,
    }


_EXPIRED = {
    "approve": N_("it was approved as it was."),
    "reject": N_("it was rejected."),
    "abort": N_("the run was aborted."),
}


def hold_state(hold: Hold, records: list[HumanReviewRecord]) -> str:
    """open, decided, expired (time decided) or closed (its run ended)."""
    if hold.status == Hold.Status.OPEN:
        return "open"
    if records and records[-1].reviewer_id is None:
        return "expired"
    return "closed" if hold.status == Hold.Status.CLOSED else "decided"


def closed_hold_context(
    hold: Hold,
    state: str,
    records: list[HumanReviewRecord],
    hold_context: HoldContext,
    view: Masked,
) -> dict[str, Any]:
    """How it ended, and what the run did with it; empty values while the hold is open.

    `view` is the payload as people see it.
    """
    record = records[-1] if records and state in ("decided", "expired") else None
    return {
        "decided": _decided(record, view) if record and state == "decided" else None,
        "expired_words": expired_words(hold) if state == "expired" else "",
        "closed_words": _closed_words(hold) if state == "closed" else "",
        "record_url": reverse("reviews:record", args=(record.pk,)) if record else "",
        "next": hold_context.what_followed() if state == "decided" and not hold.undo_until else (),
    }


def expired_words(hold: Hold) -> str:
    """`it was rejected.`: the effect of the timeout."""
    known = _EXPIRED.get(hold.on_timeout)
    return _(known) if known else ""


def decision_sentence(record: HumanReviewRecord) -> str:
    """`reviewer approved this with 2 changes`."""
    n, params = record.change_count, {"name": record.actor, "n": record.change_count}
    if record.decision == "REQUEST_CHANGES":
        return _("%(name)s requested changes to this") % params
    if record.decision != "APPROVE":
        return _("%(name)s rejected this") % params
    if not record.is_edited:
        return _("%(name)s approved this") % params
    text = ngettext(
        "%(name)s approved this with %(n)s change", "%(name)s approved this with %(n)s changes", n
    )
    return text % params


def _decided(record: HumanReviewRecord, view: Masked) -> dict[str, Any]:
    return {
        "decision": record.decision,
        "by": record.actor,
        "by_id": record.reviewer_id,
        "sentence": decision_sentence(record),
        "at": record.reviewed_at,
        "comment": record.comment,
        "changes": diff(view.value, masked(record.modified_data, view.rules, after=view).value)
        if record.is_edited
        else (),
    }


def _closed_words(hold: Hold) -> str:
    """Who or what ended the run, as one sentence."""
    ended = ExecutionEvent.objects.filter(
        execution_id=hold.execution_id,
        kind__in=("execution_aborted", "execution_failed", "execution_completed"),
    ).last()
    if ended is None:
        return _("The run has continued without it.")
    at = timezone.localtime(ended.created_at).strftime("%H:%M")
    if ended.kind == "execution_aborted":
        return _("%(name)s aborted the run at %(time)s.") % {"name": ended.actor, "time": at}
    return _("The run ended at %(time)s.") % {"time": at}


PRESETS = (N_("Too long"), N_("Something is missing"), N_("Wrong tone"))
ARGUMENT_PRESETS = (N_("Wrong arguments"), N_("Something is missing"))


def revision_rounds_context(hold: Hold, view: Masked) -> dict[str, Any]:
    """`changes_*` of the page: whether changes can be asked for, and the earlier tries.

    `view` is the payload as people see it.  `changes_off` says why they cannot be, "" when they
    can or when nobody would ask here.
    """
    takes_changes = hold.phase == TriggerPhase.AFTER_EXECUTION or is_external_action(hold)
    presets = PRESETS if hold.phase == TriggerPhase.AFTER_EXECUTION else ARGUMENT_PRESETS
    return {
        "may_return": takes_changes and hold.changes_left > 0,
        "changes_off": _why_off(hold) if takes_changes and hold.changes_left == 0 else "",
        "changes_presets": tuple(_(each) for each in presets),
        "changes_effect": _effect(hold),
        "earlier_rounds": tuple(_rounds(hold, view)),
    }


def _why_off(hold: Hold) -> str:
    requests = hold.round - 1
    if not requests:
        return _("This task does not rerun: its plan accepts no requests for changes.")
    if requests == 1:
        return _("Changes were requested once, the limit. Approve, edit or reject this output.")
    return _(
        "Changes were requested %(count)s times, the limit. Approve, edit or reject this output."
    ) % {"count": requests}


def _effect(hold: Hold) -> str:
    text = _("Reruns %(task)s with your feedback, then requests a review of the new output.")
    if is_external_action(hold):
        text = _("Asks the agent to change it, then requests another review.")
    sentence = text % {"task": hold.task_id}
    if hold.changes_left == 1:
        return sentence + " " + _("This is the last time.")
    return sentence


def _rounds(hold: Hold, view: Masked) -> list[dict[str, Any]]:
    """Earlier reviews, the latest first: what was asked, and how the output differs from now."""
    rounds, later = [], hold
    while later.previous is not None:
        earlier = later.previous
        record = _asked(earlier)
        before = masked(earlier.payload, view.rules, after=view)
        rounds.append(
            {
                "round": earlier.round,
                "by": record.actor if record else earlier.decided_by,
                "feedback": record.comment if record else "",
                "at": earlier.decided_at,
                "url": reverse("reviews:decision", args=(earlier.execution_id, earlier.id)),
                "changes": diff(before.value, view.value),
            }
        )
        later, view = earlier, before
    return rounds


def _asked(hold: Hold) -> HumanReviewRecord | None:
    rows = HumanReviewRecord.objects.standing().filter(hold=hold)
    return rows.filter(decision=Decision.REQUEST_CHANGES).order_by("-id").first()
