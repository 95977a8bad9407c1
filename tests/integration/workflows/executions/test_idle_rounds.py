"""An idle sweeper asks the database little, and hears of new work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from reviews.notifications import polling
from tests.integration.workflows.conftest import Engine, value
from tests.support.processes import wait_for
from workflows.executions.recovery import Rests, seconds_to_next, sweep
from workflows.journal.prepared_statements import execute
from workflows.realtime import work_hints

PAUSE = 0.25
RUNS: list[int] = []


def find_nothing() -> int:
    RUNS.append(0)
    return 0


def find_one() -> int:
    RUNS.append(1)
    return 1


class Recorded(threading.Event):
    """An event that notes how long it is waited for, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        return True


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Count the statements of a call, including the statements of the journal."""

    def count(call: Callable[[], Any]) -> int:
        journal = list[str]()

        def counted(statement: str, parameters: Any = None) -> Any:
            journal.append(statement)
            return execute(statement, parameters)

        monkeypatch.setattr("workflows.journal.sweeper_queries.execute", counted)
        with CaptureQueriesContext(connection) as others:
            call()
        return len(journal) + len(others)

    return count


def test_an_idle_round_has_few_statements(
    engine: Engine, statements: Callable[[Callable[[], Any]], int]
) -> None:
    rests = Rests()
    sweep(rests)
    engine.run(value("a"))
    busy = statements(lambda: sweep(rests))
    sweep(rests)
    idle = statements(lambda: (sweep(rests), seconds_to_next()))
    assert idle < 15
    assert idle < busy


@pytest.mark.parametrize(
    ("kind", "runs_after_an_event"), [("housekeeping_hooks", 2), ("deletion_hooks", 1)]
)
def test_new_events_end_the_rest_of_housekeeping_only(
    engine: Engine, settings: Any, kind: str, runs_after_an_event: int
) -> None:
    none: dict[str, list[str]] = {"housekeeping_hooks": [], "deletion_hooks": []}
    settings.HOLDPOINT = {**settings.HOLDPOINT, **none, kind: [f"{__name__}.find_nothing"]}
    RUNS.clear()
    rests = Rests()
    for _ in range(2):
        sweep(rests)
    assert len(RUNS) == 1
    engine.run(value("a"))
    sweep(rests)
    assert len(RUNS) == runs_after_an_event


def test_a_hook_that_deleted_rows_runs_in_the_next_round_too(engine: Engine, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "deletion_hooks": [f"{__name__}.find_one"]}
    RUNS.clear()
    rests = Rests()
    for _ in range(2):
        sweep(rests)
    assert len(RUNS) == 2


@pytest.mark.parametrize(
    ("is_listening", "due", "seconds"),
    [
        (True, None, work_hints.BACKSTOP_SECONDS),
        (True, 2.0, 2.0),
        (True, 3600.0, work_hints.BACKSTOP_SECONDS),
        (True, -5.0, PAUSE),
        (False, None, PAUSE),
        (False, 2.0, PAUSE),
    ],
)
def test_a_sender_rests_until_something_is_due(
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    is_listening: bool,
    due: float | None,
    seconds: float,
) -> None:
    monkeypatch.setattr("reviews.notifications.polling.POLL_SECONDS", PAUSE)
    monkeypatch.setattr(work_hints, "is_listening", lambda: is_listening)
    assert polling._round(lambda: 0, lambda: due) == seconds


def test_a_sender_goes_on_at_once_after_work_and_soon_after_a_failure(monkeypatch: Any) -> None:
    monkeypatch.setattr("reviews.notifications.polling.POLL_SECONDS", PAUSE)
    assert polling._round(lambda: 1, lambda: None) == 0
    assert polling._round(lambda: 1 // 0, lambda: None) == PAUSE


def test_a_burst_of_hints_starts_one_round(monkeypatch: Any) -> None:
    monkeypatch.setattr("reviews.notifications.polling.POLL_SECONDS", PAUSE)
    hint, stop = Recorded(), Recorded()
    polling._rest(30.0, hint, stop)
    assert hint.waits == [30.0]
    [rest] = stop.waits
    assert 0 < rest <= PAUSE


@pytest.fixture
def listening() -> Iterator[None]:
    work_hints.start()
    try:
        wait_for(work_hints.is_listening, what="a probe that came back")
        yield
    finally:
        work_hints.stop()
    assert not work_hints.is_listening()


@pytest.mark.django_db(transaction=True)
def test_work_is_announced_after_its_commit(listening: None) -> None:
    heard = threading.Event()
    with work_hints.woken([work_hints.WORK], lambda _: heard.set()):
        with transaction.atomic():
            work_hints.announce_work()
            transaction.set_rollback(True)
        with transaction.atomic():
            work_hints.announce_work()
            assert not heard.is_set()
        assert heard.wait(10)
