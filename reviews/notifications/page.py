"""The bell's list, the page of notices, and what a person wants to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from reviews import conf
from reviews.models.notifications import Notice, NoticeMessage
from reviews.notifications import inbox, outbox, sentences
from reviews.notifications.preferences import KINDS, wishes_of
from reviews.queue import selectors

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Rows in the bell; the page has them all.
IN_BELL = 8


def bell_words(unread: int) -> str:
    """The number on the bell: at most two digits and a plus."""
    return f"{inbox.MOST_COUNTED - 1}+" if unread >= inbox.MOST_COUNTED else str(unread)


def bell_context(user: User) -> dict[str, Any]:
    """The newest notices, and how many are unread."""
    unread = inbox.unread_count(user)
    rows = inbox.notices_of(user).order_by("-id")[:IN_BELL]
    return {
        "rows": tuple(_row(each) for each in rows),
        "unread": unread,
        "unread_words": bell_words(unread),
    }


def notices_context(user: User, *, show: str = "", cursor: str = "") -> dict[str, Any]:
    """A page of notices, all of them or the unread.  Raises selectors.BadCursor."""
    only_unread = show == "unread"
    rows = inbox.notices_of(user, unread=only_unread).order_by("-id")
    page = selectors.page(rows, cursor=cursor, size=conf.page_size())
    base = reverse("reviews:notices")
    here = f"{base}?show=unread&" if only_unread else f"{base}?"
    return {
        "rows": tuple(_row(each) for each in page.rows),
        "only_unread": only_unread,
        "next_url": f"{here}cursor={page.next}" if page.next else "",
        "previous_url": here.rstrip("?&") if cursor else "",
        "page_words": "",
    }


def _row(notice: Notice) -> dict[str, Any]:
    look, shape = sentences.LOOKS[notice.kind]
    if notice.kind == "decided" and notice.detail.get("decision") == "REJECT":
        look, shape = "bad", "✕"
    return {
        "id": notice.pk,
        "sentence": sentences.sentence(notice.kind, notice.hold, notice.actor, notice.detail),
        "url": sentences.path_of(notice.hold),
        "look": look,
        "shape": shape,
        "at": notice.created_at,
        "unread": notice.read_at is None,
    }


def preferences_context(user: User) -> dict[str, Any]:
    """Each kind with what the person chose, and whether mail reaches them."""
    wishes = wishes_of(user)
    last = NoticeMessage.objects.filter(user=user.pk).exclude(error="").first()
    return {
        "kinds": tuple(
            {
                "name": kind,
                "label": sentences.LABELS[kind],
                "shown": wishes.shows(kind),
                "mailed": kind in wishes.mailed,
            }
            for kind in KINDS
        ),
        "address": user.email,
        "mail_is_on": outbox.mail_is_on(),
        "trouble": last,
    }
