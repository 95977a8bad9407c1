"""The destinations of security events that the settings name, and how each takes a batch."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from reviews import conf
from reviews.models import SecurityEvent
from workflows.common import outbound_http
from workflows.common.line_files import append_lines
from workflows.webhooks.addresses import request_permissions
from workflows.webhooks.attempts import USER_AGENT

from . import ocsf

Send = Callable[[Sequence[SecurityEvent]], None]
_SECONDS: Final = 10.0
#: How long a syslog server has to close the connection after the last message.
_CLOSE_SECONDS: Final = 2.0
#: Facility `authpriv` (10) with the severities `notice` and `warning` of RFC 5424.
_NOTICE, _WARNING = 10 * 8 + 5, 10 * 8 + 4


class NotDelivered(Exception):
    """The destination did not take the batch; the text says why, without credentials."""


def configured() -> Mapping[str, Send]:
    """Return the destinations of the settings by name."""
    wanted: dict[str, tuple[object, Send]] = {
        "file": (conf.siem_file(), to_file),
        "syslog": (conf.siem_syslog(), to_syslog),
        "https": (conf.siem_url(), to_https),
    }
    return {name: send for name, (setting, send) in wanted.items() if setting}


def to_file(events: Sequence[SecurityEvent]) -> None:
    """Append the events to HOLDPOINT_SIEM_FILE."""
    path = conf.siem_file()
    assert path is not None  # noqa: S101 - configured
    try:
        append_lines(path, b"".join(map(ocsf.line, events)))
    except OSError as error:
        raise NotDelivered(f"{type(error).__name__}: {error.strerror}") from error


def to_https(events: Sequence[SecurityEvent]) -> None:
    """Post the events as lines of JSON; only an answer of 2xx confirms them."""
    url = conf.siem_url()
    headers = {"Content-Type": "application/x-ndjson", "User-Agent": USER_AGENT}
    if authorization := conf.siem_authorization():
        headers["Authorization"] = authorization
    try:
        answer = outbound_http.request(
            "POST",
            url,
            grants=request_permissions(url),
            headers=headers,
            body=b"".join(map(ocsf.line, events)),
            limits=outbound_http.NetLimits(
                connect_seconds=5.0,
                total_seconds=_SECONDS,
                max_response_bytes=65_536,
                max_redirects=0,
            ),
        )
    except (outbound_http.NetworkDenied, outbound_http.NetworkFailed) as error:
        raise NotDelivered(str(error)) from error
    if not 200 <= answer.status < 300:
        raise NotDelivered(f"HTTP {answer.status} {answer.reason}".strip())


def to_syslog(events: Sequence[SecurityEvent]) -> None:
    """Send the events as messages of RFC 5424 with their length in front (RFC 6587, RFC 5425).

    Syslog has no receipts: a batch counts as delivered when the server has closed the connection,
    or has left it open without an error.
    """
    parts = urlsplit(conf.siem_syslog())
    host, port = parts.hostname or "", parts.port or (6514 if parts.scheme == "tls" else 601)
    data = b"".join(map(_message, events))
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as connection:
            if parts.scheme == "tls":
                _deliver_over_tls(connection, host, data)
            else:
                _deliver(connection, data)
    except OSError as error:
        raise NotDelivered(f"{host}:{port}: {error}") from error


def _deliver(connection: socket.socket, data: bytes) -> None:
    """Send the data, end the sending half, and wait for the server's end.

    Closing without reading would reset the connection, and messages on their way would be lost.
    """
    _send(connection, data, time.monotonic() + _SECONDS)
    connection.shutdown(socket.SHUT_WR)
    # One deadline for all of it: a server that keeps sending holds no sweeper.
    ends = time.monotonic() + _CLOSE_SECONDS
    with suppress(TimeoutError):
        while _receive(connection, ends):
            pass


def _deliver_over_tls(connection: socket.socket, host: str, data: bytes) -> None:
    """Do the same with TLS; raise OSError where the server refuses the client.

    With TLS 1.3 such a server says so only after the handshake. `SSLSocket.unwrap` takes that
    alert for the end that it waits for, so the bytes are kept in memory: the alert that ends the
    sending half is written first, and `read` raises what the server answers.
    """
    ends = time.monotonic() + _SECONDS
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=host)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            _send(connection, outgoing.read(), ends)
            _feed(incoming, _receive(connection, ends))
    tls.write(data)
    try:
        tls.unwrap()
    except ssl.SSLWantReadError:
        _send(connection, outgoing.read(), ends)
    else:
        raise ConnectionError("the server ended the connection after the handshake")
    ends = time.monotonic() + _CLOSE_SECONDS
    with suppress(TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
        while True:
            try:
                tls.read()
            except ssl.SSLWantReadError:
                _feed(incoming, _receive(connection, ends))


def _feed(incoming: ssl.MemoryBIO, received: bytes) -> None:
    if received:
        incoming.write(received)
    else:
        incoming.write_eof()


def _send(connection: socket.socket, data: bytes, ends: float) -> None:
    """Send all of the data before one deadline.

    A server drops the message that a broken connection cut off; the next one has it again.
    """
    connection.settimeout(_seconds_until(ends))
    connection.sendall(data)


def _receive(connection: socket.socket, ends: float) -> bytes:
    connection.settimeout(_seconds_until(ends))
    return connection.recv(65_536)


def _seconds_until(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _message(event: SecurityEvent) -> bytes:
    failed = ocsf.fields(event)["status_id"] != 1
    at = event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = f"<{_WARNING if failed else _NOTICE}>1 {at} {socket.gethostname()} holdpoint - "
    message = f"{head}{event.kind} - ".encode() + ocsf.line(event).rstrip(b"\n")
    return str(len(message)).encode() + b" " + message
