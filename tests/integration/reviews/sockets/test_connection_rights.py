"""The users of open connections are checked again for each read, all in a few statements."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from reviews.sockets.authentication import Credentials
from tests.support.groups import group_of
from tests.support.pages import browser
from workflows.executions.access import allowed_workflow_ids, groups_of
from workflows.models import ApiToken, Workflow
from workflows.permissions.tokens import create_token
from workflows.realtime.clients import LiveClient, users_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def who(reviewer: User) -> LiveClient:
    """The client of a socket that the reviewer's browser has opened."""
    session = browser(reviewer).session
    found = Credentials(session_key=str(session.session_key)).client()
    assert found.user() == reviewer
    return found


def test_any_number_of_clients_takes_three_statements(
    who: LiveClient, reviewer: User, make_user: Any, django_assert_num_queries: Any
) -> None:
    clients = [who, LiveClient(user_id=reviewer.pk)]
    for each in range(3):
        person = make_user(f"person {each}", "legal")
        token, _ = create_token(user=person, name="t", scopes=["read"])
        key = str(browser(person).session.session_key)
        clients += [
            LiveClient(user_id=person.pk, token_id=token.pk),
            LiveClient(user_id=person.pk, session_key=key),
        ]
    ApiToken.objects.update(last_used_at=timezone.now())
    with django_assert_num_queries(3):
        users = users_of(clients)
        groups = [groups_of(users[each]) for each in clients]
    assert groups == [{"reviewer"}] * 2 + [{"legal"}] * 6
    reviewer.groups.add(group_of("legal"))
    assert groups_of(who.user()) == {"reviewer", "legal"}


def test_each_token_keeps_its_limits(reviewer: User) -> None:
    workflow = Workflow.objects.create(name="one", title="One", plan={"tasks": []})
    both = []
    for workflows in (None, [workflow.name]):
        token, _ = create_token(user=reviewer, name="t", scopes=["read"], workflows=workflows)
        both.append(LiveClient(user_id=reviewer.pk, token_id=token.pk))
    users = users_of(both)
    assert [allowed_workflow_ids(users[each]) for each in both] == [None, {workflow.pk}]


def test_a_use_is_recorded_once_a_minute(reviewer: User) -> None:
    token, _ = create_token(user=reviewer, name="t", scopes=["read"])
    client = LiveClient(user_id=reviewer.pk, token_id=token.pk)
    assert client.user() == reviewer
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    assert client.user() == reviewer
    assert ApiToken.objects.get().last_used_at == first


@pytest.mark.parametrize(
    "changes",
    [{"scopes": ["run"]}, {"revoked_at": LONG_AGO}, {"expires_at": LONG_AGO}],
    ids=["scope", "revoked", "expired"],
)
def test_a_token_that_ended_is_refused(reviewer: User, changes: dict[str, Any]) -> None:
    token, _ = create_token(user=reviewer, name="t", scopes=["read"])
    client = LiveClient(user_id=reviewer.pk, token_id=token.pk)
    assert client.user() == reviewer
    ApiToken.objects.update(**changes)
    assert client.user() is None


def test_a_session_of_a_removed_way_to_sign_in_is_refused(who: LiveClient, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = ["nowhere.Backend"]
    assert who.user() is None


def test_a_deleted_session_is_refused(who: LiveClient) -> None:
    Session.objects.all().delete()
    assert who.user() is None


def test_an_expired_session_is_refused(who: LiveClient) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert who.user() is None


def test_a_changed_password_ends_the_session(who: LiveClient, reviewer: User) -> None:
    reviewer.set_password("something quite new")
    reviewer.save()
    assert who.user() is None


def test_an_inactive_account_is_refused(who: LiveClient, reviewer: User) -> None:
    type(reviewer).objects.filter(pk=reviewer.pk).update(is_active=False)
    assert who.user() is None


def test_a_session_of_another_user_is_refused(who: LiveClient, make_user: Any) -> None:
    other = browser(make_user("other"))
    theirs = Session.objects.get(pk=other.session.session_key)
    Session.objects.filter(pk=who.session_key).update(session_data=theirs.session_data)
    assert who.user() is None
