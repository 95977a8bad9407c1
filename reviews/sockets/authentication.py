"""Authenticate sockets: bearer tokens and sessions, read again for every use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db.models import Subquery
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from workflows.common.client_address import client_address
from workflows.executions.access import annotate_groups
from workflows.permissions.tokens import authenticate_token
from workflows.permissions.unknown_token_limit import count_unknown_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

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
    #: The id of the user at the last check, as a list of at most one.
    _person: list[int] = field(default_factory=list, compare=False, repr=False)

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

    def user(self) -> User:
        """Return the present user, read from the database; raises Refusal."""
        if self.bearer:
            token = authenticate_token(self.bearer, reading=True)
            if token is None:
                raise Refusal(TOO_MANY if count_unknown_token(self.address) else UNAUTHENTICATED)
            if "read" not in token.scopes:
                raise Refusal(FORBIDDEN)
            return token.user
        return self._of_session()

    def _of_session(self) -> User:
        """Return the session's user with groups; one query if the user is known."""
        if not self.session_key:
            raise Refusal(UNAUTHENTICATED)
        people = annotate_groups(get_user_model().objects.filter(is_active=True))
        if self._person:
            people = people.annotate(session_data=self._session())
            user = people.filter(pk=self._person[0]).first()
            data = SessionStore().decode(user.session_data or "") if user else {}
        else:
            data = SessionStore(session_key=self.session_key).load()
            user = people.filter(pk=data.get(SESSION_KEY)).first()
        # A change of the password ends all earlier sessions.
        given = data.get(HASH_SESSION_KEY, "")
        if (
            user is None
            or data.get(SESSION_KEY) != str(user.pk)
            or not constant_time_compare(given, user.get_session_auth_hash())
        ):
            raise Refusal(UNAUTHENTICATED)
        self._person[:] = [user.pk]
        session_user: User = user
        return session_user

    def _session(self) -> Subquery:
        """Return a subquery for the data of the unexpired session."""
        rows = Session.objects.filter(pk=self.session_key, expire_date__gt=timezone.now())
        return Subquery(rows.values("session_data")[:1])
