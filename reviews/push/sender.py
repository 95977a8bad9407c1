"""Send the messages of the outbox, in a thread of its own."""

from __future__ import annotations

import json
import logging
import threading
from typing import Final

from django.conf import settings
from django.utils.translation import gettext as _
from webpush import WebPush, WebPushException, WebPushMessage, WebPushSubscription

from reviews.models import NoticeKind, PushMessage, PushSubscription
from reviews.notifications import inbox, notice_text
from reviews.notifications.outbox import seconds_to_due
from reviews.notifications.polling import poll
from workflows import conf
from workflows.common import outbound_http
from workflows.common.crashpoints import crashpoint
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.executions.access import visible_to
from workflows.models import Hold
from workflows.realtime import work_hints
from workflows.webhooks.addresses import request_permissions
from workflows.webhooks.attempts import USER_AGENT

from . import outbox
from .services import push_key

logger = logging.getLogger(__name__)

#: Seconds for which a push service keeps a message for a browser that is not running.
_TTL: Final = 24 * 3600
#: The browser has ended its subscription.
_GONE: Final = (404, 410)


class PushError(Exception):
    """The message could not be sent; the text says why, without the address."""


def run(stop: threading.Event) -> None:
    """Send until stopped."""
    messages = PushMessage.objects.all()
    poll(send_next, stop, group=work_hints.WORK, due=lambda: seconds_to_due(messages))


def send_next() -> int:
    """Send the next due message; return 1, or 0 if there is none."""
    message = outbox.claim_next()
    if message is None:
        return 0
    if not _is_current(message):
        outbox.drop(message)
        return 1
    try:
        status = post(message)
    except PushError as error:
        logger.warning("push message %s was not sent: %s", message.pk, error)
        outbox.mark_failed(message, str(error))
        return 1
    if status in _GONE:
        PushSubscription.objects.filter(pk=message.subscription_id).delete()
        return 1
    crashpoint("push_message.sent")
    outbox.mark_sent(message)
    return 1


def _is_current(message: PushMessage) -> bool:
    """Whether the review still waits for a user who has not read of it."""
    user, hold = message.subscription.user, message.hold
    return (
        user.is_active
        and hold.status == Hold.Status.OPEN
        and visible_to(user).filter(pk=hold.execution_id).exists()
        and not inbox.read_keys(user, [message.key])
    )


def payload(message: PushMessage) -> bytes:
    """Return what the browser shows: no title of a run, no payload, no names."""
    titles = {
        NoticeKind.WAITING.value: _("A review waits for you"),
        NoticeKind.REMINDER.value: _("A review still waits for you"),
        NoticeKind.ESCALATED.value: _("A review was escalated to you"),
        NoticeKind.CLAIM_GIVEN.value: _("A review was assigned to you"),
        NoticeKind.CLAIM_ENDED.value: _("Your claim expired"),
    }
    content = {
        "title": titles[message.kind],
        "body": _("Run %(number)s") % {"number": message.hold.execution_id},
        "url": notice_text.review_path(message.hold),
        "tag": message.hold_id,
    }
    return json.dumps(content, ensure_ascii=False).encode()


def post(message: PushMessage) -> int:
    """Return the status of an accepted message, 404 or 410; raise PushError for other answers."""
    try:
        address = decrypt(message.subscription.address)
        encrypted = _encrypted(message, address)
        answer = outbound_http.request(
            "POST",
            address,
            grants=request_permissions(address),
            headers={
                "TTL": encrypted.headers["ttl"],
                "Content-Encoding": encrypted.headers["content-encoding"],
                "Authorization": encrypted.headers["authorization"],
                "Content-Type": "application/octet-stream",
                "Urgency": "normal",
                "User-Agent": USER_AGENT,
            },
            body=encrypted.encrypted,
            limits=outbound_http.NetLimits(
                connect_seconds=min(5.0, conf.webhook_timeout_seconds()),
                total_seconds=conf.webhook_timeout_seconds(),
                max_response_bytes=65_536,
                max_redirects=0,
            ),
        )
    except (
        outbound_http.NetworkDenied,
        outbound_http.NetworkFailed,
        DecryptionFailed,
        WebPushException,
    ) as error:
        raise PushError(str(error)) from error
    if answer.status not in _GONE and not 200 <= answer.status < 300:
        raise PushError(f"HTTP {answer.status} {answer.reason}".strip())
    return answer.status


def _encrypted(message: PushMessage, address: str) -> WebPushMessage:
    key = push_key()
    browser = WebPushSubscription.model_validate(
        {"endpoint": address, "keys": json.loads(decrypt(message.subscription.keys))}
    )
    server = WebPush(
        private_key=decrypt(key.private_key).encode(),
        public_key=key.public_key.encode(),
        subscriber=settings.DEFAULT_FROM_EMAIL.rpartition("<")[2].strip(" >"),
        ttl=_TTL,
    )
    return server.get(payload(message), browser)
