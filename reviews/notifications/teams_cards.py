"""Adaptive Cards for the webhooks of Microsoft Teams' workflows.

Texts are in `TextRun`, which interprets no Markdown.  The buttons open Holdpoint: a card that a
workflow posts has no bot behind it that Teams could send a press to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

#: Teams formats {{DATE(…)}} and {{TIME(…)}} in every text.
_FUNCTION = re.compile(r"\{(?=\{)")


def _unformatted(text: str) -> str:
    """Return a text in which Teams finds no function; it looks the same."""
    return _FUNCTION.sub("{\N{WORD JOINER}", text)


def line(sentence: str, buttons: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return a sentence with buttons, pairs of label and URL."""
    actions = [{"type": "Action.OpenUrl", "title": title, "url": url} for title, url in buttons]
    parts: list[dict[str, Any]] = [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": _unformatted(sentence)}]}
    ]
    if actions:
        parts.append({"type": "ActionSet", "actions": actions})
    return {"type": "Container", "items": parts}


def body(summary: str, lines: Sequence[dict[str, Any]]) -> bytes:
    """Return the body of the request for a workflow's webhook."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "fallbackText": summary,
        "body": [
            {**each, "separator": number > 0, "spacing": "Medium"}
            for number, each in enumerate(lines)
        ],
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    message = {"type": "message", "summary": summary, "attachments": [attachment]}
    return json.dumps(message, ensure_ascii=False).encode()
