"""Authenticate a socket that opens: by a bearer token or a session."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from workflows.common.client_address import client_address
from workflows.permissions.tokens import authenticate_token
from workflows.permissions.unknown_token_limit import count_unknown_token
from workflows.realtime.clients import LiveClient, users_of

#: Close codes of WebSockets.
UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, TOO_MANY = 4401, 4403, 4404, 4429


class Refusal(Exception):
    """The socket must be closed with `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a connection: a bearer token, or the key of a session."""

    bearer: str = ""
    session_key: str = ""
    #: Client address, for the limit on unknown tokens.
    address: str = field(default="", compare=False)

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Credentials:
        """Return the credentials of a connection; a bearer token is preferred to a session."""
        headers = {bytes(name): bytes(value) for name, value in scope.get("headers", ())}
        scheme, _, rest = headers.get(b"authorization", b"").strip().partition(b" ")
        if scheme.lower() == b"bearer":
            remote = (scope.get("client") or ("",))[0]
            forwarded = headers.get(b"x-forwarded-for", b"").decode("latin-1")
            return cls(
                bearer=rest.strip().decode("ascii", "replace"),
                address=client_address(remote or "", forwarded),
            )
        session = scope.get("session")
        return cls(session_key=getattr(session, "session_key", None) or "")

    def owner(self) -> str:
        """Return the key for counting open connections: the token's digest or the session key."""
        return hashlib.sha256(self.bearer.encode()).hexdigest() if self.bearer else self.session_key

    def client(self) -> LiveClient:
        """Return the client, whose user every later read checks again; raises Refusal."""
        return self._of_token() if self.bearer else self._of_session()

    def _of_token(self) -> LiveClient:
        token = authenticate_token(self.bearer)
        if token is None:
            raise Refusal(TOO_MANY if count_unknown_token(self.address) else UNAUTHENTICATED)
        if "read" not in token.scopes:
            raise Refusal(FORBIDDEN)
        return LiveClient(user_id=token.user_id, token_id=token.pk)

    def _of_session(self) -> LiveClient:
        user_id = SessionStore(self.session_key).load().get(SESSION_KEY)
        client = LiveClient(user_id=int(user_id or 0), session_key=self.session_key)
        if not users_of([client]):
            raise Refusal(UNAUTHENTICATED)
        return client
