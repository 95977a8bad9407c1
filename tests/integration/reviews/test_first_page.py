"""The kept statement of a first page answers what the queue's own rows answer, for everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reviews.queue import first_page, selectors
from reviews.queue.claims import claim
from reviews.queue.filters import QueueFilters
from reviews.queue.first_page import FIRST, Listing
from reviews.queue.selectors import TABS, Viewer, light_rows, queue
from tests.integration.reviews.conftest import MakeUser, Start, echo
from workflows.executions import access
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NEWEST, OLDEST = ("-opened_at", "-id"), ("opened_at", "id")
OPEN_TABS = TABS[:-1]


def kept(user: User, tab: str = "me", order: tuple[str, ...] = NEWEST, size: int = FIRST) -> Any:
    """The first page by the kept statement, unless another size is asked for."""
    rows = Listing(Viewer(user), tab, QueueFilters()).order_by(*order)[0:size]
    assert list(rows) == list(light_rows(queue(Viewer(user), tab)).order_by(*order)[:size])
    return [row["id"] for row in rows]


@pytest.fixture
def holds(start: Start, reviewer: User, reviewer2: User) -> list[str]:
    """Ids, oldest first: one is claimed, one is for others, one of a quorum, one of a colleague."""
    plans: list[dict[str, Any]] = [{}, {"groups": ["legal"]}, {"quorum": 2}, {}]
    for number, review in enumerate(plans):
        task = echo("publish", phase="BEFORE_EXECUTION", **review)
        start(task, title=f"100 % of 'it' {number}", actor=reviewer2 if number == 3 else None)
    found = list(Hold.objects.order_by("opened_at", "id").values_list("pk", flat=True))
    claim(user=reviewer, hold_id=found[0])
    return found


@pytest.mark.parametrize("order", [NEWEST, OLDEST])
@pytest.mark.parametrize("tab", OPEN_TABS)
def test_everybody_is_answered_as_by_the_rows_themselves(
    holds: list[str], make_user: MakeUser, reviewer: User, tab: str, order: tuple[str, ...]
) -> None:
    people = [
        reviewer,
        make_user("o'brien 100%", "reviewer", "legal"),
        make_user("lawyer", "legal"),
        *(make_user(f"one-{role}", role) for role in access.ROLES),
        make_user("root", is_superuser=True),
        make_user("nobody"),
        make_user("gone", "reviewer", is_active=False),
        access.limited(make_user("narrow", "reviewer"), [4711]),
    ]
    for _ in range(2):
        for person in people:
            kept(person, tab, order)
            kept(person, tab, order, size=2)


def test_what_comes_in_and_goes_is_seen_at_once(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    assert kept(reviewer) == []
    start(echo("publish", phase="BEFORE_EXECUTION"))
    [hold] = kept(reviewer)
    claim(user=reviewer2, hold_id=hold)
    assert kept(reviewer) == []
    assert kept(reviewer2, "claimed") == [hold]
    Hold.objects.update(status=Hold.Status.CLOSED)
    assert kept(reviewer2) == kept(reviewer2, "claimed") == []


def test_a_right_that_is_taken_away_counts_at_once(holds: list[str], make_user: MakeUser) -> None:
    person = make_user("ann", "reviewer", "legal")
    assert holds[1] in kept(person, "groups")
    person.groups.remove(Group.objects.get(name="legal"))
    assert holds[1] not in kept(person, "groups")
    person.groups.clear()
    assert kept(person, "groups") == kept(person, "open") == []


def test_a_right_that_comes_and_goes_in_between_is_not_kept(
    holds: list[str], make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups change after the statement's key was made, and before the statement is."""
    person, auditors = make_user("ann", "legal"), Group.objects.create(name="auditor")
    of = first_page._Look.of

    def granted_meanwhile(*asked: Any) -> Any:
        look = of(*asked)
        person.groups.add(auditors)
        return look

    with monkeypatch.context() as patch:
        patch.setattr(first_page._Look, "of", granted_meanwhile)
        Listing(Viewer(person), "open", QueueFilters()).order_by(*NEWEST)[0:FIRST]
    person.groups.remove(auditors)
    assert kept(person, "open") == [holds[1]]


def test_the_page_of_rest_is_the_one_that_is_kept(holds: list[str], reviewer: User) -> None:
    client = Client()
    client.force_login(reviewer)
    first_page._kept.cache_clear()
    for size in ("", "?page_size=49", "?page_size=50"):
        assert client.get(f"/api/v1/reviews/pending/{size}").status_code == 200
    assert first_page._kept.cache_info()[:2] == (1, 1), "hits, misses"


def test_somebody_who_is_called_otherwise_now_has_still_approved(
    holds: list[str], make_user: MakeUser
) -> None:
    """Approvals are by name: the statement has to be that of the name."""
    ann = make_user("ann", "reviewer")
    kept(ann)
    Hold.objects.filter(pk=holds[2]).update(approvals=["bob"])
    ann.username = "bob"
    ann.save()
    assert holds[2] not in kept(ann)


def prepared() -> set[str]:
    """Names of the statements that this session has planned."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements")
        return {row[0] for row in cursor.fetchall()}


def test_it_is_put_together_once_and_planned_once(
    holds: list[str], reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "ASKED_AGAIN", 1e9)
    first_page._kept.cache_clear()
    before = prepared()
    for _ in range(5):
        kept(reviewer)
    assert first_page._kept.cache_info().misses == 1
    assert len(prepared() - before) == 1


def test_it_is_noted_among_the_statements_with_its_values(holds: list[str], reviewer: User) -> None:
    with CaptureQueriesContext(connection) as seen:
        Listing(Viewer(reviewer), "open", QueueFilters())[0:FIRST]
    [noted] = [each["sql"] for each in seen if 'FROM "workflows_hold"' in each["sql"]]
    assert "%s" not in noted
    assert f"'user:{reviewer.pk}'" in noted


def test_filters_and_cursors_are_answered_too(
    holds: list[str], reviewer: User, start: Start
) -> None:
    def ids(rows: Any) -> list[str]:
        return [row["id"] for row in rows]

    viewer = Viewer(reviewer)
    everything = Listing(viewer, "open", QueueFilters()).order_by(*OLDEST)
    assert ids(everything[0:10]) == ids(everything[0:2]) + ids(everything[2:10])
    second = Hold.objects.get(pk=ids(everything[0:2])[1])
    later = everything.filter(opened_at__gt=second.opened_at)
    assert ids(later[0:10]) == ids(everything[2:10])
    quorum = Listing(viewer, "me", QueueFilters(q="publish")).order_by(*NEWEST)
    assert set(ids(quorum[0:10])) <= set(holds)
    assert ids(Listing(viewer, "me", QueueFilters(q="zeppelin")).order_by(*NEWEST)[0:10]) == []


def test_executions_of_one_workflow_alone(start: Start, reviewer: User) -> None:
    """A token for some workflows sees nothing of a statement that was kept for all of them."""
    start(echo("publish", phase="BEFORE_EXECUTION"))
    assert len(kept(reviewer)) == 1
    assert Execution.objects.filter(workflow=None).exists()
    assert kept(access.limited(reviewer, [4711])) == []
