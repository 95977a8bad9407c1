"""What the sockets read from the database: who is there, what they may see, what happened."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import Q, Subquery
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from workflows.common.client_address import client_address
from workflows.executions.access import annotate_groups, filter_visible, visible_to
from workflows.models import QUEUE_KINDS, ExecutionEvent
from workflows.permissions.tokens import authenticate_token
from workflows.permissions.unknown_token_limit import count_unknown_token
from workflows.realtime.event_serialization import wire_event, wire_events

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Close codes, as the pages know them.
UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, TOO_MANY = 4401, 4403, 4404, 4429

_MAX_MISSED = 500

#: Events of one execution: its id, and the first and last seq.
Span = tuple[int, int, int]


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
    #: Where the connection came from, which unknown tokens count against.
    address: str = field(default="", compare=False)
    #: [id of whoever this was last]
    _person: list[int] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Credentials:
        """The credentials of a connection; a bearer token goes before a session."""
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
        """What the open connections of this credential are counted under; a token's digest."""
        return hashlib.sha256(self.bearer.encode()).hexdigest() if self.bearer else self.session_key

    def user(self) -> User:
        """Whoever this is now; raises Refusal.  Asked anew for everything that is read."""
        if self.bearer:
            token = authenticate_token(self.bearer, reading=True)
            if token is None:
                raise Refusal(TOO_MANY if count_unknown_token(self.address) else UNAUTHENTICATED)
            if "read" not in token.scopes:
                raise Refusal(FORBIDDEN)
            return token.user
        return self._of_session()

    def _of_session(self) -> User:
        """The user of the session, with their groups; the person known, it is one statement."""
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
        # A changed password ends the sessions that were opened with the old one.
        given = data.get(HASH_SESSION_KEY, "")
        if (
            user is None
            or data.get(SESSION_KEY) != str(user.pk)
            or not constant_time_compare(given, user.get_session_auth_hash())
        ):
            raise Refusal(UNAUTHENTICATED)
        self._person[:] = [user.pk]
        found: User = user
        return found

    def _session(self) -> Subquery:
        """What the session holds, while it lasts."""
        rows = Session.objects.filter(pk=self.session_key, expire_date__gt=timezone.now())
        return Subquery(rows.values("session_data")[:1])


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


def seen_of(who: Credentials, executions: Iterable[int]) -> frozenset[int]:
    """Which of the executions the user may know of; raises Refusal for nobody."""
    return frozenset(
        visible_to(who.user()).filter(pk__in=list(executions)).values_list("pk", flat=True)
    )


def queue_events(who: Credentials, spans: Sequence[Span]) -> list[list[dict[str, Any]]]:
    """For each span the wire events that the queue wants, [] where the user may not see them.

    An execution has one span at most.  However many there are: one look for the person, one for
    what they may see, and one for the events that no socket of this process has read yet.
    """
    told = _queue_news.read(spans)
    wanted = {span[0] for span, events in zip(spans, told, strict=True) if events}
    seen = seen_of(who, wanted) if wanted else frozenset()
    return [events if span[0] in seen else [] for span, events in zip(spans, told, strict=True)]


class _QueueNews:
    """Events of the queue, read once for all sockets of this process: they never change."""

    KEPT = 2000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Span, list[dict[str, Any]]] = OrderedDict()

    def read(self, spans: Sequence[Span]) -> list[list[dict[str, Any]]]:
        """The events of each span, oldest first."""
        with self._lock:
            found = {span: self._known[span] for span in spans if span in self._known}
        missing = [span for span in dict.fromkeys(spans) if span not in found]
        if missing:
            read = _events_within(missing)
            found |= read
            with self._lock:
                self._known |= read
                while len(self._known) > self.KEPT:
                    self._known.popitem(last=False)
        return [found[span] for span in spans]


_queue_news = _QueueNews()


def _events_within(spans: Sequence[Span]) -> dict[Span, list[dict[str, Any]]]:
    within = Q()
    for execution_id, first, last in spans:
        within |= Q(execution_id=execution_id, seq__gte=first, seq__lte=last)
    found: dict[Span, list[dict[str, Any]]] = {span: [] for span in spans}
    span_of = {span[0]: span for span in spans}
    rows = ExecutionEvent.objects.filter(within, kind__in=QUEUE_KINDS)
    for row in rows.order_by("execution_id", "seq"):
        found[span_of[row.execution_id]].append(wire_event(row))
    return found


def missed_queue_events(
    who: Credentials, since: datetime, seen: Mapping[int, int]
) -> list[dict[str, Any]]:
    """What the queue wants since a moment and was not told: news was lost on the way.

    Also finds out whether the user is still there; raises Refusal.
    """
    rows = filter_visible(
        ExecutionEvent.objects.filter(created_at__gte=since, kind__in=QUEUE_KINDS), who.user()
    )
    newest: Iterable[ExecutionEvent] = rows.order_by("-created_at", "-seq")[:_MAX_MISSED]
    missed = [row for row in newest if row.seq > seen.get(row.execution_id, 0)]
    return [wire_event(row) for row in reversed(missed)]
