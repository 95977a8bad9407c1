"""Start notices: one for each task that is longer than the first commit window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.stateful.scripted import ScriptedRunner, outcome
from tests.support.memory_journal import MemoryJournal
from workflows.engine.plans.validation import parse_plan
from workflows.engine.protocol.loop import step
from workflows.engine.protocol.ports import Heartbeat, Ports, TaskCall, TaskResult, TaskRunner
from workflows.engine.protocol.status import ExecutionStatus

TASKS = ("a", "b", "c")


class SlowRunner:
    """The first window passes with every task still running."""

    def run(
        self, calls: Sequence[TaskCall], heartbeat: Heartbeat
    ) -> Iterator[Sequence[TaskResult]]:
        yield []
        for call in calls:
            yield [TaskResult(call, outcome(call))]


def started_notices(runner: TaskRunner) -> list[tuple[str, ...]]:
    """What is told of starts over a whole run of one layer."""
    tasks = [
        {"id": name, "type": "tool", "tool": "unit.value", "arguments": {"value": name}}
        for name in TASKS
    ]
    journal = MemoryJournal()
    execution = journal.create(parse_plan({"tasks": tasks}))
    nobody: Any = None
    ports = Ports(journal, runner, nobody, nobody, summarise=lambda run: "")
    while step(execution, ports):
        pass
    assert journal.executions[execution].state.status is ExecutionStatus.COMPLETED
    return journal.started


@pytest.mark.parametrize(
    ("runner", "started"),
    [
        (ScriptedRunner(batch_size=3), []),
        (ScriptedRunner(batch_size=2), [("c",)]),
        (ScriptedRunner(batch_size=1), [("b", "c")]),
        (SlowRunner(), [TASKS]),
    ],
    ids=["within the window", "one is late", "two are late", "all are late"],
)
def test_only_tasks_longer_than_the_window_send_a_notice(
    runner: TaskRunner, started: list[tuple[str, ...]]
) -> None:
    assert started_notices(runner) == started
