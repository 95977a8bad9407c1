"""A failing part of the sweep is reported, and the other parts continue."""

from typing import Any

import django_rq
import pytest
from django.db import OperationalError, connection
from django.test import Client

from tests.integration.workflows.conftest import Engine
from workflows.executions import recovery
from workflows.management.commands import run_sweeper

BROKEN, LATER = f"{__name__}.loses_its_session", f"{__name__}.asks_something"
_BEHAVIOUR = {"broken": True}


def loses_its_session() -> int:
    """A hook whose session the server ends, until it is mended."""
    if _BEHAVIOUR["broken"]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    return 1


def asks_something() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return 10


@pytest.fixture
def hooks(engine: Engine, settings: Any) -> None:
    """Two hooks, of which the first fails."""
    _BEHAVIOUR["broken"] = True
    hooks = {"sweep_hooks": [BROKEN, LATER], "metrics_token": "s3cret"}
    settings.HOLDPOINT = {**settings.HOLDPOINT, **hooks}
    django_rq.get_connection("default").flushdb()


def failing_rounds() -> list[str]:
    response = Client().get("/metrics", HTTP_AUTHORIZATION="Bearer s3cret")
    lines = response.content.decode().splitlines()
    return [line for line in lines if line.startswith("holdpoint_sweeper_failing_rounds{")]


def test_a_lost_session_fails_one_part_of_the_round(hooks: None) -> None:
    assert recovery.sweep().hooks == 10
    assert recovery.failing() == {BROKEN: 1}
    _BEHAVIOUR["broken"] = False
    assert recovery.sweep().hooks == 11
    assert recovery.failing() == {}


def test_a_part_that_keeps_failing_is_reported_and_the_sweeper_continues(
    hooks: None, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        run_sweeper._round()
    assert failing_rounds() == [f'holdpoint_sweeper_failing_rounds{{part="{BROKEN}"}} 3.0']
    check = Client().get("/readyz").json()["checks"]["sweeper"]
    assert (check["ok"], check["failing"]) == (True, 1)
    [last] = [each for each in caplog.records if "3 rounds in a row" in each.getMessage()]
    assert BROKEN in last.getMessage()
    assert last.exc_info is not None
    assert isinstance(last.exc_info[1], OperationalError)
    _BEHAVIOUR["broken"] = False
    run_sweeper._round()
    assert failing_rounds() == []
    assert Client().get("/readyz").json()["checks"]["sweeper"]["failing"] == 0
