"""What the sockets read from the database: who is there, what they may see, what happened."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.db import connection
from django.utils.crypto import constant_time_compare

from workflows.access import visible_to
from workflows.models import ExecutionEvent
from workflows.tokens import authenticate_token
from workflows.wire import wire_event, wire_events

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Close codes, as the pages know them.
UNAUTHENTICATED, FORBIDDEN, NOT_FOUND = 4401, 4403, 4404

#: Events that change what the queue or the list of runs shows.
QUEUE_KINDS = frozenset(
    {
        "execution_started",
        "hold_opened",
        "hold_voted",
        "hold_decided",
        "hold_expired",
        "hold_extended",
        "hold_escalated",
        "execution_completed",
        "execution_failed",
        "execution_aborted",
    }
)
_MAX_MISSED = 500


class Refusal(Exception):
    """The socket has to be closed with `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a socket came with: a bearer token, or the key of a session."""

    bearer: str = ""
    session_key: str = ""

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Credentials:
        """The credentials of a connection; a bearer token goes before a session."""
        for name, value in scope.get("headers", ()):
            if name == b"authorization":
                scheme, _, rest = bytes(value).strip().partition(b" ")
                if scheme.lower() == b"bearer":
                    return cls(bearer=rest.strip().decode("ascii", "replace"))
        session = scope.get("session")
        return cls(session_key=getattr(session, "session_key", None) or "")

    def owner(self) -> str:
        """What the open connections of this credential are counted under; a token's digest."""
        return hashlib.sha256(self.bearer.encode()).hexdigest() if self.bearer else self.session_key

    def user(self) -> User:
        """Whoever this is now; raises Refusal.  Asked anew for everything that is read."""
        if self.bearer:
            token = authenticate_token(self.bearer)
            if token is None:
                raise Refusal(UNAUTHENTICATED)
            if "read" not in token.scopes:
                raise Refusal(FORBIDDEN)
            return token.user
        return _session_user(self.session_key)


def _session_user(key: str) -> User:
    if not key:
        raise Refusal(UNAUTHENTICATED)
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key=key)
    data = store.load()
    user = get_user_model().objects.filter(pk=data.get(SESSION_KEY), is_active=True).first()
    if user is None:
        raise Refusal(UNAUTHENTICATED)
    # A changed password ends the sessions that were opened with the old one.
    if not constant_time_compare(data.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
        raise Refusal(UNAUTHENTICATED)
    return user


def database_time() -> datetime:
    """Now, by the clock that events are stamped with."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def execution_events(
    who: Credentials, execution_id: int, after: int, limit: int
) -> list[dict[str, Any]]:
    """The next wire events of an execution; raises Refusal when it may not be seen (any more)."""
    if not visible_to(who.user()).filter(pk=execution_id).exists():
        raise Refusal(NOT_FOUND)
    return wire_events(execution_id, after=after, limit=limit)


def may_see(who: Credentials, execution_id: int) -> bool:
    """Whether the user may know of the execution; raises Refusal for nobody."""
    return visible_to(who.user()).filter(pk=execution_id).exists()


def queue_events(
    who: Credentials, execution_id: int, first: int, last: int
) -> list[dict[str, Any]]:
    """The wire events of `first` to `last` that the queue wants, if the user may see them."""
    events = list(_queue_news(execution_id, first, last))
    if not events or not visible_to(who.user()).filter(pk=execution_id).exists():
        return []
    return events


@lru_cache(maxsize=256)
def _queue_news(execution_id: int, first: int, last: int) -> tuple[dict[str, Any], ...]:
    """Read once for all sockets of this process: recorded events never change."""
    rows = ExecutionEvent.objects.filter(
        execution_id=execution_id, seq__gte=first, seq__lte=last, kind__in=QUEUE_KINDS
    )
    return tuple(wire_event(row) for row in rows.order_by("seq"))


def missed_queue_events(
    who: Credentials, since: datetime, seen: Mapping[int, int]
) -> list[dict[str, Any]]:
    """What the queue wants since a moment and was not told: news was lost on the way.

    Also finds out whether the user is still there; raises Refusal.
    """
    rows = ExecutionEvent.objects.filter(
        execution__in=visible_to(who.user()),
        execution__updated_at__gte=since,
        created_at__gte=since,
        kind__in=QUEUE_KINDS,
    )
    newest: Iterable[ExecutionEvent] = rows.order_by("-created_at", "-seq")[:_MAX_MISSED]
    missed = [row for row in newest if row.seq > seen.get(row.execution_id, 0)]
    return [wire_event(row) for row in reversed(missed)]
