"""Remote tasks: the run rests without a lease, and its result is recorded once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.support.actors import actor_named
from tests.support.memory_journal import MemoryJournal
from workflows.engine.plans.dag import Plan, ToolTask
from workflows.engine.protocol import commands as cmd
from workflows.engine.protocol.evolve import replay
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import (
    Failure,
    Ports,
    Submitted,
    Success,
    TaskCall,
    TaskResult,
)
from workflows.engine.protocol.speculation_candidates import candidates
from workflows.engine.protocol.state import ExecutionState, RemoteCall, dump_state, load_state
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus


class World:
    """A run in memory, and a remote runner: what was submitted, and what has ended."""

    def __init__(self, *tasks: dict[str, Any], context: Mapping[str, Any] | None = None) -> None:
        self.journal = MemoryJournal()
        self.submitted: dict[str, Any] = {}
        self.ended: dict[str, Success | Failure] = {}
        self.looks = 0
        self.ports = Ports(
            journal=self.journal,
            runner=self,
            agents=None,  # type: ignore[arg-type]
            planner=None,  # type: ignore[arg-type]
            summarise=lambda run: "",
            remote_results=self.results,
            remote_logs=lambda handle: f"lines of {handle}",
        )
        self.id = self.journal.create(Plan.model_validate({"tasks": tasks}))
        if context:
            self.journal.executions[self.id].context = context

    def run(self, calls: Sequence[TaskCall], heartbeat: Any) -> Iterator[Sequence[TaskResult]]:
        yield [self._result(call) for call in calls]

    def _result(self, call: TaskCall) -> TaskResult:
        task = call.task
        if isinstance(task, ToolTask) and task.runner:
            self.submitted.setdefault(call.key, call.inputs)
            return TaskResult(call, Submitted(task.runner, call.key, 60))
        return TaskResult(call, Success(call.inputs, 0))

    def results(self, calls: Sequence[RemoteCall]) -> Mapping[str, Success | Failure]:
        self.looks += 1
        return {call.handle: self.ended[call.handle] for call in calls if call.handle in self.ended}

    def drive(self) -> ExecutionState:
        while step(self.id, self.ports):
            pass
        return self.state

    def wake(self) -> ExecutionState:
        """What the watcher does."""
        self.journal.executions[self.id].wake_at = None
        return self.drive()

    @property
    def state(self) -> ExecutionState:
        with self.journal.open(self.id, expected_version=None) as run:
            return run.state

    @property
    def events(self) -> list[Any]:
        return list(self.journal.executions[self.id].events)

    def kinds(self) -> list[str]:
        return [each.kind for each in self.events]

    def inputs(self) -> Any:
        return next(each.inputs for each in self.events if each.kind == "task_succeeded")


def remote(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "kit.heavy", "runner": "dask", **more}


def local(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "kit.quick", **more}


def test_a_run_rests_without_a_lease_until_its_remote_task_ends() -> None:
    world = World(remote())
    waiting = world.drive()
    key = f"{world.id}:a:1"
    call = waiting.tasks["a"].remote
    assert call == RemoteCall("dask", key, since=1000.0, until=1060.0)
    stored = world.journal.executions[world.id]
    assert (stored.lease_until, stored.wake_at) == (None, 1060.0)
    assert load_state({**_json(waiting), "version": waiting.version}) == waiting
    world.ended[key] = Success({"n": 1}, 0)
    world.journal.now += 5
    after = world.wake()
    assert after.status is ExecutionStatus.COMPLETED
    succeeded = next(each for each in world.events if each.kind == "task_succeeded")
    assert (succeeded.output, succeeded.duration_ms) == ({"n": 1}, 5000.0)
    assert world.kinds().count("task_submitted") == 1
    assert replay(world.events) == after


def _json(state: ExecutionState) -> Any:
    return json.loads(dump_state(state))


def test_a_task_that_still_runs_is_not_submitted_again() -> None:
    world = World(remote())
    world.drive()
    for _ in range(3):
        state = world.wake()
    assert state.tasks["a"].status is TaskStatus.PENDING
    assert world.looks == 3
    assert world.kinds().count("task_submitted") == 1


def test_a_failed_call_counts_as_an_attempt_of_the_retry_policy() -> None:
    world = World(remote(retry={"max_attempts": 2, "backoff_seconds": 0}))
    world.drive()
    world.ended[f"{world.id}:a:1"] = Failure("lost", retryable=True)
    state = world.wake()
    assert list(world.submitted) == [f"{world.id}:a:1", f"{world.id}:a:2"]
    assert state.tasks["a"].remote is not None
    world.ended[f"{world.id}:a:2"] = Failure("lost again", retryable=True)
    assert world.wake().status is ExecutionStatus.FAILED


def test_a_late_result_of_an_earlier_attempt_is_not_read() -> None:
    world = World(remote(retry={"max_attempts": 2, "backoff_seconds": 0}))
    world.drive()
    world.journal.now += 60
    world.drive()
    errored = next(each for each in world.events if each.kind == "task_errored")
    assert errored.error == "did not finish within 60 s"
    assert errored.logs == f"lines of {world.id}:a:1"
    world.ended[f"{world.id}:a:1"] = Success("late", 0)
    assert world.wake().status is ExecutionStatus.RUNNING
    world.ended[f"{world.id}:a:2"] = Success("in time", 0)
    assert world.wake().status is ExecutionStatus.COMPLETED
    assert [each.output for each in world.events if each.kind == "task_succeeded"] == ["in time"]


def test_a_result_that_comes_with_the_time_limit_counts() -> None:
    world = World(remote())
    world.drive()
    world.journal.now += 60
    world.ended[f"{world.id}:a:1"] = Success("done", 0)
    assert world.drive().status is ExecutionStatus.COMPLETED


def test_the_recorded_inputs_are_those_that_were_submitted() -> None:
    arguments = {"n": {"$from": "context", "select": "n"}}
    world = World(remote(arguments=arguments), context={"n": 1})
    world.drive()
    command = cmd.UpdateState(updates={"n": 2})
    submit(world.id, command, world.ports, actor=actor_named("ann"), source="test")
    world.ended[f"{world.id}:a:1"] = Success("done", 0)
    world.wake()
    assert world.submitted == {f"{world.id}:a:1": {"n": 1}}
    assert world.inputs() == {"n": 1}


def test_another_attempt_reads_the_context_anew() -> None:
    arguments = {"n": {"$from": "context", "select": "n"}}
    twice = {"max_attempts": 2, "backoff_seconds": 0}
    world = World(remote(arguments=arguments, retry=twice), context={"n": 1})
    world.drive()
    command = cmd.UpdateState(updates={"n": 2})
    submit(world.id, command, world.ports, actor=actor_named("ann"), source="test")
    world.ended[f"{world.id}:a:1"] = Failure("lost", retryable=True)
    world.wake()
    assert world.submitted == {f"{world.id}:a:1": {"n": 1}, f"{world.id}:a:2": {"n": 2}}


def test_a_review_beside_a_remote_task_opens_at_once() -> None:
    review = {"trigger_phase": "AFTER_EXECUTION"}
    world = World(remote(), local("b", human_review=review))
    paused = world.drive()
    assert paused.status is ExecutionStatus.PAUSED_FOR_REVIEW
    world.ended[f"{world.id}:a:1"] = Success("done", 0)
    assert world.wake().tasks["a"].remote is not None
    assert world.looks == 0
    answer = cmd.ApprovalResponse(hold=paused.holds[0].id, approved=True)
    submit(world.id, answer, world.ports, actor=actor_named("ann"), source="test")
    assert world.drive().status is ExecutionStatus.COMPLETED


def test_an_abort_ends_the_run_at_once() -> None:
    world = World(remote())
    world.drive()
    submit(world.id, cmd.Abort(reason="stop"), world.ports, actor=actor_named("ann"), source="test")
    assert world.state.status is ExecutionStatus.ABORTED
    world.ended[f"{world.id}:a:1"] = Success("late", 0)
    world.wake()
    assert "task_succeeded" not in world.kinds()


def test_a_remote_task_never_runs_ahead_of_a_decision() -> None:
    review = {"trigger_phase": "BEFORE_EXECUTION"}
    tasks = [
        local("held", human_review=review),
        local("quick", permission_set="readonly"),
        remote("heavy", permission_set="readonly"),
    ]
    layers = [tasks[0], *({**each, "depends_on": ["gate"]} for each in tasks[1:]), local("gate")]
    world = World(*layers)
    world.drive()
    with world.journal.open(world.id, expected_version=None) as run:
        assert [each.task.id for each in candidates(run, {})] == ["quick"]
