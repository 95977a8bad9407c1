"""The listing of pending reviews follows claims, groups, names and token limits at once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group

from reviews.queue.claims import claim
from reviews.queue.filters import QueueFilters
from reviews.queue.selectors import COUNTED_TABS, TABS, Viewer, listing_rows, queue, tab_counts
from tests.integration.reviews.conftest import MakeUser, Start, echo
from tests.support.pages import browser
from workflows.executions import access
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

OLDEST = ("opened_at", "id")


def listed(user: User, tab: str = "me", **filters: str) -> list[str]:
    """Ids of the holds that a tab lists, oldest first."""
    rows = listing_rows(queue(Viewer(user), tab, QueueFilters(**filters))).order_by(*OLDEST)
    return [row.pk for row in rows]


@pytest.fixture
def holds(start: Start, reviewer: User, reviewer2: User) -> list[str]:
    """Ids, oldest first: one is claimed, one is for others, one of a quorum, one of a colleague."""
    plans: list[dict[str, Any]] = [{}, {"groups": ["legal"]}, {"quorum": 2}, {}]
    for number, review in enumerate(plans):
        task = echo("publish", phase="BEFORE_EXECUTION", **review)
        start(task, title=f"100 % of 'it' {number}", actor=reviewer2 if number == 3 else None)
    # All have the time of the test's transaction.
    found = list(Hold.objects.order_by("execution_id").values_list("pk", flat=True))
    claim(user=reviewer, hold_id=found[0])
    return found


@pytest.mark.parametrize("order", ["opened_at", "-opened_at"])
@pytest.mark.parametrize("tab", TABS[:-1])
def test_pages_of_any_size_hold_the_same_rows(
    holds: list[str], make_user: MakeUser, reviewer: User, tab: str, order: str
) -> None:
    people = [
        reviewer,
        make_user("o'brien 100%", "reviewer", "legal"),
        make_user("root", is_superuser=True),
        make_user("nobody"),
    ]
    for person in people:
        client = browser(person)
        expected = listed(person, tab) if order == "opened_at" else listed(person, tab)[::-1]
        for size in (1, 3, 50):
            url: str | None = (
                f"/api/v1/reviews/pending/?tab={tab}&ordering={order}&page_size={size}"
            )
            ids = []
            while url:
                page = client.get(url).json()
                ids += [row["hold_id"] for row in page["results"]]
                url = page["next"]
            assert ids == expected


def test_the_tabs_count_the_rows_that_they_list(
    holds: list[str], start: Start, make_user: MakeUser, reviewer: User, reviewer2: User
) -> None:
    start(echo("publish", phase="BEFORE_EXECUTION", groups=["legal"]), actor=reviewer2)
    people = [
        *(reviewer, reviewer2, make_user("o'brien 100%", "reviewer", "legal"), make_user("nobody")),
        *(make_user("root", is_superuser=True), make_user("ann", "integrator", "legal")),
        *(access.limit_to_workflows(make_user(f"{n}", "reviewer"), only) for n, only in _LIMITS),
    ]
    for person in people:
        counts = tab_counts(Viewer(person))
        assert counts == {tab: len(listed(person, tab)) for tab in COUNTED_TABS}
    assert tab_counts(Viewer(reviewer2)) == {"me": 1, "groups": 3, "claimed": 0, "open": 4}


#: Names of people, and the workflows that their tokens are limited to.
_LIMITS: list[tuple[str, list[int]]] = [("of none", []), ("of one", [1])]


def test_reviews_that_open_together_are_listed_in_their_order(start: Start, reviewer: User) -> None:
    run = start(*(echo(f"task_{n:02}", phase="BEFORE_EXECUTION") for n in range(11)))
    rows = Hold.objects.filter(execution=run).values_list("task_id", "opened_at").order_by(*OLDEST)
    (first, opened), *_others, (last, newest) = rows
    assert (first, last) == ("task_00", "task_10")
    assert opened < newest < opened + timedelta(milliseconds=1)
    ids = listed(reviewer, "me")
    assert [each.partition("-")[2] for each in ids] == [str(n) for n in range(1, 12)]


def test_a_search_lists_only_the_reviews_it_matches(holds: list[str], reviewer: User) -> None:
    assert listed(reviewer, "open", q="publish")
    assert listed(reviewer, "open", q="zeppelin") == []


def test_opened_claimed_and_closed_reviews_are_listed_at_once(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    assert listed(reviewer) == []
    start(echo("publish", phase="BEFORE_EXECUTION"))
    [hold] = listed(reviewer)
    claim(user=reviewer2, hold_id=hold)
    assert listed(reviewer) == []
    assert listed(reviewer2, "claimed") == [hold]
    Hold.objects.update(status=Hold.Status.CLOSED)
    assert listed(reviewer2) == listed(reviewer2, "claimed") == []


def test_a_removed_group_counts_at_once(holds: list[str], make_user: MakeUser) -> None:
    person = make_user("ann", "reviewer", "legal")
    assert holds[1] in listed(person, "groups")
    person.groups.remove(Group.objects.get(name="legal"))
    assert holds[1] not in listed(person, "groups")
    person.groups.clear()
    assert listed(person, "groups") == listed(person, "open") == []


def test_approvals_follow_a_renamed_user(holds: list[str], make_user: MakeUser) -> None:
    ann = make_user("ann", "reviewer")
    listed(ann)
    Hold.objects.filter(pk=holds[2]).update(approvals=["ann"], approver_ids=[ann.pk])
    ann.username = "bob"
    ann.save()
    assert holds[2] not in listed(ann)


def test_a_limited_token_lists_only_its_workflows(start: Start, reviewer: User) -> None:
    start(echo("publish", phase="BEFORE_EXECUTION"))
    assert len(listed(reviewer)) == 1
    assert Execution.objects.filter(workflow=None).exists()
    assert listed(access.limit_to_workflows(reviewer, [4711])) == []
