"""Adaptive Cards 1.4 with buttons that Teams sends to the bot (`Action.Execute`).

Texts of people and agents are in `TextRun`, which interprets no Markdown, or in inputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from django.utils.translation import gettext as _

from reviews.chat.messages import (
    action_texts,
    answers_in_chat,
    choices_of,
    fact_texts,
    may_get,
    outcome,
    payload_text,
    single_fields,
    target,
    utc_text,
)
from reviews.chat.teams_cards import unformatted
from reviews.decisions.edit_impact import takes_edits
from reviews.decisions.services import reason_required
from reviews.models import TeamsMessage
from reviews.notifications import notice_text
from reviews.notifications.notify import ACTIONABLE_KINDS
from reviews.templatetags.desk import visible
from workflows.common.schemas import FormField
from workflows.models import Hold

Card = dict[str, Any]
Items = list[dict[str, Any]]

SOURCE: Final = "teams"
#: Inputs of the reason and of the comment; ids are unique in a card.
REASON: Final = "reject_comment"
COMMENT: Final = "edit_comment"
CODE: Final = "code"
#: Teams takes 28 KB of a message; a payload has a line per row.
_MAX_BYTES: Final = 24_000
_MAX_PAYLOAD_BYTES: Final = 16_000
_MAX_LINES: Final = 80
_MAX_INPUT: Final = 3000
_CARD: Final = "application/vnd.microsoft.card.adaptive"


def content_of(message: TeamsMessage) -> Card | None:
    """Return the card as of now, or None when there is nothing left to send.

    See `reviews.chat.messages.content_of`.
    """
    hold = message.hold
    if not may_get(message.account, message):
        return None
    is_open = hold.status == Hold.Status.OPEN
    asks = message.kind in ACTIONABLE_KINDS
    if asks and not is_open and not message.activity:
        return None
    sentence = notice_text.sentence(message.kind, hold, message.actor, message.detail)
    heading = _text(sentence, weight="Bolder")
    if asks and is_open:
        return _request(heading, hold)
    rest = [_text(outcome(hold, with_comment=True))] if asks else []
    return _card([heading, *rest], [_open_button(_url_of(hold))])


def answers_in_teams(hold: Hold) -> bool:
    """Whether buttons may decide the hold: nobody approves what does not fit into a card."""
    if not answers_in_chat(hold):
        return False
    items = _payload(hold)
    lines = sum(len(each["items"]) for each in items if each["type"] == "Container")
    return lines <= _MAX_LINES and _size(items) <= _MAX_PAYLOAD_BYTES


def notice(text: str, url: str = "") -> Card:
    """Return a card that only says something, with a link to Holdpoint."""
    return _card([_text(text)], [_open_button(url)] if url else [])


def link_form(settings_url: str) -> Card:
    """Return the card in which a person enters the code that links their Teams account."""
    text = _(
        "Your Teams account is not linked to a Holdpoint account, or your password has changed"
        " since. Create a code in your notification settings and enter it here. You have to press"
        " the button again afterwards."
    )
    field = _input_text(CODE, _("Code"), is_required=True)
    link = {"type": "Action.Execute", "title": _("Link"), "verb": "link"}
    settings = {
        "type": "Action.OpenUrl", "title": _("Notification settings"), "url": settings_url,
    }  # fmt: skip
    return _card([_text(text), field], [link, settings])


def message_with(card: Card, summary: str) -> dict[str, Any]:
    """Return the activity of a message with the card."""
    return {
        "type": "message",
        "summary": summary,
        "attachments": [{"contentType": _CARD, "content": card}],
    }


def summary_of(message: TeamsMessage) -> str:
    """Return the text of the notification that Teams shows for the message."""
    hold = message.hold
    return visible(notice_text.sentence(message.kind, hold, message.actor, message.detail))


def edit_fields(hold: Hold) -> list[FormField]:
    """Return the fields that have an input in the card, whose ids are their names."""
    return single_fields(hold) if takes_edits(hold) else []


def _request(heading: dict[str, Any], hold: Hold) -> Card:
    url = _url_of(hold)
    facts = fact_texts(hold)
    if hold.expires_at is not None:
        facts.append(_("decide by %(time)s") % {"time": utc_text(hold.expires_at)})
    last = _text(" · ".join(facts), isSubtle=True)
    if not answers_in_teams(hold):
        text = _text(_("Sign in to Holdpoint to decide this review."))
        return _card([heading, last, text], [_open_button(url)])
    data = target(hold)
    buttons = [_approve(data), _reject(data, hold)]
    card = _card([heading, *_payload(hold), last], [*buttons, _open_button(url)])
    fields = edit_fields(hold)
    if not fields:
        return card
    with_edit = {**card, "actions": [*buttons, _edit(data, fields), _open_button(url)]}
    return with_edit if _size(with_edit) <= _MAX_BYTES else card


def _approve(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Action.Execute",
        "title": _("Approve"),
        "verb": "approve",
        "style": "positive",
        "associatedInputs": "none",
        "data": data,
    }


def _reject(data: dict[str, Any], hold: Hold) -> dict[str, Any]:
    reason = _input_text(
        REASON, _("Reason"), is_multiline=True, is_required=reason_required(hold, SOURCE)
    )
    reject = {
        "type": "Action.Execute",
        "title": _("Reject"),
        "verb": "reject",
        "style": "destructive",
        "data": data,
    }
    return _show_card(_("Reject…"), [reason], reject)


def _edit(data: dict[str, Any], fields: Iterable[FormField]) -> dict[str, Any]:
    comment = _input_text(COMMENT, _("Comment"), is_multiline=True)
    approve = {
        "type": "Action.Execute",
        "title": _("Approve with changes"),
        "verb": "edit",
        "data": data,
    }
    return _show_card(_("Edit…"), [*map(_input, fields), comment], approve)


def _show_card(title: str, items: Items, action: dict[str, Any]) -> dict[str, Any]:
    card = {"type": "AdaptiveCard", "body": items, "actions": [action]}
    return {"type": "Action.ShowCard", "title": title, "card": card}


def _input(field: FormField) -> dict[str, Any]:
    label = unformatted(visible(field.dotted or field.label or _("Value")))
    if field.kind in ("boolean", "enum"):
        choices, chosen = choices_of(field)
        return {
            "type": "Input.ChoiceSet",
            "id": field.name,
            "label": label,
            "choices": [
                {"title": unformatted(visible(text)), "value": value} for value, text in choices
            ],
            "value": chosen,
        }
    is_multiline = field.kind in ("textarea", "json")
    return {**_input_text(field.name, label, is_multiline=is_multiline), "value": field.text}


def _input_text(
    name: str, label: str, *, is_multiline: bool = False, is_required: bool = False
) -> dict[str, Any]:
    found = {
        "type": "Input.Text",
        "id": name,
        "label": label,
        "isMultiline": is_multiline,
        "maxLength": _MAX_INPUT,
    }
    if not is_required:
        return found
    return {**found, "isRequired": True, "errorMessage": _("Enter a text.")}


def _payload(hold: Hold) -> Items:
    """Return what a reviewer reads: the action of an agent, instructions, and the payload."""
    texts = [*action_texts(hold), hold.instructions]
    items = [_text(each) for text in texts for each in text.splitlines() if each.strip()]
    # Spaces at the beginning of a line are not shown.
    lines = [
        _text(line.replace("  ", "\N{NO-BREAK SPACE} "), fontType="Monospace", spacing="None")
        for line in payload_text(hold).splitlines()
    ]
    return [*items, {"type": "Container", "style": "emphasis", "items": lines}]


def _text(text: str, **look: Any) -> dict[str, Any]:
    """Return a text that Teams shows as it is."""
    block = {name: look.pop(name) for name in ("spacing",) if name in look}
    run = {"type": "TextRun", "text": unformatted(visible(text)) or " ", **look}
    return {"type": "RichTextBlock", "inlines": [run], **block}


def _card(items: Items, actions: Items) -> Card:
    return {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": items,
        "actions": actions,
    }


def _open_button(url: str) -> dict[str, Any]:
    return {"type": "Action.OpenUrl", "title": _("Open in Holdpoint"), "url": url}


def _url_of(hold: Hold) -> str:
    return notice_text.absolute_url(notice_text.review_path(hold))


def _size(content: object) -> int:
    return len(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
