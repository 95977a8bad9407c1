"""A token that is being revoked makes no token that survives it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from tests.support.processes import wait_for
from workflows.executions.validation import InvalidRequest
from workflows.models import ApiToken
from workflows.permissions import tokens

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def acting() -> User:
    """Somebody who calls with a token."""
    user = User.objects.create_user("somebody")
    _, text = tokens.create_token(user=user, name="maker", scopes=["read"])
    token = tokens.authenticate_token(text)
    assert token is not None
    return token.user


def make(user: User) -> str:
    try:
        tokens.create_token(user=user, name="child", scopes=["read"])
    except InvalidRequest as refused:
        return refused.problems[0].code
    finally:
        connection.close()
    return "made"


def is_waiting_for_a_lock() -> bool:
    """Whether a session of this database waits; other tests use the same server."""
    with connection.cursor() as cursor:
        # A transaction sees the sessions as they were when it first looked.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])


def test_a_revocation_that_is_not_committed_yet_counts(acting: User) -> None:
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            tokens.revoke(tokens=ApiToken.objects.all())
            made = pool.submit(make, acting)
            wait_for(lambda: made.done() or is_waiting_for_a_lock(), what="the maker is locked")
        assert made.result(30) == "revoked"
    assert ApiToken.objects.count() == 1


def test_a_revoked_token_creates_no_token(acting: User) -> None:
    tokens.revoke(tokens=ApiToken.objects.all())
    assert make(acting) == "revoked"
    assert ApiToken.objects.count() == 1
