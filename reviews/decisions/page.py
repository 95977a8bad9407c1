"""The decision page: what will happen, why it stopped, the payload, what led there."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.audit.reveals import hold_place, may_reveal
from reviews.components import labels as components_labels
from reviews.components.diffs import diff
from reviews.components.number_formatting import grouped
from reviews.decisions.edits import payload_schema, shown_payload
from reviews.decisions.masking import Masked, edited_as_shown
from reviews.decisions.payload_forms import payload_fields
from reviews.decisions.rights import Right, right_now
from reviews.decisions.summaries import headline
from reviews.models import HumanReviewRecord
from reviews.queue import selectors
from reviews.queue.claim_panel import claim_context
from reviews.queue.deadline_panel import deadline_addresses
from reviews.runs.policy_overrides_panel import overrides_context
from reviews.runs.speculation_panel import behind
from workflows.common.schemas import FieldError
from workflows.engine.bounded_json import digest
from workflows.engine.policy import TriggerPhase
from workflows.engine.state import HoldReason
from workflows.models import Hold

from . import closed_hold
from .conflict_page import versions_context
from .edit_impact_panel import impact_context, takes_edits
from .escalation_panel import NARROWEST, REJECT_PRESETS, Asked, escalation_context
from .hold_context import Surroundings, effects
from .masked_values_panel import masks_context
from .plan_review_panel import ALL_KEPT, Kept, plan_review_context
from .plan_review_panel import REJECT_PRESETS as PLAN_PRESETS
from .revision_rounds import rounds_context
from .withdrawal_panel import standing, undo_context

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Characters of a payload that a page shows at once; what is longer is read in parts of as many.
LONGEST = 400_000

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
class Answer:
    """A posted answer that was not accepted, or has to be confirmed: it is shown again.

    `value` is the whole payload as the person made it; `text` the JSON text in JSON mode; `read`
    how many characters of a long payload they have before them. With `asks_for_more` nothing was
    answered yet: the next part of such a payload is wanted. `unnamed` are the keys that the edit
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
    asked: Asked = NARROWEST
    kept: Kept = ALL_KEPT
    read: int = 0
    asks_for_more: bool = False


def decision_context(user: User, hold: Hold, answer: Answer | None = None) -> dict[str, Any]:
    """`d` of the templates; `hold.execution` is loaded."""
    right = right_now(user, hold)
    said = HumanReviewRecord.objects.filter(execution_id=hold.execution_id)
    records = list(said.select_related("withdraws").order_by("id"))
    mine = standing([record for record in records if record.hold_id == hold.id])
    schema = payload_schema(hold)
    view = shown_payload(hold, schema)
    shown = as_shown(hold, view)
    state = closed_hold.state_of(hold, mine)
    around = Surroundings(shown, may_reveal=may_reveal(user, hold.execution, hold))
    answered = _answered(view, answer)
    edited = answer if answer and not answer.asks_for_more else None
    return {
        **_addresses(hold),
        **deadline_addresses(hold, right),
        **_heading(hold),
        **_standing(hold, right, state, mine, user),
        **_payload(shown, answer, schema),
        "masks": masks_context(view, hold_place(hold), may=around.may_reveal),
        "undo": undo_context(user, hold),
        **rounds_context(hold, view),
        "overrides": overrides_context(hold.execution),
        "escalation": escalation_context(shown, answer.asked if answer else NARROWEST),
        "plan_review": _plan_review(hold, view, mine, answer),
        **effects(around),
        "ahead": behind(hold),
        **closed_hold.outcome(hold, state, mine, around, view),
        "layers": around.beads(),
        "context": around.context(),
        "history": around.history(records),
        "reject_presets": tuple(_(each) for each in _presets(hold)),
        "next_review_url": _next_url(user, hold) if _is_settled(hold, state, user) else "",
        **answered,
        "impact": impact_context(hold, (each.path for each in answered["changes"])),
        "versions": versions_context(view, state, mine, edited.value) if edited else None,
    }


def _presets(hold: Hold) -> tuple[str, ...]:
    if hold.reason == HoldReason.ESCALATION:
        return REJECT_PRESETS
    if hold.reason == HoldReason.REPLAN_REVIEW:
        return PLAN_PRESETS
    return _PRESETS.get(hold.phase, ("Not now", "Needs another look"))


def _plan_review(
    hold: Hold, view: Masked, mine: list[HumanReviewRecord], answer: Answer | None
) -> dict[str, Any] | None:
    approved = [each for each in mine if each.decision == "APPROVE"]
    decided = None
    if approved and hold.status == Hold.Status.APPROVED:
        record = approved[-1]
        decided = record.modified_data if record.is_edited else record.original_data
    return plan_review_context(hold, view, answer.kept if answer else ALL_KEPT, decided)


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
        "impact_url": reverse("reviews:impact", args=place) if takes_edits(hold) else "",
    }


def _heading(hold: Hold) -> dict[str, Any]:
    return {
        "headline": headline(components_labels.hold_kind(hold), hold.target, hold.task_id),
        "subject": components_labels.subject(hold),
        "run_title": components_labels.run_title(hold.execution.title, hold.execution_id),
        "step_words": components_labels.step_words(hold),
        "deadline": hold.expires_at,
        "urgent": components_labels.is_urgent(hold),
        "on_timeout": components_labels.on_timeout(hold),
        "why": hold.why,
        "instructions": hold.instructions,
        "payload_title": _payload_title(hold),
    }


def _payload_title(hold: Hold) -> str:
    if hold.phase == TriggerPhase.BEFORE_EXECUTION:
        return _("What it will run with")
    if hold.phase == TriggerPhase.AFTER_EXECUTION:
        return _("What it gave")
    return _("What it asks for") if hold.reason == HoldReason.ESCALATION else _("What comes next")


def _standing(
    hold: Hold, right: Right, state: str, mine: list[HumanReviewRecord], user: User
) -> dict[str, Any]:
    approvals = [record for record in mine if record.decision == "APPROVE"]
    return {
        "version": hold.execution.version,
        "digest": digest(hold.payload),
        "state": state,
        "can_decide": state == "open" and right.approve,
        "can_reject": state == "open" and right.reject,
        "blocked_reason": right.reason,
        "settled_for_me": _is_settled(hold, state, user),
        "quorum_needed": hold.quorum,
        "approvals": tuple({"by": each.actor, "at": each.reviewed_at} for each in approvals),
        "claim": claim_context(user, hold, right),
    }


def _is_settled(hold: Hold, state: str, user: User) -> bool:
    return state != "open" or user.get_username() in hold.approvals


def _next_url(user: User, hold: Hold) -> str:
    following = selectors.after(user, hold)
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


def _payload(hold: Hold, answer: Answer | None, schema: Any) -> dict[str, Any]:
    text = pretty(hold.payload)
    part = _part(len(text), answer)
    raw_only = bool(part) or hold.reason != HoldReason.NODE_REVIEW
    fields: tuple[Any, ...] = ()
    if not raw_only:
        fields = payload_fields(
            schema,
            answer.value if answer else hold.payload,
            original=hold.payload,
            rejected=answer.rejected if answer else None,
            errors=answer.errors if answer else (),
        )
    return {
        "part": part,
        "raw_only": raw_only,
        "fields": fields,
        "mode": "json" if raw_only else "form",
        "original_json": text[: part["read"]] if part else text,
        "errors": components_labels.faults(answer.errors) if answer else (),
    }


def _part(size: int, answer: Answer | None) -> dict[str, Any]:
    """How far a long payload of `size` characters is shown; empty when it is not long.

    `on_from` is the share of it that was shown before the part that was just asked for.
    """
    if size <= LONGEST:
        return {}
    wanted = max(LONGEST, answer.read if answer else 0)
    read = min(size, wanted)
    asked = answer is not None and answer.asks_for_more
    on_from = f"{min(1.0, (wanted - LONGEST) / read):.4f}" if asked else ""
    if read == size:
        told = _("All of its %(all)s characters are shown.") % {"all": grouped(size)}
        return {"read": read, "told": told, "more": "", "on_from": on_from}
    told = _("It has %(all)s characters; the first %(some)s are shown here.")
    following = min(LONGEST, size - read)
    more = ngettext("Show the next %(n)s character", "Show the next %(n)s characters", following)
    return {
        "read": read,
        "told": told % {"all": grouped(size), "some": grouped(read)},
        "more": more % {"n": grouped(following)},
        "on_from": on_from,
    }


def _approve_label(changes: int) -> str:
    text = ngettext("Approve with %(n)s change", "Approve with %(n)s changes", changes)
    return text % {"n": changes}


def _answered(view: Masked, answer: Answer | None) -> dict[str, Any]:
    """What the person had written, when the page is shown again."""
    if answer is None:
        return {
            "edits_json": "",
            "edited": False,
            "comment": "",
            "changes": (),
            "confirm": False,
            "unnamed": (),
            "stale": False,
            "theirs": (),
        }
    changes = diff(view.value, edited_as_shown(view, answer.value))
    more: dict[str, Any] = {"mode": answer.mode}
    if changes:
        more["approve_label"] = _approve_label(len(changes))
    return {
        "edits_json": answer.text,
        "edited": not answer.asks_for_more,
        "comment": answer.comment,
        "changes": changes,
        "confirm": answer.confirm,
        "unnamed": answer.unnamed,
        "stale": answer.stale,
        # A hold's payload never changes: what moved on is the run around it.
        "theirs": (),
        **more,
    }
