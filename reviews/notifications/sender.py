"""Sending what the outbox holds: e-mails by Django's backend, posts by the safe client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.core.mail import get_connection

from reviews.models.notifications import ChatHook, NoticeMessage
from workflows import conf
from workflows.common import outbound_http
from workflows.common.crashpoints import crashpoint
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.webhooks.addresses import request_permissions
from workflows.webhooks.attempts import USER_AGENT

from . import email_templates, outbox
from .email_templates import Letter
from .threads import repeat

logger = logging.getLogger(__name__)


class NotSent(Exception):
    """The message did not go out; the text says why, for whoever keeps the product."""


def run_mail(stop: threading.Event) -> None:
    """Send e-mails until stopped."""
    repeat(lambda: send_next("user"), stop)


def run_chat(stop: threading.Event) -> None:
    """Post to chats until stopped; a slow chat keeps no mail waiting."""
    repeat(lambda: send_next("hook"), stop)


def send_next(receiver: str) -> int:
    """Try the next message to a "user" or a "hook" that is due; how many there were, 0 or 1."""
    message = outbox.take(receiver)
    if message is None:
        return 0
    told = email_templates.letter(message)
    if told is None:
        outbox.drop(message)
        return 1
    try:
        _SEND[receiver](message, told)
    except NotSent as error:
        logger.warning("message %s was not sent: %s", message.pk, error)
        outbox.failed(message, str(error))
        return 1
    crashpoint("message.sent")
    outbox.sent(message)
    return 1


def _mail(message: NoticeMessage, told: Letter) -> None:
    try:
        made = email_templates.mail(message, told)
        made.connection = get_connection()
        made.send()
    except Exception as error:  # what a mail backend raises is up to it
        raise NotSent(f"{type(error).__name__}: {error}") from error


def _post(message: NoticeMessage, told: Letter) -> None:
    assert message.hook is not None  # noqa: S101 - a message to a chat
    if not message.hook.enabled:
        raise NotSent("it is switched off")
    post_to(message.hook, email_templates.post(told))


def post_to(hook: ChatHook, body: bytes) -> None:
    """Post to the hook's address; raises NotSent for anything but an answer of 2xx.

    The address is a secret: no error repeats it.
    """
    try:
        url = decrypt(hook.url)
        answer = outbound_http.request(
            "POST",
            url,
            grants=request_permissions(url),
            headers={"Content-Type": "application/json", "User-Agent": USER_AGENT},
            body=body,
            limits=outbound_http.NetLimits(
                connect_seconds=min(5.0, conf.webhook_timeout_seconds()),
                total_seconds=conf.webhook_timeout_seconds(),
                max_response_bytes=65_536,
                max_redirects=0,
            ),
        )
    except (outbound_http.NetworkDenied, outbound_http.NetworkFailed, DecryptionFailed) as error:
        raise NotSent(str(error)) from error
    if not 200 <= answer.status < 300:
        raise NotSent(f"HTTP {answer.status} {answer.reason}".strip())


_SEND: dict[str, Callable[[NoticeMessage, Letter], None]] = {"user": _mail, "hook": _post}
