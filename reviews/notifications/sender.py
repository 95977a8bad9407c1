"""Send messages of the outbox: e-mails by Django's backend, chat posts by the outbound client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.core.mail import get_connection

from reviews.models import ChatHook, NoticeMessage
from workflows import conf
from workflows.common import outbound_http
from workflows.common.crashpoints import crashpoint
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.realtime import work_hints
from workflows.webhooks.addresses import request_permissions
from workflows.webhooks.attempts import USER_AGENT, retry_after_seconds

from . import mail_and_chat_text, outbox
from .mail_and_chat_text import MessageContent
from .polling import poll

logger = logging.getLogger(__name__)


class SendError(Exception):
    """The message could not be sent; the text gives the reason for operators.

    `retry_after` are the seconds that the receiver asks to wait, 0 if it does not.
    """

    def __init__(self, message: str, *, retry_after: float = 0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def run_mail(stop: threading.Event) -> None:
    """Send e-mails until stopped."""
    _run("user", stop)


def run_chat(stop: threading.Event) -> None:
    """Post to chats until stopped, in a thread of its own so that a slow chat delays no e-mail."""
    _run("hook", stop)


def _run(receiver: str, stop: threading.Event) -> None:
    messages = NoticeMessage.objects.filter(**{f"{receiver}__isnull": False})
    poll(
        lambda: send_next(receiver),
        stop,
        group=work_hints.WORK,
        due=lambda: outbox.seconds_to_due(messages),
    )


def send_next(receiver: str) -> int:
    """Send the next due message to a "user" or a "hook"; return 1, or 0 if there is none."""
    message = outbox.claim_next(receiver)
    if message is None:
        return 0
    content = mail_and_chat_text.message_content(message)
    if content is None:
        outbox.drop(message)
        return 1
    try:
        _SENDERS[receiver](message, content)
    except SendError as error:
        logger.warning("message %s was not sent: %s", message.pk, error)
        outbox.mark_failed(message, str(error), retry_after=error.retry_after)
        return 1
    crashpoint("message.sent")
    outbox.mark_sent(message)
    return 1


def _mail(message: NoticeMessage, content: MessageContent) -> None:
    try:
        email = mail_and_chat_text.build_email(message, content)
        email.connection = get_connection()
        email.send()
    except Exception as error:  # a mail backend may raise anything
        raise SendError(f"{type(error).__name__}: {error}") from error


def _post(message: NoticeMessage, content: MessageContent) -> None:
    assert message.hook is not None  # noqa: S101 - a message to a chat
    if not message.hook.enabled:
        raise SendError("the chat is disabled")
    post_to(message.hook, mail_and_chat_text.chat_payload(content, message.hook.format))


def post_to(hook: ChatHook, body: bytes) -> None:
    """Post to the hook's address; raises SendError for anything but an answer of 2xx.

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
        raise SendError(str(error)) from error
    if not 200 <= answer.status < 300:
        raise SendError(
            f"HTTP {answer.status} {answer.reason}".strip(),
            retry_after=min(3600.0, retry_after_seconds(answer.header("Retry-After")) or 0),
        )


_SENDERS: dict[str, Callable[[NoticeMessage, MessageContent], None]] = {
    "user": _mail,
    "hook": _post,
}
