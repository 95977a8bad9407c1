"""Signed links in e-mails, with which a person decides one review without signing in.

A link names the person, the review and the digest of what the review showed.  It ends with its
time limit, with a change of the person's password, of what the review shows, and with the person's
decision: a link decides at most once, also when the decision is withdrawn.

The token of a link stands behind the "#" of its address, which browsers send to no server; a script
posts it.  So no log of a proxy has it, and a program that opens the links of e-mails does nothing.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.core import signing
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from reviews import conf
from reviews.decisions import services
from reviews.decisions.conflicts import conflict, not_as_shown, shown_digest
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.pages import MAX_SHOWN_CHARACTERS, pretty
from reviews.models import HumanReviewRecord
from reviews.queue.filters import risk_of
from workflows.api.throttling import count_requests
from workflows.common.schemas import FieldError
from workflows.engine.protocol.state import HoldReason
from workflows.engine.values.reasons import Reason
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SOURCE = "link"
_SALT = "reviews.answer_links.shown"
#: How far ahead the clock of the host that made a link may be.
_CLOCK_SKEW_SECONDS = 60
_DECISIONS = ("APPROVE", "REJECT")


class LinkInvalid(Exception):
    """The link is damaged or too old, or its person may no longer see the review."""


class SignInNeeded(Exception):
    """The review is decided by people who have signed in."""


class TooManyRequests(Exception):
    """The person's decisions without a sign-in are above the limit of this minute."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return _("Too many decisions in this minute. Try again in a minute.")


@dataclass(frozen=True, slots=True)
class AnswerLink:
    """A valid link; `shown` is the digest of what the review showed when the link was made."""

    user: User
    hold: Hold
    shown: str
    #: Whether the person has decided since the link was made.
    is_used: bool

    @property
    def is_changed(self) -> bool:
        """Whether the review shows something else than when the link was made."""
        return self.shown != shown_digest(self.hold)

    @property
    def is_current(self) -> bool:
        """Whether the link may decide."""
        is_open = self.hold.status == Hold.Status.OPEN
        return is_open and not self.is_used and not self.is_changed


def path_for(user: User, hold: Hold) -> str:
    """Return the path of a link for `user`; "" for a review that needs a sign-in."""
    if not conf.answer_link_hours() or not takes_links(hold):
        return ""
    content = {
        "user": user.pk,
        "hold": hold.pk,
        "shown": shown_digest(hold),
        "decisions": _decisions_of(user, hold),
        "session": user.get_session_auth_hash(),
        "made": int(time.time()),
    }
    token = signing.Signer(salt=_SALT).sign_object(content)
    return f"{reverse('reviews:answer')}#{token}"


def with_decision(url: str, decision: str) -> str:
    """Return the URL of a link whose page offers one decision; it decides nothing by itself."""
    return url.replace("#", f"?decision={decision}#", 1)


def _decisions_of(user: User, hold: Hold) -> int:
    return HumanReviewRecord.objects.filter(hold=hold, reviewer=user).count()


def takes_links(hold: Hold) -> bool:
    """Whether a link may decide the open hold.

    Permissions, layers and changes of the plan, high risk, and payloads that no page shows at once
    need a sign-in.
    """
    return (
        hold.status == Hold.Status.OPEN
        and hold.decider == "human"
        and hold.reason == HoldReason.NODE_REVIEW
        and risk_of(hold) != "high"
        and not services.needs_step_up(hold)
        and len(pretty(hold.payload)) <= MAX_SHOWN_CHARACTERS
    )


def read_link(token: str) -> AnswerLink:
    """Return the link of a token; raises LinkInvalid."""
    try:
        content = signing.Signer(salt=_SALT).unsign_object(token)
        _check_age(time.time() - content["made"])
        user = get_user_model().objects.get(pk=content["user"], is_active=True)
        if not constant_time_compare(content["session"], user.get_session_auth_hash()):
            raise LinkInvalid
        hold = services.visible_hold(user, content["hold"])
    except (signing.BadSignature, get_user_model().DoesNotExist, services.HoldNotFound):
        raise LinkInvalid from None
    is_used = _decisions_of(user, hold) != content["decisions"]
    return AnswerLink(user=user, hold=hold, shown=content["shown"], is_used=is_used)


def _check_age(seconds: float) -> None:
    """Raise LinkInvalid for a link that is too old, or from the future: it would last longer."""
    longest = conf.answer_link_hours() * 3600
    if not longest or not -_CLOCK_SKEW_SECONDS <= seconds <= longest:
        raise LinkInvalid


def check_rate(user: User) -> None:
    """Count an attempt to decide without a sign-in; raises TooManyRequests above the limits.

    The limits of REST apply, counted separately: a link in other hands cannot use up the requests
    of its person.
    """
    seconds = count_requests(f"without-sign-in-{user.pk}", ["any", "decide"])
    if seconds:
        raise TooManyRequests(math.ceil(seconds))


def decide_by_link(link: AnswerLink, *, decision: str, comment: str) -> services.DecisionResult:
    """Approve or reject the review of a link as its person.

    Raises TooManyRequests, SignInNeeded for a review that links do not decide, and what
    `services.decide` raises. A link that is no longer current, or a decision that no link offers,
    is refused without an entry in the append-only command log.
    """
    check_rate(link.user)
    if link.hold.status == Hold.Status.OPEN and not takes_links(link.hold):
        raise SignInNeeded
    if decision not in _DECISIONS:
        raise ReviewInvalid([FieldError("decision", f"must be {' or '.join(_DECISIONS)}")])
    if link.hold.status == Hold.Status.OPEN and link.is_used:
        raise conflict(link.hold.pk, "used", Reason("link_is_used"))
    if not link.is_current:
        raise not_as_shown(link.hold)
    return services.decide(
        services.DecisionRequest(
            hold_id=link.hold.id,
            user=link.user,
            decision=decision,
            shown=link.shown,
            source=SOURCE,
            comment=comment,
            undo_seconds=services.undo_seconds_for(link.hold),
        )
    )
