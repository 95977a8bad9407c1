"""The origin check of WebSockets."""

from typing import Any

from channels.security.websocket import OriginValidator


class BrowserOriginValidator(OriginValidator):  # type: ignore[misc]
    """Require an allowed origin of browsers, but not of programs with a token.

    Browsers always send Origin, and pages cannot add an Authorization header to a socket.  A
    request with Authorization and without Origin comes from a program; its token is checked later.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        names = {name for name, _ in scope.get("headers", ())}
        if b"origin" not in names and b"authorization" in names:
            return await self.application(scope, receive, send)
        return await super().__call__(scope, receive, send)
