"""The refresh of an open queue: the rows of the changed runs that belong on its page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from reviews.queue.claims import claim
from tests.integration.reviews.conftest import Start, echo
from tests.support.pages import Page, browser
from workflows.models import Execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ASKED = {"HX-Request": "true", "HX-Target": "queue-list"}
Rows = Callable[..., list[str]]


@pytest.fixture
def waiting(start: Start) -> list[Execution]:
    """Three runs that wait for reviewers, oldest first."""
    return [start(echo("publish", phase="BEFORE_EXECUTION")) for _ in range(3)]


@pytest.fixture
def rows(reviewer: User) -> Rows:
    """The runs that are told when the queue is asked so."""
    client = browser(reviewer)

    def ask(**query: str) -> list[str]:
        told = client.get("/review/", query, headers=ASKED)
        assert told.status_code == 200
        # The numbers are asked for by themselves, unless the whole list is.
        assert bool(Page(told).names("navigation")) == ("changed" not in query)
        return [row["execution_id"] for row in told.context["rows"]]

    return ask


def page_end(user: User) -> str:
    return str(browser(user).get("/review/").context["page_end"])


def test_only_the_rows_of_the_named_runs_are_returned(waiting: list[Execution], rows: Rows) -> None:
    first, second, third = (str(run.pk) for run in waiting)
    assert rows() == [first, second, third]
    assert rows(changed=second) == [second]
    assert rows(changed=f"{first},{third}") == [first, third]
    assert rows(changed=first, q="nothinglikethis") == []
    assert rows(changed=first, tab="claimed") == []


def test_a_run_on_a_later_page_is_omitted(
    waiting: list[Execution], rows: Rows, reviewer: User, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "page_size": 2}
    first, second, third = (str(run.pk) for run in waiting)
    until = page_end(reviewer)
    assert rows() == [first, second]
    assert rows(changed=f"{second},{third}", until=until) == [second]
    assert rows(changed=f"{second},{third}") == [second, third]


def test_refreshing_one_run_costs_few_statements(
    waiting: list[Execution], reviewer: User, django_assert_num_queries: Any
) -> None:
    client = browser(reviewer)
    query = {"changed": str(waiting[1].pk)}
    # The session, the person, their groups, the rows, who looks at them, the
    # schemas of their tools.
    with django_assert_num_queries(6):
        assert client.get("/review/", query, headers=ASKED).status_code == 200


def test_an_update_of_the_tabs_has_their_counts_and_no_rows(
    waiting: list[Execution], reviewer: User
) -> None:
    claim(hold_id=f"{waiting[0].pk}-1", user=reviewer)
    client = browser(reviewer)
    told = client.get("/review/", {"tab": "open"}, headers={**ASKED, "HX-Target": "queue-tabs"})
    counts = {tab["key"]: tab["count"] for tab in told.context["tabs"]}
    assert counts == {"me": 3, "groups": 3, "claimed": 1, "open": 3, "decided": None}
    assert told.context["waiting_count"] == 3
    assert Page(told).names("listitem") == [], "no rows"


@pytest.mark.parametrize("changed", ["x", "1,", "1,x", "-1", "9" * 19, ",".join("1" * 26)])
def test_unknown_parameters_are_404(reviewer: User, changed: str) -> None:
    client = browser(reviewer)
    assert client.get("/review/", {"changed": changed}, headers=ASKED).status_code == 404
