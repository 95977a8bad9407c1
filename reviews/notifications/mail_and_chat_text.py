"""Content of e-mails and chat messages, built when a message is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.answer_links import services as answer_links
from reviews.decisions.edit_impact import takes_edits
from reviews.models import ChatHook, NoticeMessage
from reviews.templatetags.desk import visible
from workflows.executions.access import visible_to
from workflows.models import Hold

from . import inbox, notice_text, teams_cards
from .notify import ACTIONABLE_KINDS

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Lines of one message; further ones are counted, with a link to the queue.
MAX_LINES = 10


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence with the URL of its review, and a link that decides it without a sign-in.

    `takes_edits`: its reader may change values on the page of the review.
    """

    sentence: str
    url: str
    answer_url: str = ""
    takes_edits: bool = False


@dataclass(frozen=True, slots=True)
class MessageContent:
    """Title, first lines, and the number of further lines."""

    title: str
    lines: Sequence[Line]
    more: int


def message_content(message: NoticeMessage) -> MessageContent | None:
    """Return the message's current content, or None when nothing is left to send.

    Leaves out requests for decided reviews, notices that the user has read, and reviews that they
    may no longer see.
    """
    items = _current_items(message)
    if not items:
        return None
    lines = [_line(message, item, hold) for item, hold in items[:MAX_LINES]]
    title = lines[0].sentence
    if len(items) > 1:
        title = ngettext(
            "%(count)s review waits or was decided",
            "%(count)s reviews wait or were decided",
            len(items),
        ) % {"count": len(items)}
    return MessageContent(title, lines, len(items) - len(lines))


def _line(message: NoticeMessage, item: Mapping[str, Any], hold: Hold) -> Line:
    answer_url = _answer_url(message, item["kind"], hold)
    return Line(
        notice_text.sentence(item["kind"], hold, item["actor"], item["detail"]),
        notice_text.absolute_url(notice_text.review_path(hold)),
        answer_url,
        bool(answer_url) and takes_edits(hold),
    )


def _answer_url(message: NoticeMessage, kind: str, hold: Hold) -> str:
    person = _person(message)
    if person is None or kind not in ACTIONABLE_KINDS:
        return ""
    path = answer_links.path_for(person, hold)
    return notice_text.absolute_url(path) if path else ""


def _person(message: NoticeMessage) -> User | None:
    """Return the one person who reads the message; None for the chat of a team."""
    return message.hook.user if message.hook is not None else message.user


def _current_items(message: NoticeMessage) -> list[tuple[Mapping[str, Any], Hold]]:
    items = {item["key"]: item for item in message.items}  # one line per key
    rows = Hold.objects.filter(pk__in={item["hold"] for item in items.values()})
    person = _person(message)
    if person is not None:
        if not person.is_active or (message.user is not None and not person.email):
            return []
        rows = rows.filter(execution__in=visible_to(person))
        for key in inbox.read_keys(person, items):
            del items[key]
    loaded = rows.select_related("execution").defer(
        "payload", "execution__state", "execution__context", "execution__inputs"
    )
    holds = {hold.pk: hold for hold in loaded}
    items_with_holds = [
        (item, holds[item["hold"]]) for item in items.values() if item["hold"] in holds
    ]
    return [
        (item, hold)
        for item, hold in items_with_holds
        if hold.status == Hold.Status.OPEN or item["kind"] not in ACTIONABLE_KINDS
    ]


def build_email(message: NoticeMessage, content: MessageContent) -> EmailMultiAlternatives:
    """Build the e-mail as text and HTML, with one Message-ID for all attempts."""
    assert message.user is not None  # noqa: S101 - a message to a person
    context = {
        "content": content,
        "queue_url": notice_text.absolute_url(reverse("reviews:queue")),
        "preferences_url": notice_text.absolute_url(reverse("reviews:notice_preferences")),
        "more_label": _more_label(content),
    }
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip(" >") or "localhost"
    email = EmailMultiAlternatives(
        subject=f"[Holdpoint] {visible(content.title)}",
        body=_plain(content, context),
        to=[message.user.email],
        headers={
            "Message-ID": f"<notices.{message.pk}.{int(message.created_at.timestamp())}@{domain}>",
            "Auto-Submitted": "auto-generated",
        },
    )
    email.attach_alternative(
        render_to_string("reviews/notifications/mail.html", context), "text/html"
    )
    return email


def _plain(content: MessageContent, context: Mapping[str, Any]) -> str:
    parts = [_plain_line(line) for line in content.lines]
    if content.more:
        parts.append(f"{context['more_label']}\n{context['queue_url']}\n")
    parts.append(_("Open the link to decide. Replies to this message are not read."))
    parts.append(f"{_('Notification settings')}: {context['preferences_url']}")
    return "\n".join(parts) + "\n"


def _plain_line(line: Line) -> str:
    text = f"{visible(line.sentence)}\n{line.url}\n"
    return (
        f"{text}{_('Decide without signing in:')} {line.answer_url}\n" if line.answer_url else text
    )


def chat_payload(content: MessageContent, kind: str) -> bytes:
    """Return the body for a chat's incoming webhook; `kind` is a ChatHook.Format."""
    if kind == ChatHook.Format.TEAMS:
        return _teams_payload(content)
    lines = [_slack_line(each) for each in content.lines]
    if content.more:
        queue = notice_text.absolute_url(reverse("reviews:queue"))
        lines.append(f"<{queue}|{escaped(_more_label(content))}>")
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": f"*{escaped(content.title)}*"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)}},
    ]
    payload = {"text": escaped(content.title), "blocks": blocks[1:] if len(lines) == 1 else blocks}
    return json.dumps(payload, ensure_ascii=False).encode()


def _slack_line(line: Line) -> str:
    text = f"• <{line.url}|{escaped(line.sentence)}>"
    if not line.answer_url:
        return text
    return f"{text} (<{line.answer_url}|{_('approve or reject')}>)"


def _teams_payload(content: MessageContent) -> bytes:
    lines = [teams_cards.line(visible(each.sentence), _buttons(each)) for each in content.lines]
    if content.more:
        queue = notice_text.absolute_url(reverse("reviews:queue"))
        buttons = [(_("Open the review queue"), queue)]
        lines.append(teams_cards.line(_more_label(content), buttons))
    return teams_cards.body(visible(content.title), lines)


def _buttons(line: Line) -> list[tuple[str, str]]:
    """Return labels and URLs; without a link of its own a review is decided after a sign-in."""
    review = _("Edit…") if line.takes_edits else _("Open in Holdpoint")
    if not line.answer_url:
        return [(review, line.url)]
    return [
        (_("Approve…"), answer_links.with_decision(line.answer_url, "APPROVE")),
        (_("Reject…"), answer_links.with_decision(line.answer_url, "REJECT")),
        (review, line.url),
    ]


def test_chat_payload(kind: str) -> bytes:
    """Return the body of a test message; `kind` is a ChatHook.Format."""
    text = _("Holdpoint can post to this channel. Reviews that wait are announced here.")
    if kind == ChatHook.Format.TEAMS:
        return teams_cards.body(text, [teams_cards.line(text, ())])
    block = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return json.dumps({"text": text, "blocks": [block]}, ensure_ascii=False).encode()


def _more_label(content: MessageContent) -> str:
    if not content.more:
        return ""
    return _("and %(count)s more") % {"count": content.more}


def escaped(text: str) -> str:
    """Escape mentions and formatting: `<!channel>` is shown as text."""
    for char, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "¦"), ("`", "'")):
        text = text.replace(char, escaped)
    return text
