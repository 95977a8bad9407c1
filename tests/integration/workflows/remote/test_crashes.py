"""Processes that die around a remote call, with a runner that keeps its calls in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from tests.integration.workflows.conftest import Engine
from tests.support import remote_tools  # noqa: F401  (importing it declares its tools)
from tests.support.groups import group_of
from workflows.common import crashpoints
from workflows.engine.protocol.ports import Failure, LeaseLost, Success
from workflows.executions import dispatch
from workflows.executions.recovery import sweep
from workflows.models import Execution
from workflows.remote import services, watcher
from workflows.remote.output import Output
from workflows.remote.watcher import watch

EPOCH = "2000-01-01T00:00Z"


class MemoryRunner:
    """A RemoteRunner: its calls, and the results of those that have ended."""

    def __init__(self) -> None:
        self.calls: dict[str, Any] = {}
        self.ended: dict[str, Success | Failure] = {}
        self.printed: dict[str, Output] = {}
        self.submissions = 0

    def submit(self, key: str, request: str) -> str:
        self.submissions += 1
        self.calls.setdefault(f"h-{key}", json.loads(request))
        return f"h-{key}"

    def look(self, handles: Collection[str]) -> Mapping[str, Success | Failure]:
        lost = {name: Failure("lost", retryable=True) for name in handles if name not in self.calls}
        return {**lost, **{name: self.ended[name] for name in handles if name in self.ended}}

    def outputs(self, handles: Collection[str]) -> Mapping[str, Output]:
        return {name: self.printed[name] for name in handles if name in self.printed}

    def states(self) -> Mapping[str, bool]:
        return {name: name in self.ended for name in self.calls}

    def cancel(self, handles: Collection[str]) -> None:
        for name in handles:
            self.calls.pop(name)

    def key_of(self, handle: str) -> str:
        return handle.removeprefix("h-")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> MemoryRunner:
    made = MemoryRunner()
    for module in (services, watcher):
        monkeypatch.setattr(module, "configured_runners", lambda: {"dask": made})
    return made


class _Died(Exception):
    pass


@pytest.fixture
def dying() -> Iterator[Callable[[str], None]]:
    """Lets this process raise at a crash point, as if it died there."""

    def at(point: str) -> None:
        def reached(name: str) -> None:
            if name == point:
                crashpoints.set_observer(None)
                raise _Died

        crashpoints.set_observer(reached)

    yield at
    crashpoints.set_observer(None)


def started(engine: Engine, **more: Any) -> Execution:
    task = {"id": "a", "type": "tool", "tool": "remotekit.value", "runner": "dask"}
    return engine.start({**task, "arguments": {"value": 1}, **more})


def recovered(engine: Engine, execution: Execution) -> Execution:
    """The lease of the dead worker runs out, and another worker goes on."""
    Execution.objects.filter(pk=execution.pk).update(lease_until=None, wake_at=None)
    engine.drive(execution)
    execution.refresh_from_db()
    return execution


def test_the_request_has_only_what_a_tool_needs(engine: Engine, runner: MemoryRunner) -> None:
    execution = started(engine, timeout_seconds=90)
    engine.drive(execution)
    [request] = runner.calls.values()
    permissions = request.pop("permissions")
    assert permissions["hosts"] == []
    assert request == {
        "module": "tests.support.remote_tools",
        "function": "value",
        "arguments": {"value": 1},
        "key": f"{execution.pk}:a:1",
        "execution": str(execution.pk),
        "task": "a",
        "seconds": 90.0,
        "feedback": [],
    }


def test_a_tool_declares_the_runner_of_tasks_that_name_none(
    engine: Engine, runner: MemoryRunner
) -> None:
    task = {"id": "a", "type": "tool", "tool": "remotekit.heavy", "arguments": {"value": 1}}
    execution = engine.start(task)
    engine.drive(execution)
    [request] = runner.calls.values()
    assert (request["function"], request["arguments"]) == ("heavy", {"value": 1})
    assert execution.revisions.get().plan["tasks"][0]["runner"] == "dask"


@pytest.mark.parametrize("point", ["task.result", "rest.before", "step.before"])
def test_a_worker_dies_before_the_handle_is_journaled(
    engine: Engine, runner: MemoryRunner, dying: Callable[[str], None], point: str
) -> None:
    execution = started(engine)
    if point == "step.before":
        engine.drive(execution)
        Execution.objects.filter(pk=execution.pk).update(wake_at=None)
        runner.ended[f"h-{execution.pk}:a:1"] = Success(7, 0)
    dying(point)
    with pytest.raises(_Died):
        engine.drive(execution)
    # The attempt has not ended, so nobody cancels its call.
    watch()
    assert list(runner.calls) == [f"h-{execution.pk}:a:1"]
    recovered(engine, execution)
    runner.ended[f"h-{execution.pk}:a:1"] = Success(7, 0)
    watch()
    engine.drive(execution)
    execution.refresh_from_db()
    assert execution.status == "COMPLETED"
    assert execution.attempts.get().output == 7
    assert execution.events.filter(kind="task_submitted").count() == 1
    watch()
    assert runner.calls == {}


def test_a_worker_that_lost_its_lease_records_no_result(
    engine: Engine, runner: MemoryRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = started(engine)
    engine.drive(execution)
    runner.ended[f"h-{execution.pk}:a:1"] = Success("stale", 0)
    look = runner.look

    def and_lose_the_lease(handles: Collection[str]) -> Mapping[str, Success | Failure]:
        found = look(handles)
        Execution.objects.filter(pk=execution.pk).update(fence=100, lease_until=None)
        return found

    monkeypatch.setattr(runner, "look", and_lose_the_lease)
    Execution.objects.filter(pk=execution.pk).update(wake_at=None)
    with pytest.raises(LeaseLost):
        engine.drive(execution)
    assert not execution.attempts.exists()
    monkeypatch.setattr(runner, "look", look)
    runner.ended[f"h-{execution.pk}:a:1"] = Success("right", 0)
    recovered(engine, execution)
    assert execution.attempts.get().output == "right"


def test_the_watcher_dies_before_it_enqueues_a_job(
    engine: Engine, runner: MemoryRunner, dying: Callable[[str], None]
) -> None:
    execution = started(engine)
    engine.drive(execution)
    runner.ended[f"h-{execution.pk}:a:1"] = Success(7, 0)
    dying("remote.woken")
    with pytest.raises(_Died):
        watch()
    Execution.objects.filter(pk=execution.pk).update(dispatched_at=EPOCH)
    assert sweep().enqueued == 1


def test_the_watcher_wakes_a_run_once(
    engine: Engine, runner: MemoryRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = started(engine)
    engine.drive(execution)
    jobs: list[int] = []
    monkeypatch.setattr(dispatch, "enqueue", lambda job, pk: jobs.append(pk))
    assert watch() == 0
    runner.ended[f"h-{execution.pk}:a:1"] = Success(7, 0)
    assert (watch(), watch()) == (1, 0)
    assert jobs == [execution.pk]


def test_a_call_that_the_cluster_lost_fails_the_attempt(
    engine: Engine, runner: MemoryRunner
) -> None:
    execution = started(engine, retry={"max_attempts": 2, "backoff_seconds": 0})
    engine.drive(execution)
    runner.calls.clear()
    assert watch() == 1
    engine.drive(execution)
    assert list(runner.calls) == [f"h-{execution.pk}:a:2"]


def test_other_calls_on_the_cluster_are_left_alone(engine: Engine, runner: MemoryRunner) -> None:
    runner.calls = {"h-somebody's": {}, "h-1:a": {}, f"h-{10**30}:a:1": {}}
    assert watch() == 0
    assert len(runner.calls) == 3


def test_the_page_of_the_run_shows_the_runner(
    engine: Engine, runner: MemoryRunner, client: Client
) -> None:
    signed_in(client)
    execution = started(engine)
    engine.drive(execution)
    page = client.get(f"/runs/{execution.pk}/").content.decode()
    assert "Running on Dask since" in page
    assert f"h-{execution.pk}:a:1" in page
    assert "was submitted to Dask" in page
    seen = client.get(f"/api/v1/executions/{execution.pk}/").json()
    assert [task["status"] for task in seen["tasks"]] == ["RUNNING"]


def signed_in(client: Client) -> Client:
    user = get_user_model().objects.create_user("op")
    user.groups.add(group_of("operator"))
    client.force_login(user)
    return client


def test_the_page_and_rest_show_what_a_task_prints_while_it_runs(
    engine: Engine, runner: MemoryRunner, client: Client
) -> None:
    signed_in(client)
    execution = started(engine)
    engine.drive(execution)
    handle = f"h-{execution.pk}:a:1"
    page = f"/runs/{execution.pk}/"
    rest = f"/api/v1/executions/{execution.pk}/"
    [seen] = re.findall(r"part=output&amp;seen=(\w+)", client.get(page).content.decode())
    etag = client.get(rest).headers["ETag"]
    news = {"part": "output", "seen": seen}
    assert "HX-Trigger" not in client.get(page, news, headers={"HX-Request": "true"}).headers

    logs = "<b>epoch 1</b>\u202e\npassword=hunter2hunter2"
    runner.printed[handle] = Output(logs, 0.25)
    watch()
    answer = client.get(page, news, headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Trigger"]) == (204, "holdpoint:refresh")
    shown = client.get(page).content.decode()
    assert "&lt;b&gt;epoch 1&lt;/b&gt;[U+202E]" in shown
    assert re.search(r'<progress max="100"\s+value="25"', shown)
    # The version of the run is the same, and its tasks are not.
    body = client.get(rest, headers={"If-None-Match": etag}).json()
    assert body["tasks"][0]["progress"] == 0.25
    assert body["tasks"][0]["logs"].startswith("<b>epoch 1</b>")
    assert "hunter2" not in shown + json.dumps(body)

    runner.ended[handle] = Success(7, 0, logs="epoch 2")
    watch()
    engine.drive(execution)
    shown = client.get(page).content.decode()
    assert "epoch 2" in shown
    assert "part=output" not in shown
    [task] = client.get(rest).json()["tasks"]
    assert (task["logs"], task["progress"]) == ("epoch 2", None)


def test_a_call_that_is_lost_leaves_the_lines_that_were_read(
    engine: Engine, runner: MemoryRunner
) -> None:
    execution = started(engine)
    engine.drive(execution)
    runner.printed[f"h-{execution.pk}:a:1"] = Output("epoch 1")
    watch()
    runner.calls.clear()
    watch()
    engine.drive(execution)
    attempt = execution.attempts.get()
    assert (attempt.status, attempt.logs) == ("FAILED", "epoch 1")


@pytest.mark.parametrize("key", ["x", "٣:a:1", "1:a\0:1", "1:\ud800:1", "1:a b:1"])
def test_a_call_that_holdpoint_has_not_submitted_is_ignored(
    engine: Engine, runner: MemoryRunner, key: str
) -> None:
    runner.calls[f"h-{key}"] = {}
    execution = started(engine)
    engine.drive(execution)
    engine.command(execution, {"kind": "abort", "reason": "enough"})
    assert watch() == 1
    assert list(runner.calls) == [f"h-{key}"]


def test_a_cluster_that_answers_nonsense_stops_no_other(
    engine: Engine, runner: MemoryRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(MemoryRunner):
        def states(self) -> Mapping[str, bool]:
            raise ValueError("nonsense")

    monkeypatch.setattr(watcher, "configured_runners", lambda: {"broken": Broken(), "dask": runner})
    execution = started(engine)
    engine.drive(execution)
    runner.calls.clear()
    with pytest.raises(ValueError, match="nonsense"):
        watch()
    engine.drive(execution)
    assert execution.attempts.get().error == "lost"


def test_runs_go_on_without_redis(
    engine: Engine, runner: MemoryRunner, client: Client, settings: Any
) -> None:
    signed_in(client)
    execution = started(engine)
    engine.drive(execution)
    runner.printed[f"h-{execution.pk}:a:1"] = Output("epoch 1", 0.5)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert watch() == 0
    assert client.get(f"/runs/{execution.pk}/").status_code == 200
    runner.calls.clear()
    Execution.objects.filter(pk=execution.pk).update(wake_at=None)
    engine.drive(execution)
    assert execution.attempts.get().error == "lost"
