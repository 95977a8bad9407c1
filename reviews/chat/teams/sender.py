"""Send the messages to Teams, in a thread of its own."""

from __future__ import annotations

import logging
import threading

from reviews.chat import outbox
from reviews.models import TeamsMessage
from reviews.notifications.outbox import seconds_to_due
from reviews.notifications.polling import poll
from workflows import conf
from workflows.common.crashpoints import crashpoint
from workflows.realtime import work_hints

from . import cards, connector
from .connector import TeamsError

logger = logging.getLogger(__name__)

#: The chat or the message is gone: trying again helps nobody.
_FINAL_STATUSES = frozenset({404, 410})


def run(stop: threading.Event) -> None:
    """Send until stopped."""
    messages = TeamsMessage.objects.all()
    poll(send_next, stop, group=work_hints.WORK, due=lambda: seconds_to_due(messages))


def send_next() -> int:
    """Post or update the next due message; return 1, or 0 if there is none."""
    related = ("bot", "account__user", "hold__execution__workflow")
    message = outbox.claim_next(TeamsMessage.objects.select_related(*related))
    if message is None:
        return 0
    card = cards.content_of(message)
    if card is None:
        outbox.drop(message)
        return 1
    try:
        _send(message, card)
    except TeamsError as error:
        logger.warning("Teams message %s was not sent: %s", message.pk, error)
        if error.retry_after:
            outbox.pause(message, error.retry_after)
        elif message.activity and error.status in _FINAL_STATUSES:
            outbox.drop(message)
        else:
            outbox.mark_failed(message, str(error))
    return 1


def _send(message: TeamsMessage, card: cards.Card) -> None:
    if not message.bot.enabled:
        raise TeamsError("the bot is disabled")
    activity_id = connector.send(
        message.bot,
        message.account,
        cards.message_with(card, cards.summary_of(message)),
        seconds=conf.webhook_timeout_seconds(),
        replaces=message.activity,
    )
    if not message.activity:
        crashpoint("teams_message.sent")
    outbox.mark_sent(message, activity=activity_id)
