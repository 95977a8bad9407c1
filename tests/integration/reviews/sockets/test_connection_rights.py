"""The user of an open socket is checked again for each read, in one statement."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from reviews.sockets.authentication import UNAUTHENTICATED, Credentials, Refusal
from tests.support.groups import group_of
from tests.support.pages import browser
from workflows.executions.access import groups_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@pytest.fixture
def who(reviewer: User) -> Credentials:
    """A socket of the reviewer's browser that has read something already."""
    client = browser(reviewer)
    found = Credentials(session_key=str(client.session.session_key))
    assert found.user() == reviewer
    return found


def refused(who: Credentials) -> int:
    with pytest.raises(Refusal) as refusal:
        who.user()
    return refusal.value.code


def test_session_user_and_groups_are_one_statement(
    who: Credentials, reviewer: User, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        assert groups_of(who.user()) == {"reviewer"}
    reviewer.groups.add(group_of("legal"))
    assert groups_of(who.user()) == {"reviewer", "legal"}


def test_a_deleted_session_is_refused(who: Credentials) -> None:
    Session.objects.all().delete()
    assert refused(who) == UNAUTHENTICATED


def test_an_expired_session_is_refused(who: Credentials) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert refused(who) == UNAUTHENTICATED


def test_a_changed_password_ends_the_session(who: Credentials, reviewer: User) -> None:
    reviewer.set_password("something quite new")
    reviewer.save()
    assert refused(who) == UNAUTHENTICATED


def test_an_inactive_account_is_refused(who: Credentials, reviewer: User) -> None:
    type(reviewer).objects.filter(pk=reviewer.pk).update(is_active=False)
    assert refused(who) == UNAUTHENTICATED


def test_a_session_of_another_user_is_refused(who: Credentials, make_user: Any) -> None:
    other = browser(make_user("other"))
    theirs = Session.objects.get(pk=other.session.session_key)
    Session.objects.filter(pk=who.session_key).update(session_data=theirs.session_data)
    assert refused(who) == UNAUTHENTICATED
