"""Lists among very many rows: the same rows as ever, from indexes, and deep pages cost no more.

Milliseconds are printed, never asserted: what is asserted are plans, and pages that are touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reviews.components.number_formatting import COUNTED
from reviews.models import HumanReviewRecord, RecordWords
from reviews.queue import selectors
from tests.scale import requests
from tests.scale.conftest import COUNT, MANY
from tests.scale.filling import Filled
from tests.scale.plans import Asked, asked_by
from workflows.common.full_text import FEW, full_text_filter
from workflows.executions.access import filter_visible, visible_to
from workflows.models import Execution, Hold

pytestmark = pytest.mark.django_db

LISTS = {**requests.QUEUE, **requests.PENDING, **requests.HISTORY, **requests.RUNS}
#: Queries of one request; a page asks for its tabs, its rows, their claims and its filters.
MAX_QUERIES = 20
#: Pages of 8 kB that a request may touch; see docs/benchmarks.md for the milliseconds.
MAX_PAGES = 16_000


def ask(filled: Filled, name: str, url: str) -> Asked:
    client = Client()
    client.force_login(filled.people[name])
    status: list[int] = []
    asked = asked_by(lambda: status.append(client.get(url).status_code))
    assert status in ([200], [403]), (name, url, status)
    return asked


@pytest.mark.parametrize("what", LISTS)
def test_no_list_goes_through_a_big_table(filled: Filled, what: str) -> None:
    for name in requests.ASKING if COUNT >= MANY else requests.ASKING_FEW:
        if (what, name) in requests.KNOWN:
            continue
        asked = ask(filled, name, LISTS[what])
        sys.stderr.write(
            f"\n{what:28} {name:10} {len(asked.queries):3} queries {asked.ms:8.1f} ms "
            f"{asked.buffers:7} pages"
        )
        worst = asked.worst()
        assert not asked.scanned, f"{name}: {sorted(asked.scanned)}\n{worst.sql}\n{worst.plan}"
        assert not asked.whole, f"{name}: {sorted(asked.whole)}\n{worst.sql}\n{worst.plan}"
        assert len(asked.queries) <= MAX_QUERIES
        assert asked.buffers <= MAX_PAGES or name in requests.SEE_LITTLE, worst


@pytest.mark.parametrize("what", LISTS)
def test_more_rows_are_not_more_queries(
    filled: Filled, what: str, page_of: Callable[[int], None]
) -> None:
    client = Client()
    client.force_login(filled.people["admin"])
    asked = []
    for size in (3, 50):
        page_of(size)
        url = LISTS[what]
        if url.startswith("/api/"):
            url += f"{'&' if '?' in url else '?'}page_size={size}"
        with CaptureQueriesContext(connection) as seen:
            assert client.get(url).status_code in (200, 403)
        asked.append(len(seen))
    assert asked[0] == asked[1]


@pytest.fixture
def page_of(settings: Any) -> Callable[[int], None]:
    """Make the pages of the desk so many rows long."""

    def set_size(size: int) -> None:
        settings.HOLDPOINT = {**settings.HOLDPOINT, "page_size": size}

    return set_size


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
        for rows in (young, waiting):
            told = filter_visible(rows, person).values_list("pk", flat=True)
            assert set(told) == set(rows.filter(execution_id__in=seen).values_list("pk", flat=True))


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


def test_words_that_are_common_are_met_on_the_way_and_not_looked_up(filled: Filled) -> None:
    asked = ask(filled, "auditor", "/history/?q=wrong+tone")
    assert not [query.sql for query in asked.queries if f"LIMIT {FEW + 1}" in query.sql]
    asked = ask(filled, "auditor", "/history/?q=zoe")
    assert [query.sql for query in asked.queries if f"LIMIT {FEW + 1}" in query.sql]
    found = HumanReviewRecord.objects.filter(
        full_text_filter("wrong tone", RecordWords.objects.all())
    )
    assert (
        found.count() == HumanReviewRecord.objects.filter(stored_comment="wrong tone").count() > FEW
    )


def test_tabs_count_what_their_lists_have_up_to_a_thousand(filled: Filled) -> None:
    for name in ("reviewer", "lead", "lawyer", "admin", "integrator", "auditor"):
        viewer = selectors.Viewer(filled.people[name])
        counts = selectors.tab_counts(viewer)
        listed = {tab: selectors.queue(viewer, tab).count() for tab in counts}
        assert counts == {tab: min(number, COUNTED + 1) for tab, number in listed.items()}
        assert selectors.waiting_count(viewer.user) == counts["me"]


def test_counting_reads_no_hold_of_a_run_that_the_person_did_not_influence(filled: Filled) -> None:
    asked = asked_by(lambda: selectors.waiting_count(filled.people["lead"]))
    assert asked.buffers < COUNTED, asked.worst().plan


def test_a_tab_with_more_than_a_thousand_says_so(filled: Filled) -> None:
    client = Client()
    client.force_login(filled.people["reviewer"])
    shown = client.get("/review/?tab=open").content.decode()
    assert filled.waiting > COUNTED
    # Three tabs, the rail, the title, and what scripts read.
    assert shown.count("1,000+") == 6
    assert 'data-waiting="1,000+"' in shown
