"""Apply the limits of `config.web.body_limits` inside daphne, and ignore a client's root path.

daphne stores a whole body before it calls the application and has no setting for its size, so its
request class is replaced by one that checks the headers first and counts received bytes.  A refused
request is answered at once; the rest of its body is dropped, and the connection is closed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import unquote

from daphne import http_protocol
from django.http import HttpResponse
from twisted.web.http import HTTPChannel

from config.web.body_limits import body_limit, refusal, too_large

#: Time to read and drop the rest of a refused body.  Closing at once would reset the connection
#: before the client has read the response.
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
        """Check the limits: the headers are complete, the body has not arrived."""
        super().gotLength(length)
        # daphne takes the root path from this header of any client: URLs in responses would
        # start with it, and the limits would be applied to other paths.
        self.requestHeaders.removeHeader(b"Daphne-Root-Path")
        self.scope = self._scope()
        self.limit = body_limit(self.scope["path"])
        answer = refusal(self.scope)
        if answer is not None:
            self._refuse(answer)

    def handleContentChunk(self, data: bytes) -> None:
        """Store a part of the body while the body is within the limit."""
        self.received += len(data)
        if not self.refused and self.received > self.limit:
            self._refuse(too_large(self.scope))
        if not self.refused:
            super().handleContentChunk(data)

    def requestReceived(self, *args: Any) -> None:
        """Pass a complete body to the application unless it was refused."""
        if self.refused:
            self.channel.loseConnection()
        else:
            super().requestReceived(*args)

    def _scope(self) -> dict[str, Any]:
        """Return the part of the ASGI scope that `config.web.body_limits` reads."""
        parts = self.request_line.split()
        target = parts[1] if len(parts) > 1 else b""
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


def install_limits() -> None:
    """Use the classes above for each new connection of daphne."""
    http_protocol.WebRequest = BoundedRequest
    http_protocol.HTTPFactory.protocol = RequestLineChannel
