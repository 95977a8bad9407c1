"""The result of a finished run on its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.reviews.conftest import Start, echo
from tests.support.pages import Page, browser

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_finished_run_shows_the_outputs_of_its_leaves(start: Start, operator: User) -> None:
    last = echo("last", {"rows": {"$from": "first"}, "password": "hunter2hunter2"})
    run = start(echo("first", [{"a": 1}, {"a": 2}]), last)
    client = browser(operator)
    answer = client.get(f"/runs/{run.pk}/")
    result = answer.context["run"]["result"]
    assert [each["id"] for each in result["outputs"]] == ["last"]
    assert "Output of last" in Page(answer).names("region")
    assert "hunter2" not in str(result)


def test_a_run_that_waits_has_no_result(start: Start, reviewer: User) -> None:
    run = start(echo("first", "x", phase="BEFORE_EXECUTION"))
    client = browser(reviewer)
    assert client.get(f"/runs/{run.pk}/").context["run"]["result"] is None
