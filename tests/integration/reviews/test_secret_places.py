"""Secrets beside the payload: two runs compared, changed plans, the timeline, the list of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.integration.reviews.test_desk import browser
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
CITY = {"type": "object", "properties": {"city": {"type": "string", "format": "password"}}}


def read(user: User, url: str) -> str:
    answer = browser(user).get(url)
    assert answer.status_code == 200
    return answer.content.decode()


def compared(user: User, left: Execution, right: Execution) -> str:
    return read(user, f"/runs/{left.pk}/compare/{right.pk}/")


# --- two runs -------------------------------------------------------------------------------------


# --- plans that change ----------------------------------------------------------------------------


# --- the run --------------------------------------------------------------------------------------


# --- how it is read -------------------------------------------------------------------------------


def test_what_led_here_is_read_at_once_however_much_it_is(start: Start, reviewer: User) -> None:
    def asked(number: int) -> int:
        before = [echo(f"b{each}") for each in range(number)]
        last = {**echo("last", phase=BEFORE), "depends_on": [each["id"] for each in before]}
        hold: Hold = only_hold(start(*before, last))
        client = browser(reviewer)
        with CaptureQueriesContext(connection) as seen:
            page: Any = client.get(f"/review/{hold.execution_id}/{hold.id}/")
        assert page.content.decode().count(" gave: ") >= number
        return len(seen)

    asked(1)
    assert asked(2) == asked(6)
