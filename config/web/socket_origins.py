"""Who may open a socket, by where the request comes from."""

from typing import Any

from channels.security.websocket import OriginValidator


class BrowserOriginValidator(OriginValidator):  # type: ignore[misc]
    """An origin is required of browsers; a program that brings its own token sends none.

    A browser always sends Origin, and no page can add an Authorization header to a socket. So
    a request without the one and with the other comes from a program, and the token decides.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        names = {name for name, _ in scope.get("headers", ())}
        if b"origin" not in names and b"authorization" in names:
            return await self.application(scope, receive, send)
        return await super().__call__(scope, receive, send)
