"""Contexts of the bell, the notifications page and the notification settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from reviews import conf
from reviews.models import Notice, NoticeMessage
from reviews.notifications import inbox, notice_text, outbox
from reviews.notifications.preferences import KINDS, preferences_of
from reviews.slack import accounts
from workflows.common import keyset

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Rows in the bell; the page has them all.
IN_BELL = 8


def bell_label(unread: int) -> str:
    """The number on the bell: at most two digits and a plus."""
    return f"{inbox.MAX_COUNTED - 1}+" if unread >= inbox.MAX_COUNTED else str(unread)


def bell_context(user: User) -> dict[str, Any]:
    """The newest notices and the number of unread ones."""
    unread = inbox.unread_count(user)
    rows = inbox.notices_of(user).order_by("-id")[:IN_BELL]
    return {
        "rows": tuple(_row(each) for each in rows),
        "unread": unread,
        "unread_words": bell_label(unread),
    }


def notices_context(user: User, *, show: str = "", cursor: str = "") -> dict[str, Any]:
    """A page of all notices or of the unread ones.  Raises keyset.BadCursor."""
    only_unread = show == "unread"
    rows = inbox.notices_of(user, unread=only_unread).order_by("-id")
    page = keyset.page(rows, cursor=cursor, size=conf.page_size())
    base = reverse("reviews:notices")
    here = f"{base}?show=unread&" if only_unread else f"{base}?"
    return {
        "rows": tuple(_row(each) for each in page.rows),
        "only_unread": only_unread,
        "next_url": f"{here}cursor={page.next}" if page.next else "",
        "previous_url": here.rstrip("?&") if cursor else "",
    }


def _row(notice: Notice) -> dict[str, Any]:
    look, shape = notice_text.LOOKS[notice.kind]
    if notice.kind == "decided" and notice.detail.get("decision") == "REJECT":
        look, shape = "bad", "✕"
    return {
        "id": notice.pk,
        "sentence": notice_text.sentence(notice.kind, notice.hold, notice.actor, notice.detail),
        "url": notice_text.review_path(notice.hold),
        "look": look,
        "shape": shape,
        "at": notice.created_at,
        "unread": notice.read_at is None,
    }


def preferences_context(user: User) -> dict[str, Any]:
    """Each kind with the user's choice, and whether e-mail and chats reach them."""
    preferences = preferences_of(user)
    last = NoticeMessage.objects.filter(user=user.pk).exclude(error="").first()
    return {
        "kinds": tuple(
            {
                "name": kind,
                "label": notice_text.LABELS[kind],
                "shown": preferences.shows(kind),
                "mailed": kind in preferences.mailed,
                "messaged": kind in preferences.messaged,
            }
            for kind in KINDS
        ),
        "address": user.email,
        "mail_is_on": outbox.mail_is_on(),
        "trouble": last,
        "slack_is_on": accounts.has_workspaces(),
        "slack_accounts": accounts.accounts_of(user),
        "code_minutes": accounts.CODE_MINUTES,
    }
