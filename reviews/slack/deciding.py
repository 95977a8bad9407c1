"""Decisions by people who are known by their Slack account, and the texts of refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse
from django.utils.translation import gettext as _

from reviews.answer_links.services import SignInNeeded, TooManyRequests
from reviews.components.reasons import render_reason
from reviews.decisions import services
from reviews.decisions.conflicts import Conflict, conflict
from reviews.decisions.edits import (
    NO_CHANGE,
    Change,
    ReviewInvalid,
    change_to,
    payload_schema,
    shown_payload,
)
from reviews.decisions.payload_forms import posted_value
from reviews.decisions.rights import NotAllowed
from reviews.models import HumanReviewRecord
from reviews.notifications import notice_text
from workflows.engine.values.reasons import Reason
from workflows.models import Hold

from . import messages, outbox

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SOURCE: Final = "slack"
#: What `decide` and `check_rate` raise: nothing was decided.
REFUSALS: Final = (
    services.HoldNotFound,
    SignInNeeded,
    TooManyRequests,
    NotAllowed,
    Conflict,
    ReviewInvalid,
)


class BadPayload(Exception):
    """The request is signed, but is none that the product's messages and dialogs send."""


@dataclass(frozen=True, slots=True)
class Target:
    """The review of a button or a dialog, and the digest of what it showed.

    `after` is the id of the review's last record at that time, 0 if there was none: a button or a
    dialog of before a person's decision decides nothing for them, also if it was withdrawn.
    """

    hold_id: str
    shown: str
    after: int

    @property
    def url(self) -> str:
        """The address of the review; "" if there is none."""
        hold = Hold.objects.filter(pk=self.hold_id).first()
        return notice_text.absolute_url(notice_text.review_path(hold)) if hold else ""


def target_of(text: object) -> Target:
    """Return the target of a button's value or a dialog's metadata; raises BadPayload."""
    try:
        value: Any = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadPayload
    hold_id, shown, after = value.get("hold"), value.get("shown"), value.get("after")
    if not isinstance(hold_id, str) or not isinstance(shown, str) or type(after) is not int:
        raise BadPayload
    return Target(hold_id, shown, after)


def decide(
    user: User,
    target: Target,
    decision: str,
    *,
    comment: str = "",
    change: Change = NO_CHANGE,
) -> None:
    """Decide as `user`; raises SignInNeeded, and what `services.decide` raises."""
    hold = services.visible_hold(user, target.hold_id)
    if hold.status == Hold.Status.OPEN and not messages.answers_in_slack(hold):
        raise SignInNeeded
    check_unused(user, hold, target)
    services.decide(
        services.DecisionRequest(
            hold_id=target.hold_id,
            user=user,
            decision=decision,
            shown=target.shown,
            source=SOURCE,
            edits=change.edits,
            set_output_null=change.set_output_null,
            comment=comment,
            undo_seconds=services.undo_seconds_for(hold),
        )
    )


def check_unused(user: User, hold: Hold, target: Target) -> None:
    """Raise Conflict if the person has decided since the message or the dialog was made."""
    decided = HumanReviewRecord.objects.filter(hold=hold, reviewer=user, pk__gt=target.after)
    if hold.status == Hold.Status.OPEN and decided.exists():
        raise conflict(hold.pk, "used", Reason("message_is_used"))


def change_of(user: User, target: Target, values: Mapping[str, str]) -> Change:
    """Return the edit that the inputs make; raises ReviewInvalid with the controls' paths.

    Values of inputs that the dialog does not have are ignored.
    """
    hold = services.visible_hold(user, target.hold_id)
    schema = payload_schema(hold)
    shown = shown_payload(hold, schema).value
    names = {block["block_id"] for block in messages.edit_blocks(hold)}
    posted = {name: text for name, text in values.items() if name in names}
    value = posted_value(schema, shown, posted)
    if value.errors:
        raise ReviewInvalid(value.errors)
    return change_to(hold, value.value, shown)


def refusal_text(target: Target, error: Exception) -> str:
    """Say why nothing was decided; `error` is one of REFUSALS."""
    match error:
        case services.HoldNotFound():
            return _("Your account may not see this review.")
        case SignInNeeded():
            return _("This review needs a sign-in.")
        case NotAllowed():
            return render_reason(error.reason)
        case Conflict():
            return _too_late(target, error)
        case ReviewInvalid():
            return " ".join(str(each) for each in error.errors)
    return str(error)


def _too_late(target: Target, late: Conflict) -> str:
    """Say what happened instead, and have the messages about the review updated."""
    outbox.refresh(hold_ids=[target.hold_id])
    hold = Hold.objects.select_related("execution").get(pk=target.hold_id)
    if hold.status != Hold.Status.OPEN:
        return messages.outcome(hold, with_comment=False)
    if late.code == "stale":
        return _(
            "The review has changed since the message was sent. The message is being updated: read"
            " it and press the button again."
        )
    return render_reason(late.reason)


def settings_url() -> str:
    """Return the address of the notification settings, where people get codes."""
    return notice_text.absolute_url(reverse("reviews:notice_preferences"))


def bad_code() -> str:
    """Say that a code links nothing."""
    return _("This code is not valid any more. Create a new one in your notification settings.")


def too_many_codes() -> str:
    """Say that codes of this account are refused for a while."""
    return _("Too many codes. Try again in ten minutes.")
