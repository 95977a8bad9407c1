"""What daphne accepts: the limits of `config.web.body_limits`, and no root path from a client.

daphne stores a whole body before it calls us.

daphne has no setting for the size of a body, so its request class is replaced by one that looks at
the headers first and counts what arrives.  A request that is refused is answered at once; the rest
of its body is dropped, not stored, and the connection is closed soon after.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import unquote

from daphne import http_protocol
from django.http import HttpResponse
from twisted.web.http import HTTPChannel

from config.web.body_limits import body_limit, refusal, too_large

#: How long a client may go on sending what nobody stores.  A connection that is closed at once
#: would be reset, and the client would lose the answer.
DRAIN_SECONDS: Final = 2.0


class RequestLineChannel(HTTPChannel):
    """An HTTP connection whose requests know their request line before their body arrives."""

    newest_line = b""

    def lineReceived(self, line: bytes) -> None:
        self.newest_line = line
        super().lineReceived(line)  # type: ignore[no-untyped-call]


class BoundedRequest(http_protocol.WebRequest):  # type: ignore[misc]
    """daphne's request with a bounded body, at the root path that the server was started with."""

    def __init__(self, channel: RequestLineChannel, *args: Any) -> None:
        # Twisted makes a request while it handles the request line.
        self.request_line = channel.newest_line
        self.received = 0
        self.refused = False
        super().__init__(channel, *args)

    def gotLength(self, length: int | None) -> None:
        """All headers are there; the body is not."""
        super().gotLength(length)
        # daphne takes the root path from this header, of any client: addresses in answers would
        # begin with it, and paths would mean others than those that limits are set for.
        self.requestHeaders.removeHeader(b"Daphne-Root-Path")
        self.scope = self._scope()
        self.limit = body_limit(self.scope["path"])
        answer = refusal(self.scope)
        if answer is not None:
            self._refuse(answer)

    def handleContentChunk(self, data: bytes) -> None:
        """A part of the body, which is stored only while it is within the limit."""
        self.received += len(data)
        if not self.refused and self.received > self.limit:
            self._refuse(too_large(self.scope))
        if not self.refused:
            super().handleContentChunk(data)

    def requestReceived(self, *args: Any) -> None:
        """The body is complete; a refused one goes nowhere."""
        if self.refused:
            self.channel.loseConnection()
        else:
            super().requestReceived(*args)

    def _scope(self) -> dict[str, Any]:
        """What `config.web.body_limits` looks at, as ASGI has it."""
        words = self.request_line.split()
        target = words[1] if len(words) > 1 else b""
        headers = [
            (name.lower(), value)
            for name, values in self.requestHeaders.getAllRawHeaders()
            for value in values
        ]
        path = unquote(target.partition(b"?")[0].decode("latin-1"))
        return {"type": "http", "path": path, "headers": headers}

    def _refuse(self, response: HttpResponse) -> None:
        self.refused = True
        # Twisted would ask for the body otherwise.
        self.requestHeaders.removeHeader(b"Expect")
        lines = [f"HTTP/1.1 {response.status_code} {response.reason_phrase}"]
        lines += [f"{name}: {value}" for name, value in response.items()]
        lines += ["Connection: close", "", ""]
        self.channel.write("\r\n".join(lines).encode("latin-1") + response.content)
        asyncio.get_running_loop().call_later(DRAIN_SECONDS, self.channel.loseConnection)


def bound_daphne() -> None:
    """Let every connection that daphne accepts from now on use the classes above."""
    http_protocol.WebRequest = BoundedRequest
    http_protocol.HTTPFactory.protocol = RequestLineChannel
