"""Histories that the random tests once failed on."""

from pathlib import Path
from typing import Any

import pytest

from tests.stateful import tools
from tests.stateful.workers import Sleeper, dies_at, fence_of, mortal_processes, work
from tests.support.catalogue import stock_catalogue
from workflows.engine.protocol.actors import Actor
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import (
    fork_execution,
    parse_command,
    start_execution,
    submit_command,
)
from workflows.models import Checkpoint, Execution

EPOCH = "2000-01-01T00:00Z"


@pytest.fixture
def execution(transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execution:
    """A run of one task, whose first worker died right after it had taken the lease."""
    monkeypatch.setenv("HOLDPOINT_TEST_LEDGER", str(tmp_path / "ledger.jsonl"))
    assert tools.__doc__  # imported for its tools
    stock_catalogue()
    task = {"id": "a", "type": "tool", "tool": "statekit.value", "arguments": {"value": 1}}
    found = start_execution(actor=None, plan={"tasks": [task]})
    with mortal_processes():
        assert dies_at(1, lambda: work(found.pk, 9))
    return found


def command(execution: Execution, **data: Any) -> str:
    return submit_command(
        execution_id=execution.pk,
        command=parse_command(data),
        actor=Actor("ann"),
        source="test",
    ).outcome


def rescued(execution: Execution) -> Execution:
    Execution.objects.filter(pk=execution.pk).update(lease_until=EPOCH)
    return run_to_rest(execution.pk)


def test_commands_behind_the_end_do_not_move_the_time_of_the_end(execution: Execution) -> None:
    """`finished_at` is when the run ended, not when a late command was put away."""
    assert command(execution, kind="abort") == "queued"
    for number in range(3):
        assert command(execution, kind="update_state", updates={f"k{number}": 1}) == "queued"
    execution = rescued(execution)
    assert execution.status == "ABORTED"
    ended = execution.events.get(kind="execution_aborted").created_at
    assert execution.finished_at is not None
    assert execution.finished_at <= ended
    late = execution.commands.filter(command__kind="update_state")
    assert all(row.taken_at > ended for row in late)


def test_a_run_that_goes_on_after_a_crash_has_no_end_yet(execution: Execution) -> None:
    assert command(execution, kind="update_state", updates={"k": 1}) == "queued"
    Execution.objects.filter(pk=execution.pk).update(lease_until=EPOCH)
    with mortal_processes():
        work(execution.pk, 2)
    execution.refresh_from_db()
    assert (execution.context, execution.finished_at) == ({"k": 1}, None)
    execution = rescued(execution)
    assert execution.status == "COMPLETED"
    assert execution.finished_at is not None


@pytest.mark.parametrize("nth", [1, 2])
def test_a_worker_that_sleeps_through_a_claim_lands_nothing(execution: Execution, nth: int) -> None:
    """Nothing but the fence tells the two apart: the second one has recorded nothing yet."""
    rows = Execution.objects.filter(pk=execution.pk)
    rows.update(lease_until=EPOCH)
    with mortal_processes():
        sleeper = Sleeper(execution.pk, work, fence_of)
        assert sleeper.fall_asleep(5, nth)
        rows.update(lease_until=EPOCH)
        assert dies_at(1, lambda: work(execution.pk, 5))
        sleeper.wake()
    execution.refresh_from_db()
    assert (execution.version, execution.status) == (0, "PENDING")
    assert rescued(execution).status == "COMPLETED"


def test_a_failed_task_that_loses_its_last_reader_fails_the_run(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 310050338832052203113649322355953870982, shortened.

    `modify_args` took the only reference to the failed task away.  Nothing read the failed task
    from then on, so it was a leaf that had failed, and the run (and each fork of it) ended
    COMPLETED.
    """
    monkeypatch.setenv("HOLDPOINT_TEST_LEDGER", str(tmp_path / "ledger.jsonl"))
    stock_catalogue()
    plan = {
        "tasks": [
            {"id": "t0", "type": "tool", "tool": "statekit.fail", "arguments": {"value": ["t0"]}},
            {
                "id": "t1",
                "type": "tool",
                "tool": "statekit.look",
                "arguments": {"value": ["t1", {"$from": "t0"}]},
            },
        ]
    }
    policy = {"ail": {"enabled": True, "agent": "external"}}
    found = start_execution(actor=None, plan=plan, policy=policy)
    assert run_to_rest(found.pk).status == "AWAITING_AGENT"
    changed = {"kind": "modify_args", "task_id": "t1", "arguments": {"value": "changed"}}
    assert command(found, **changed) == "applied"
    assert command(found, kind="continue") == "applied"
    ended = run_to_rest(found.pk)
    statuses = dict(ended.attempts.filter(settled=True).values_list("task_id", "status"))
    assert statuses == {"t0": "FAILED", "t1": "SUCCEEDED"}
    assert ended.status == "FAILED"
    last = Checkpoint.objects.filter(execution=ended).latest("layer")
    fork = fork_execution(execution=ended, checkpoint=last, actor=None)
    assert run_to_rest(fork.pk).status == "FAILED"
