"""Who is at the other end of an open socket, stream or long poll: read again for each use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import (
    BACKEND_SESSION_KEY,
    HASH_SESSION_KEY,
    SESSION_KEY,
    get_user_model,
)
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from workflows.executions.access import annotate_groups, set_cached_groups
from workflows.permissions.tokens import usable_tokens

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from workflows.models import ApiToken


@dataclass(frozen=True, slots=True)
class LiveClient:
    """The user of an open connection and the credential: a token, a session, or neither."""

    user_id: int
    token_id: int | None = None
    session_key: str | None = None
    scopes: frozenset[str] = frozenset({"read"})

    def user(self) -> User | None:
        """Return the active user if the credential is still valid, or None."""
        return users_of([self]).get(self)


def users_of(clients: Iterable[LiveClient]) -> dict[LiveClient, User]:
    """Return the active user, with groups, of each client whose credential is still valid.

    At most three statements for any number of clients: people, sessions, tokens.
    """
    wanted = set(clients)
    people = _people({each.user_id for each in wanted})
    sessions = _session_data({each.session_key for each in wanted if each.session_key is not None})
    tokens = usable_tokens({each.token_id for each in wanted if each.token_id is not None})
    found: dict[LiveClient, User] = {}
    for client in wanted:
        user = people.get(client.user_id)
        if user is not None and client.token_id is not None:
            user = _token_user(client, tokens.get(client.token_id), user)
        elif user is not None and client.session_key is not None:
            user = user if _is_signed_in(user, sessions.get(client.session_key, {})) else None
        if user is not None:
            found[client] = user
    return found


def _people(ids: Collection[int]) -> dict[int, User]:
    users = get_user_model().objects.filter(pk__in=ids, is_active=True)
    return {user.pk: user for user in annotate_groups(users)} if ids else {}


def _session_data(keys: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the data of the sessions that have not expired."""
    if not keys:
        return {}
    rows = Session.objects.filter(pk__in=keys, expire_date__gt=timezone.now())
    store = SessionStore()
    return {key: store.decode(data) for key, data in rows.values_list("pk", "session_data")}


def _is_signed_in(user: User, session: Mapping[str, Any]) -> bool:
    """Whether the session is of this user; a change of the password ends all earlier sessions."""
    if session.get(SESSION_KEY) != str(user.pk):
        return False
    if session.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return False
    given = session.get(HASH_SESSION_KEY, "")
    valid = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return any(constant_time_compare(given, each) for each in valid)


def _token_user(client: LiveClient, token: ApiToken | None, person: Any) -> User | None:
    """Return the token's user, who carries its limits, with the groups of `person`."""
    if token is None or token.user_id != person.pk or client.scopes.isdisjoint(token.scopes):
        return None
    user: User = set_cached_groups(token.user, person.group_names_read, person.delegated_names_read)
    return user
