"""What a message says: read when it is sent, so that what is done with is left out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.models.notifications import NoticeMessage
from reviews.templatetags.desk import visible
from workflows.executions.access import visible_to
from workflows.models import Hold

from . import inbox, sentences
from .notify import ASKING

#: Lines of one message; the rest is counted, and found behind the link.
MOST_LINES = 10


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence with the address of its review."""

    sentence: str
    url: str


@dataclass(frozen=True, slots=True)
class Letter:
    """All there is to tell: the first lines, and how many more."""

    title: str
    lines: Sequence[Line]
    more: int


def letter(message: NoticeMessage) -> Letter | None:
    """What the message tells now; None when nothing is left of it.

    A review that was decided asks for nothing any more; a person is not told what they have read,
    and nobody what they may not see.
    """
    items = _still_true(message)
    if not items:
        return None
    lines = [
        Line(
            sentences.sentence(item["kind"], hold, item["actor"], item["detail"]),
            sentences.address(sentences.path_of(hold)),
        )
        for item, hold in items
    ]
    title = lines[0].sentence
    if len(lines) > 1:
        title = ngettext(
            "%(count)s review waits or was decided",
            "%(count)s reviews wait or were decided",
            len(lines),
        ) % {"count": len(lines)}
    return Letter(title, lines[:MOST_LINES], max(0, len(lines) - MOST_LINES))


def _still_true(message: NoticeMessage) -> list[tuple[Mapping[str, Any], Hold]]:
    items = {item["key"]: item for item in message.items}  # each thing is told once
    rows = Hold.objects.filter(pk__in={item["hold"] for item in items.values()})
    if message.user is not None:
        if not (message.user.is_active and message.user.email):
            return []
        rows = rows.filter(execution__in=visible_to(message.user))
        for key in inbox.read_keys(message.user, items):
            del items[key]
    loaded = rows.select_related("execution").defer(
        "payload", "execution__state", "execution__context", "execution__inputs"
    )
    holds = {hold.pk: hold for hold in loaded}
    found = [(item, holds[item["hold"]]) for item in items.values() if item["hold"] in holds]
    return [
        (item, hold)
        for item, hold in found
        if hold.status == Hold.Status.OPEN or item["kind"] not in ASKING
    ]


def mail(message: NoticeMessage, told: Letter) -> EmailMultiAlternatives:
    """The e-mail, as text and as simple HTML; the same Message-ID at each try."""
    assert message.user is not None  # noqa: S101 - a message to a person
    context = {
        "letter": told,
        "queue_url": sentences.address(reverse("reviews:queue")),
        "preferences_url": sentences.address(reverse("reviews:notice_preferences")),
        "more_words": _more_words(told),
    }
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip(" >") or "localhost"
    made = EmailMultiAlternatives(
        subject=f"[Holdpoint] {visible(told.title)}",
        body=_plain(told, context),
        to=[message.user.email],
        headers={
            "Message-ID": f"<notices.{message.pk}.{int(message.created_at.timestamp())}@{domain}>",
            "Auto-Submitted": "auto-generated",
        },
    )
    made.attach_alternative(
        render_to_string("reviews/notifications/mail.html", context), "text/html"
    )
    return made


def _plain(told: Letter, context: Mapping[str, Any]) -> str:
    parts = [f"{visible(line.sentence)}\n{line.url}\n" for line in told.lines]
    if told.more:
        parts.append(f"{context['more_words']}\n{context['queue_url']}\n")
    parts.append(_("You decide on the page behind the link, never from this message."))
    parts.append(f"{_('Choose what you are told')}: {context['preferences_url']}")
    return "\n".join(parts) + "\n"


def post(told: Letter) -> bytes:
    """The body of a chat's incoming webhook, as Slack and those like it read it."""
    lines = [f"• <{each.url}|{_escaped(each.sentence)}>" for each in told.lines]
    if told.more:
        queue = sentences.address(reverse("reviews:queue"))
        lines.append(f"<{queue}|{_escaped(_more_words(told))}>")
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": f"*{_escaped(told.title)}*"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)}},
    ]
    content = {"text": _escaped(told.title), "blocks": blocks[1:] if len(lines) == 1 else blocks}
    return json.dumps(content, ensure_ascii=False).encode()


def test_post() -> bytes:
    """What a chat is sent to try its address."""
    sentences = _("Holdpoint reaches this channel. Reviews that wait are told here.")
    block = {"type": "section", "text": {"type": "mrkdwn", "text": sentences}}
    return json.dumps({"text": sentences, "blocks": [block]}, ensure_ascii=False).encode()


def _more_words(told: Letter) -> str:
    if not told.more:
        return ""
    return _("and %(count)s more") % {"count": told.more}


def _escaped(text: str) -> str:
    """Text that names nobody and formats nothing: `<!channel>` comes out as it was written."""
    for char, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "¦"), ("`", "'")):
        text = text.replace(char, escaped)
    return text
