"""Send the messages to Slack, in a thread of its own."""

from __future__ import annotations

import logging
import threading

from reviews.models import SlackMessage
from reviews.notifications.outbox import seconds_to_due
from reviews.notifications.polling import poll
from workflows import conf
from workflows.common.crashpoints import crashpoint
from workflows.realtime import work_hints

from . import messages, outbox, slack_api
from .slack_api import SlackError

logger = logging.getLogger(__name__)

#: The message is gone or cannot be changed any more: trying again helps nobody.
_FINAL_CODES = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})


def run(stop: threading.Event) -> None:
    """Send until stopped."""
    messages = SlackMessage.objects.all()
    poll(send_next, stop, group=work_hints.WORK, due=lambda: seconds_to_due(messages))


def send_next() -> int:
    """Post or update the next due message; return 1, or 0 if there is none."""
    message = outbox.claim_next()
    if message is None:
        return 0
    content = messages.content_of(message)
    if content is None:
        outbox.drop(message)
        return 1
    try:
        _send(message, content)
    except SlackError as error:
        logger.warning("Slack message %s was not sent: %s", message.pk, error)
        if error.retry_after:
            outbox.pause(message, error.retry_after)
        elif error.code in _FINAL_CODES:
            outbox.drop(message)
        else:
            outbox.mark_failed(message, str(error))
    return 1


def _send(message: SlackMessage, content: messages.Content) -> None:
    if not message.workspace.enabled:
        raise SlackError("the workspace is disabled")
    seconds = conf.webhook_timeout_seconds()
    if message.ts:
        arguments = {"channel": message.conversation, "ts": message.ts, **content}
        slack_api.call(message.workspace, "chat.update", arguments, seconds=seconds)
        outbox.mark_sent(message, conversation=message.conversation, ts=message.ts)
        return
    arguments = {
        "channel": messages.receiver_id(message),
        "unfurl_links": False,
        "unfurl_media": False,
        **content,
    }
    answer = slack_api.call(message.workspace, "chat.postMessage", arguments, seconds=seconds)
    crashpoint("slack_message.sent")
    outbox.mark_sent(
        message, conversation=str(answer.get("channel", "")), ts=str(answer.get("ts", ""))
    )
