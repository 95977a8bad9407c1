"""Lists among very many rows: the same rows as ever, from indexes, and deep pages cost no more.

That no list goes through a big table is asserted among a million executions (`make scale`): with
fewer, reading all of a narrow table is often the best plan.  Milliseconds are printed, never
asserted.
"""

from __future__ import annotations

import sys

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from reviews import selectors
from tests.scale import requests
from tests.scale.conftest import COUNT
from tests.scale.filling import Filled
from tests.scale.plans import Asked, asked_by
from workflows.access import of_visible, visible_to
from workflows.models import Execution, Hold

pytestmark = pytest.mark.django_db

LISTS = {**requests.QUEUE, **requests.PENDING, **requests.HISTORY, **requests.RUNS}
MANY = 1_000_000
#: Queries of one request; a page asks for its tabs, its rows, their claims and its filters.
MOST_QUERIES = 20


def ask(filled: Filled, name: str, url: str) -> Asked:
    client = Client()
    client.force_login(filled.people[name])
    status: list[int] = []
    asked = asked_by(lambda: status.append(client.get(url).status_code))
    assert status in ([200], [403]), (name, url, status)
    return asked


@pytest.mark.skipif(COUNT < MANY, reason="plans of small tables say nothing: `make scale`")
@pytest.mark.parametrize("what", LISTS)
def test_no_list_goes_through_a_big_table(filled: Filled, what: str) -> None:
    for name in ("reviewer", "admin", "auditor", "integrator"):
        if (what, name) in requests.KNOWN:
            continue
        asked = ask(filled, name, LISTS[what])
        worst = asked.worst()
        sys.stderr.write(f"\n{what:28} {name:10} {asked.ms:8.1f} ms {asked.buffers:7} pages")
        assert not asked.whole, f"{name}: {sorted(asked.whole)}\n{worst.sql}\n{worst.plan}"
        assert len(asked.queries) <= MOST_QUERIES


@pytest.mark.parametrize("path", ["/history/", "/runs/", "/review/?tab=decided"])
def test_a_deep_page_costs_what_the_first_one_costs(filled: Filled, path: str) -> None:
    client = Client()
    client.force_login(filled.people["auditor"])
    first = ask(filled, "auditor", path)
    url = path
    for _ in range(20):
        url = client.get(url).context["next_url"]
    deep = ask(filled, "auditor", url)
    assert not deep.whole
    assert deep.buffers <= first.buffers * 2 + 100


def test_both_ways_to_ask_who_may_see_what_agree(filled: Filled) -> None:
    young = Hold.objects.filter(execution_id__gt=filled.count - 3000)
    waiting = young.filter(status=Hold.Status.OPEN, decider="human")
    for person in (*filled.people.values(), AnonymousUser()):
        seen = set(
            visible_to(person).filter(pk__gt=filled.count - 3000).values_list("pk", flat=True)
        )
        told = of_visible(young, person).values_list("execution_id", flat=True)
        assert set(told) == seen
        open_ones = of_visible(waiting, person, waiting=True).values_list("pk", flat=True)
        expected = waiting.filter(execution_id__in=seen).values_list("pk", flat=True)
        assert set(open_ones) == set(expected)


def test_what_a_person_sees_is_what_they_started_and_what_their_groups_are_asked(
    filled: Filled,
) -> None:
    lawyer = filled.people["lawyer"]
    named = Hold.objects.filter(groups__contains=["legal"]).values("execution_id")
    expected = set(Execution.objects.filter(pk__in=named).values_list("pk", flat=True))
    assert expected
    assert set(visible_to(lawyer).values_list("pk", flat=True)) == expected
    starter = filled.people["integrator"]
    started = set(Execution.objects.filter(created_by=starter).values_list("pk", flat=True))
    assert set(visible_to(starter).values_list("pk", flat=True)) == started


def test_tabs_count_what_their_lists_have(filled: Filled) -> None:
    for name in ("reviewer", "lawyer", "admin", "integrator", "auditor"):
        viewer = selectors.Viewer(filled.people[name])
        counts = selectors.tab_counts(viewer)
        listed = {tab: selectors.queue(viewer, tab).count() for tab in counts}
        assert counts == listed
        assert selectors.waiting_count(viewer.user) == counts["me"]
