"""No task passes an undecided hold: five ways to reach one, four ways for it to end."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from reviews.decisions.services import expire_due
from tests.integration.workflows.conftest import Engine, review, value
from tests.integration.workflows.journal.test_leases import expire_lease
from tests.support.actors import actor_named, user_id
from workflows.common import crashpoints
from workflows.engine.protocol.commands import WithdrawAnswer
from workflows.executions.jobs import advance
from workflows.executions.recovery import sweep
from workflows.executions.services import fork_execution, submit_command
from workflows.journal import sweeper_queries as journal_due
from workflows.models import Checkpoint, Execution, Hold

GATED = review("BEFORE", on_reject="abort", on_timeout="reject", timeout_seconds=3600)


class Died(BaseException):
    """The worker is gone."""


def gate(*, after: str = "first") -> dict[str, Any]:
    return value("gate", depends_on=[after], **GATED)


def resumed(engine: Engine) -> Execution:
    """After another hold was decided."""
    execution = engine.run(value("first", **review("AFTER")), gate())
    engine.decide(engine.holds(execution)[0])
    return engine.drive(execution)


def forked(engine: Engine) -> Execution:
    """In a fork of a run that was past it: a hold is decided for one run alone."""
    parent = engine.run(value("first"), gate())
    engine.decide(engine.holds(parent)[0])
    assert engine.drive(parent).status == "COMPLETED"
    point = Checkpoint.objects.get(execution=parent, layer=0)
    return engine.drive(fork_execution(execution=parent, checkpoint=point, actor=None))


def rescued(engine: Engine) -> Execution:
    """Workers die right before and right after the hold is written, another one takes over."""
    execution = engine.start(value("first"), gate())

    def die() -> None:
        raise Died

    for point in ("step.before:2", "step.after"):
        crashpoints.arm(point, die)
        with pytest.raises(Died):
            advance(execution.pk)
        crashpoints.set_observer(None)
        expire_lease(execution)
        Execution.objects.filter(pk=execution.pk, wake_at__isnull=False).update(wake_at=Now())
    return engine.drive(execution)


def retried(engine: Engine) -> Execution:
    """A task before it fails and is tried again."""
    again = {"max_attempts": 3, "backoff_seconds": 0}
    flaky = {
        "id": "first",
        "type": "tool",
        "tool": "testkit.flaky",
        "arguments": {"failures": 1},
        "retry": again,
    }
    return engine.run(flaky, gate())


def replanned(engine: Engine) -> Execution:
    """The plan changes while the run waits for an agent."""
    policy = {"ail": {"enabled": True, "agent": "external"}}
    execution = engine.run(value("first"), gate(), policy=policy)
    task = value("more", depends_on=["first"])
    engine.command(execution, {"kind": "inject_task", "task": task})
    engine.command(execution, {"kind": "continue"})
    return engine.drive(execution)


def approve(engine: Engine, execution: Execution, hold: Hold) -> None:
    engine.decide(hold)


def reject(engine: Engine, execution: Execution, hold: Hold) -> None:
    engine.decide(hold, approved=False)


def time_out(engine: Engine, execution: Execution, hold: Hold) -> None:
    Hold.objects.filter(pk=hold.pk).update(expires_at=Now() - timedelta(seconds=1))
    assert expire_due() == 1
    assert expire_due() == 0, "a timer fires once"


def abort_by_agent(engine: Engine, execution: Execution, hold: Hold) -> None:
    engine.command(execution, {"kind": "abort", "reason": "no use"}, actor="agent:rules")


def sent_back(engine: Engine) -> Execution:
    """The output before it was sent back, and what came then was approved."""
    execution = engine.run(value("first", **review("AFTER")), gate())
    engine.decide(
        engine.holds(execution)[0], approved=False, request_changes=True, feedback="again"
    )
    execution = engine.drive(execution)
    [second] = engine.holds(execution)
    assert second.round == 2
    engine.decide(second)
    return engine.drive(execution)


def withdrawn(engine: Engine) -> Execution:
    """The hold itself was approved, and that was taken back before the run went on."""
    execution = engine.run(value("first"), gate())
    [hold] = engine.holds(execution)
    engine.decide(hold, undo_seconds=600)
    assert not engine.holds(execution)
    submit_command(
        execution_id=execution.pk,
        command=WithdrawAnswer(hold=hold.pk, of=user_id("somebody")),
        actor=actor_named("somebody"),
        source="test",
    )
    return engine.drive(execution)


WAYS = (resumed, forked, rescued, retried, replanned, sent_back, withdrawn)
ENDS = {approve: "COMPLETED", reject: "ABORTED", time_out: "ABORTED", abort_by_agent: "ABORTED"}


def test_no_task_runs_during_the_undo_time(engine: Engine) -> None:
    """Approved, with time to undo: workers, sweepers and a lost lease go round it."""
    execution = engine.run(value("first"), gate())
    [hold] = engine.holds(execution)
    engine.decide(hold, undo_seconds=600)
    Execution.objects.filter(pk=execution.pk).update(dispatched_at="2000-01-01T00:00Z")
    assert execution.pk not in journal_due.take_overdue(patience=1)
    sweep()
    for _ in range(3):
        advance(execution.pk)
    assert "gate" not in engine.called(execution)


@pytest.mark.parametrize("end", ENDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("way", WAYS, ids=lambda each: each.__name__)
def test_no_task_runs_before_a_decision(
    engine: Engine, way: Callable[[Engine], Execution], end: Callable[..., None]
) -> None:
    execution = way(engine)
    assert execution.status == "PAUSED_FOR_REVIEW"
    [hold] = engine.holds(execution)
    Execution.objects.filter(pk=execution.pk).update(dispatched_at="2000-01-01T00:00Z")
    assert execution.pk not in journal_due.take_overdue(patience=1)
    sweep()
    for _ in range(3):
        advance(execution.pk)
    assert "gate" not in engine.called(execution)
    end(engine, execution, hold)
    after = engine.drive(execution)
    assert after.status == ENDS[end]
    assert engine.called(execution).count("gate") == (1 if end is approve else 0)
