"""Signed links in e-mails, with which a person decides one review without signing in.

A link names the person, the review and the version of the run that the e-mail was about.  It ends
with its time limit, with a change of the person's password, and with the next event of the run;
a decision is such an event, so a link decides at most once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.core import signing
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from reviews import conf
from reviews.decisions import services
from reviews.decisions.conflicts import moved_on
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.pages import MAX_SHOWN_CHARACTERS, pretty
from reviews.queue.filters import risk_of
from workflows.api.throttling import count_requests
from workflows.common.schemas import FieldError
from workflows.engine.state import HoldReason
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SOURCE = "link"
_SALT = "reviews.answer_links"
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
    """A valid link; `version` is the version of the run when the link was made."""

    user: User
    hold: Hold
    version: int

    @property
    def is_current(self) -> bool:
        """Whether the review is still as it was when the link was made."""
        is_open = self.hold.status == Hold.Status.OPEN
        return is_open and self.hold.execution.version == self.version


def path_for(user: User, hold: Hold) -> str:
    """Return the path of a link for `user`; "" for a review that needs a sign-in."""
    if not conf.answer_link_hours() or not takes_links(hold):
        return ""
    content = {
        "user": user.pk,
        "hold": hold.pk,
        "version": hold.execution.version,
        "session": user.get_session_auth_hash(),
    }
    return reverse("reviews:answer", args=(signing.dumps(content, salt=_SALT),))


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
    hours = conf.answer_link_hours()
    try:
        content = signing.loads(token, salt=_SALT, max_age=hours * 3600)
        user = get_user_model().objects.get(pk=content["user"], is_active=True)
        if not hours or not constant_time_compare(content["session"], user.get_session_auth_hash()):
            raise LinkInvalid
        hold = services.visible_hold(user, content["hold"])
    except (signing.BadSignature, get_user_model().DoesNotExist, services.HoldNotFound):
        raise LinkInvalid from None
    return AnswerLink(user=user, hold=hold, version=content["version"])


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
    if not link.is_current:
        raise moved_on(link.hold)
    return services.decide(
        services.DecisionRequest(
            hold_id=link.hold.id,
            user=link.user,
            decision=decision,
            version=link.version,
            source=SOURCE,
            comment=comment,
            undo_seconds=services.undo_seconds_for(link.hold),
        )
    )
