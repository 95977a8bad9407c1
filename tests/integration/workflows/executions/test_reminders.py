"""Escalation steps and reminders: each once, also with concurrent sweepers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from tests.integration.workflows.conftest import Engine, review, value
from tests.support.actors import actor_named
from workflows.common import crashpoints
from workflows.engine.protocol.commands import ExtendHold
from workflows.executions.recovery import escalate_due, sweep
from workflows.executions.services import submit_command
from workflows.journal import sweeper_queries as journal_due
from workflows.models import CommandLog, Execution, Hold

STEPS = [
    {"after_seconds": 600, "groups": ["legal", "reviewer"]},
    {"after_seconds": 1800, "groups": ["board"], "tell": ["ann"]},
]
REMINDERS = [{"after_seconds": 300}, {"after_seconds": 900}]


def waiting(engine: Engine, **more: Any) -> Hold:
    """A run that waits, with two reminders and two steps ahead."""
    asked = {"on_timeout": "keep_waiting", "reminders": REMINDERS, "escalation": STEPS, **more}
    (hold,) = engine.holds(engine.run(value("a", **review("BEFORE", **asked))))
    return hold


def pass_time(hold: Hold, seconds: float) -> None:
    """As if the hold had been opened `seconds` earlier."""
    hold.refresh_from_db()
    fields = ("opened_at", "expires_at", "reminds_at", "escalates_at")
    span = timedelta(seconds=seconds)
    moved = {name: getattr(hold, name) - span for name in fields if getattr(hold, name)}
    Hold.objects.filter(pk=hold.pk).update(**moved)
    hold.refresh_from_db()


def seconds_ahead(hold: Hold, field: str) -> float:
    hold.refresh_from_db()
    moment = getattr(hold, field)
    return round((moment - hold.opened_at).total_seconds())


def remind() -> list[tuple[str, int]]:
    with transaction.atomic():
        return journal_due.take_due_reminders()


def at_once(work: Callable[[], Any], number: int = 4) -> list[Any]:
    """`work` in so many threads that begin together."""
    gate = threading.Barrier(number)

    def one() -> Any:
        try:
            gate.wait(30)
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(number) as pool:
        return [each.result(60) for each in [pool.submit(one) for _ in range(number)]]


def test_an_escalation_step_adds_groups_once_with_an_event(engine: Engine) -> None:
    hold = waiting(engine)
    assert escalate_due() == 0
    pass_time(hold, 601)
    assert escalate_due() == 1
    assert escalate_due() == 0
    hold.refresh_from_db()
    assert hold.groups == ["reviewer", "legal"]
    assert (hold.escalated, seconds_ahead(hold, "escalates_at")) == (1, 1800)
    event = hold.execution.events.get(kind="hold_escalated")
    assert (event.payload["groups"], event.actor) == (["legal", "reviewer"], "system")
    pass_time(hold, 1200)
    assert sweep().hooks >= 1
    hold.refresh_from_db()
    assert (hold.groups, hold.escalates_at) == (["reviewer", "legal", "board"], None)
    told = hold.execution.events.filter(kind="hold_escalated").values_list("payload", flat=True)
    assert [each["told"] for each in told.order_by("seq")] == [[], ["ann"]]
    assert hold.execution.version == hold.execution.events.count()


def test_missed_escalation_steps_are_taken_in_order(engine: Engine) -> None:
    hold = waiting(engine)
    pass_time(hold, 7200)
    # One a round: nobody is skipped, and each has a moment of its own in the story.
    assert [escalate_due(), escalate_due(), escalate_due()] == [1, 1, 0]


def test_four_sweepers_take_each_step_once(engine: Engine) -> None:
    holds = [waiting(engine) for _ in range(6)]
    for hold in holds:
        pass_time(hold, 601)
    taken = at_once(escalate_due)
    while escalate_due():  # a run that another one had locked was left for the next round
        pass
    assert sum(taken) <= len(holds)
    for hold in holds:
        kinds = engine.kinds(hold.execution)
        assert kinds.count("hold_escalated") == 1
    assert not CommandLog.objects.exclude(outcome="applied").exists()


def test_four_sweepers_send_each_reminder_once(engine: Engine) -> None:
    holds = [waiting(engine) for _ in range(6)]
    for hold in holds:
        pass_time(hold, 301)
    given = [each for found in at_once(remind) for each in found] + remind()
    assert sorted(given) == sorted((hold.pk, 1) for hold in holds)
    assert seconds_ahead(holds[0], "reminds_at") == 900
    assert remind() == []


def test_an_uncommitted_reminder_is_sent_again(engine: Engine) -> None:
    hold = waiting(engine)
    pass_time(hold, 301)
    with suppress(RuntimeError), transaction.atomic():
        assert journal_due.take_due_reminders() == [(hold.pk, 1)]
        raise RuntimeError("the power is gone")
    assert remind() == [(hold.pk, 1)]


@pytest.mark.parametrize("point", ["step.before", "step.after"])
def test_the_next_sweeper_takes_over_an_interrupted_step(engine: Engine, point: str) -> None:
    hold = waiting(engine)
    pass_time(hold, 601)

    def cut() -> None:
        raise RuntimeError("the power is gone")

    crashpoints.arm(point, cut)
    try:
        with pytest.raises(RuntimeError):
            escalate_due()
    finally:
        crashpoints.set_observer(None)
    assert escalate_due() == 1
    assert engine.kinds(hold.execution).count("hold_escalated") == 1


def test_an_extended_deadline_moves_later_reminders(engine: Engine) -> None:
    hold = waiting(engine, timeout_seconds=3600, on_timeout="reject")
    pass_time(hold, 601)
    assert escalate_due() == 1
    assert remind() == [(hold.pk, 1)]
    command = ExtendHold(hold=hold.pk, seconds=1000)
    submit_command(
        execution_id=hold.execution_id, command=command, actor=actor_named("ann"), source="test"
    )
    moved = {name: seconds_ahead(hold, name) for name in ("reminds_at", "escalates_at")}
    assert moved == {"reminds_at": 1900, "escalates_at": 2800}
    assert seconds_ahead(hold, "expires_at") == 4600
    pass_time(hold, 1300)  # later than the second step was to be, and the second reminder too
    assert (escalate_due(), len(remind())) == (0, 1)
    pass_time(hold, 1000)
    assert (escalate_due(), len(remind())) == (1, 0)


def test_decided_holds_get_no_reminder(engine: Engine) -> None:
    hold = waiting(engine)
    pass_time(hold, 7200)
    engine.decide(hold)
    assert (escalate_due(), remind()) == (0, [])
    hold.refresh_from_db()
    assert (hold.groups, hold.escalated, hold.reminded) == (["reviewer"], 0, 0)


def test_decisions_and_steps_at_the_same_time(engine: Engine) -> None:
    """Whichever comes first: one decision, and no step after it."""
    for _ in range(8):
        hold = waiting(engine)
        pass_time(hold, 601)
        gate = threading.Barrier(3)

        def decide(hold: Hold = hold, gate: threading.Barrier = gate) -> None:
            try:
                gate.wait(30)
                engine.decide(hold)
            finally:
                connection.close()

        def escalate(gate: threading.Barrier = gate) -> None:
            try:
                gate.wait(30)
                escalate_due()
            finally:
                connection.close()

        with ThreadPoolExecutor(3) as pool:
            for each in [pool.submit(decide), pool.submit(escalate), pool.submit(escalate)]:
                each.result(60)
        kinds = engine.kinds(hold.execution)
        assert kinds.count("hold_decided") == 1
        after = kinds[kinds.index("hold_decided") :]
        assert "hold_escalated" not in after
        assert kinds.count("hold_escalated") <= 1


def test_a_step_waits_while_a_worker_has_the_run(engine: Engine) -> None:
    hold = waiting(engine)
    pass_time(hold, 601)
    held = Execution.objects.filter(pk=hold.execution_id)
    held.update(lease_until=Now() + timedelta(seconds=60))
    assert escalate_due() == 0
    assert not hold.execution.commands.exists()
    held.update(lease_until=None)
    assert escalate_due() == 1
