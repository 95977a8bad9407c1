"""News for many people: a few statements for all of them, decided with their present rights."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from channels.layers import get_channel_layer
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from reviews.notifications import inbox
from reviews.sockets import queries
from reviews.sockets.authentication import UNAUTHENTICATED, Refusal
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.integration.reviews.notifications.conftest import consume_journal
from tests.integration.reviews.sockets.test_sockets import bearer, in_thread, session, socket, take
from tests.support.groups import group_of
from workflows.executions.access import (
    annotate_groups,
    limit_to_workflows,
    visible_to,
    visible_to_each,
)
from workflows.models import Absence, Execution
from workflows.realtime.clients import LiveClient, users_of
from workflows.realtime.execution_reads import Position, read_new_events

if TYPE_CHECKING:
    from django.contrib.auth.models import User

BEFORE = "BEFORE_EXECUTION"
ROLES = ("reviewer", "auditor", "operator", "integrator", "admin", "legal")


@pytest.fixture
def everybody(make_user: MakeUser, reviewer: User) -> list[User]:
    """A person of each role, some without any, inactive, absent, or standing in for another."""
    people = [make_user(f"a {role}", role) for role in ROLES]
    people += [
        make_user("nobody"),
        make_user("gone", "operator", is_active=False),
        make_user("root", is_superuser=True),
        make_user("both", "integrator", "legal"),
        make_user("stand-in"),
        make_user("auditing stand-in", "auditor"),
    ]
    now = timezone.now()
    for absent, delegate in ((people[5], people[-2]), (reviewer, people[-1])):
        Absence.objects.create(
            user=absent, delegate=delegate, begins_at=now - timedelta(hours=1),
            ends_at=now + timedelta(hours=1), created_by="test",
        )  # fmt: skip
    return people


@pytest.fixture
def runs(start: Start, everybody: list[User]) -> list[Execution]:
    """Runs for different groups, by different people, and one whose data was erased."""
    found = [start(echo("a", phase=BEFORE, groups=[group])) for group in ("reviewer", "legal")]
    found += [start(echo("a"), actor=everybody[3]), start(echo("a"), actor=everybody[0])]
    erased = start(echo("a"))
    Execution.objects.filter(pk=erased.pk).update(erased_at=timezone.now())
    return [*found, erased]


@pytest.mark.django_db
def test_visible_to_each_equals_visible_to(runs: list[Execution], everybody: list[User]) -> None:
    ids = {each.pk for each in runs}
    people: dict[int, Any] = {each.pk: each for each in annotate_groups(type(everybody[0]).objects)}
    people[0] = AnonymousUser()
    limited = everybody[2].pk
    limit_to_workflows(people[limited], [10**6])
    expected = {
        key: frozenset(visible_to(user).filter(pk__in=ids).values_list("pk", flat=True))
        for key, user in people.items()
    }
    with CaptureQueriesContext(
        connection,
    ) as statements:
        assert visible_to_each(people, ids) == expected
    assert len(statements) == 1
    assert visible_to_each(people, []) == dict.fromkeys(people, frozenset())
    assert {len(each) for each in expected.values()} == {0, 1, 2, 4}
    assert expected[limited] == frozenset()


def clients_of(make_user: MakeUser, number: int) -> list[LiveClient]:
    return [
        LiveClient(user_id=make_user(f"p{number} {each}", "reviewer").pk) for each in range(number)
    ]


@pytest.mark.django_db
def test_statements_do_not_grow_with_people(start: Start, make_user: MakeUser) -> None:
    execution = start(echo("a", phase=BEFORE))
    consume_journal()
    numbers = []
    for number in (2, 30):
        clients = clients_of(make_user, number)
        span = (execution.pk, 1, execution.version)
        queries._queue_events._known.clear()
        with CaptureQueriesContext(connection) as statements:
            found = queries.read_queue_events([queries.QueueNews(each, [span]) for each in clients])
            new = read_new_events([Position(each, execution.pk, 0, 9) for each in clients])
            unread = queries.read_unread(clients)
            seen = queries.read_visible_ids(
                [queries.Activity(each, frozenset({execution.pk})) for each in clients]
            )
        numbers.append(len(statements))
        assert [[event["type"] for event in each[0]] for each in found] == [  # type: ignore[index]
            ["workflow_start", "workflow_paused"]
        ] * number
        assert all(each.events is new[0].events for each in new)
        assert (unread, seen) == ([(0, 0)] * number, [{execution.pk}] * number)
    assert numbers[0] == numbers[1] <= 12


@pytest.mark.django_db
def test_rights_that_were_taken_away_count_in_the_next_batch(
    start: Start, make_user: MakeUser
) -> None:
    execution = start(echo("a", phase=BEFORE))
    stays, leaves, ends = clients = clients_of(make_user, 3)
    news = [queries.QueueNews(each, [(execution.pk, 1, execution.version)]) for each in clients]
    positions = [Position(each, execution.pk, 0, 9) for each in clients]
    assert all(each[0] for each in queries.read_queue_events(news))  # type: ignore[index]
    users = users_of(clients)
    users[leaves].groups.clear()
    type(users[ends]).objects.filter(pk=ends.user_id).update(is_active=False)
    found: list[Any] = queries.read_queue_events(news)
    assert [len(found[0][0]), found[1]] == [2, [[]]]
    assert isinstance(found[2], Refusal)
    assert found[2].code == UNAUTHENTICATED
    read = read_new_events(positions)
    assert [(each.is_authenticated, each.is_visible) for each in read] == [
        (True, True), (True, False), (False, False),
    ]  # fmt: skip
    assert [bool(each.events) for each in read] == [True, False, False]
    assert isinstance(queries.read_unread(clients)[2], Refusal)
    group_of("reviewer").user_set.add(leaves.user_id)
    assert all(each[0] for each in queries.read_queue_events(news)[:2])  # type: ignore[index]
    assert stays in users


@pytest.mark.django_db
def test_missed_events_are_those_that_each_socket_has_not_sent(
    start: Start, make_user: MakeUser
) -> None:
    since = queries.database_time()
    first, second = (start(echo("a", phase=BEFORE)) for _ in range(2))
    both, one, none, some, late = clients_of(make_user, 5)
    outsider = LiveClient(user_id=make_user("outsider").pk)
    known = {first.pk: (1, first.version)}
    polls = [
        queries.Poll(both, since, {}),
        queries.Poll(one, since, known),
        queries.Poll(none, since, {**known, second.pk: (1, second.version)}),
        # It knows the newest event only: a notification of an earlier one was lost.
        queries.Poll(some, since, {**known, second.pk: (second.version, second.version)}),
        queries.Poll(late, queries.database_time(), {}),
        queries.Poll(outsider, since, {}),
    ]
    found: list[Any] = queries.read_missed(polls)
    sent = [[int(event["executionId"]) for event in each.events] for each in found]
    assert sent == [[first.pk] * 2 + [second.pk] * 2, [second.pk] * 2, [], [second.pk], [], []]
    assert all(since < each.at for each in found)


@pytest.mark.django_db
def test_unread_notices_of_many_people_are_two_statements(
    start: Start, make_user: MakeUser
) -> None:
    people = [make_user(f"p{each}", "legal") for each in range(3)]
    holds = [only_hold(start(echo("a", phase=BEFORE, groups=["legal"]))) for _ in range(2)]
    consume_journal()
    inbox.mark_hold_read(people[1], holds[0])
    people[2].groups.clear()
    users = {user.pk: user for user in annotate_groups(type(people[0]).objects.all())}
    with CaptureQueriesContext(connection) as statements:
        found = inbox.unread_states(users)
    assert len(statements) == 2
    assert [found[each.pk][0] for each in people] == [2, 1, 0]
    assert {pk: inbox.unread_state(user) for pk, user in users.items()} == found


# --- over the real Redis layer --------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
async def test_many_sockets_share_a_channel_and_close_together_quietly(
    start: Start, reviewer: User, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "connections_each": 0}
    caplog.set_level(logging.WARNING)
    execution = await in_thread(start, echo("a", phase=BEFORE))
    headers = [await in_thread(make, reviewer) for make in (session, bearer)]
    paths = ("/ws/reviews/", f"/ws/executions/{execution.pk}/?after={execution.version}")
    layer: Any = get_channel_layer()
    before = set(layer.channels)
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(socket(path, header))
            for path in paths
            for header in headers
            for _ in range(25)
        ]
        for each in opened:
            await each.send_to('{"type": "ping"}')
            assert await take(each, 1) == [{"type": "pong"}]
        # One channel for the queue, one for the notices and one for the run.
        assert len(layer.channels) == len(before) + 3
        await asyncio.gather(*(each.send_input({"type": "websocket.disconnect", "code": 1001})
                               for each in opened))  # fmt: skip
        await asyncio.gather(*(each.wait(10) for each in opened))
        assert set(layer.channels) == before
    assert [each.getMessage() for each in caplog.records] == []


@pytest.mark.django_db(transaction=True)
async def test_a_person_whose_rights_end_hears_no_more_than_the_others_do(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    headers = [await in_thread(session, each) for each in (reviewer, reviewer2)]
    async with socket("/ws/reviews/", headers[0]) as one, socket("/ws/reviews/", headers[1]) as two:
        for each in (one, two):
            await each.send_to('{"type": "ping"}')
            await take(each, 1)
        await in_thread(reviewer2.groups.clear)
        execution = await in_thread(start, echo("a", phase=BEFORE))
        told = await take(one, 2)
        assert {each["executionId"] for each in told} == {str(execution.pk)}
        # Whatever was for the second one came before the answer to a ping.
        await two.send_to('{"type": "ping"}')
        assert json.loads(await two.receive_from(timeout=10)) == {"type": "pong"}
