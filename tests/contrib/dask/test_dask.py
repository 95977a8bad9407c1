"""Tasks on a real Dask cluster: results, failures, lost processes, aborts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contrib.dask.conftest import Cluster
from tests.integration.workflows.conftest import Engine, review, source
from tests.support import toolkit
from tests.support.processes import wait_for
from workflows.common import crashpoints
from workflows.executions.selectors import tasks_of
from workflows.executions.services import InvalidRequest
from workflows.models import Execution
from workflows.remote.output import Output
from workflows.remote.registry import configured_runners
from workflows.remote.watcher import watch


def task(name: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": f"remotekit.{tool}", "runner": "dask", **more}


def finish(engine: Engine, execution: Execution) -> Execution:
    """Watch and drive until the run ends or waits for a person."""

    def ended() -> bool:
        watch()
        engine.drive(execution)
        execution.refresh_from_db()
        return execution.status != "RUNNING"

    wait_for(ended, what=f"the end of {execution.pk}")
    return execution


def begun(execution: Execution, name: str, times: int = 1) -> None:
    def enough() -> bool:
        lines = [each for each in toolkit.calls(execution.pk) if each["what"] == "begin"]
        return len([each for each in lines if each["task"] == name]) >= times

    wait_for(enough, what=f"{name} begins")


def output(execution: Execution, name: str) -> Any:
    return execution.attempts.get(task_id=name, settled=True).output


def test_a_result_flows_to_the_next_task(engine: Engine, cluster: Cluster) -> None:
    execution = engine.start(
        task("a", "value", arguments={"value": {"n": [1, None, "ü"]}}),
        task("b", "value", arguments={"value": source("a", "n")}),
    )
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error
    assert output(execution, "b") == [1, None, "ü"]
    assert [each["key"] for each in toolkit.calls(execution.pk)] == [
        f"{execution.pk}:a:1",
        f"{execution.pk}:b:1",
    ]
    # The calls of ended attempts are removed from the cluster.
    watch()
    assert configured_runners()["dask"].states() == {}


def test_the_worker_and_the_lease_are_free_while_a_task_runs(
    engine: Engine, cluster: Cluster, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    execution = engine.start(task("a", "waits", arguments={"path": str(flag)}))
    engine.drive(execution)
    execution.refresh_from_db()
    assert (execution.status, execution.lease_until) == ("RUNNING", None)
    assert execution.wake_at is not None
    begun(execution, "a")
    assert watch() == 0
    flag.touch()
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error


def test_a_remote_process_receives_no_secrets(engine: Engine, cluster: Cluster) -> None:
    execution = engine.start(task("a", "environment"))
    finish(engine, execution)
    names = set(output(execution, "a"))
    forbidden = {"SECRET_KEY", "DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"}
    assert names
    assert names.isdisjoint(forbidden)


def test_what_a_task_prints_is_read_while_it_runs_and_stored_at_its_end(
    engine: Engine, cluster: Cluster, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    lines = "red alert\n90 %\nWARNING kit: disk is full"
    # Two calls in one process: each has its own lines.
    waits = [task("a", "talks", arguments={"path": str(flag)}), task("b", "value")]
    waits[1]["arguments"] = {"value": 1}
    execution = engine.start(*waits)
    engine.drive(execution)
    begun(execution, "a")

    def is_shown() -> bool:
        watch()
        execution.refresh_from_db()
        seen = tasks_of(execution)[0]
        return (seen.status, seen.logs, seen.progress) == ("RUNNING", lines, 0.5)

    wait_for(is_shown, what="the lines of the task")
    [handle] = [name for name in configured_runners()["dask"].states() if ":a:" in name]
    flag.touch()
    finish(engine, execution)
    assert execution.attempts.get(task_id="a").logs == f"{lines}\nthe end"
    assert execution.attempts.get(task_id="b").logs == ""
    # The cluster forgets the lines with the call.
    watch()
    assert configured_runners()["dask"].outputs([handle]) == {handle: Output()}


def test_the_retry_policy_of_the_task_counts(engine: Engine, cluster: Cluster) -> None:
    retry = {"max_attempts": 2, "backoff_seconds": 0}
    execution = engine.start(task("a", "fails_once", retry=retry), task("b", "fails_once"))
    finish(engine, execution)
    assert engine.statuses(execution) == {"a": "SUCCEEDED", "b": "FAILED"}
    assert execution.attempts.get(task_id="b").error == "not yet"


def test_a_task_cannot_request_a_permission(engine: Engine, cluster: Cluster) -> None:
    execution = engine.start(task("a", "wants_more"))
    finish(engine, execution)
    assert execution.status == "FAILED"
    assert "which a remote task cannot request" in execution.attempts.get(task_id="a").error


def test_a_lost_process_fails_the_attempt(engine: Engine, cluster: Cluster) -> None:
    retry = {"max_attempts": 2, "backoff_seconds": 0}
    execution = engine.start(task("a", "kills_its_process", retry=retry))
    engine.drive(execution)
    begun(execution, "a")
    cluster.kill("worker")
    cluster.start_worker()
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error
    assert output(execution, "a") == "survived"
    assert [each["key"] for each in toolkit.calls(execution.pk)] == [
        f"{execution.pk}:a:1",
        f"{execution.pk}:a:2",
    ]


def test_a_scheduler_that_is_killed_loses_the_call(
    engine: Engine, cluster: Cluster, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    retry = {"max_attempts": 2, "backoff_seconds": 0}
    execution = engine.start(task("a", "waits", arguments={"path": str(flag)}, retry=retry))
    engine.drive(execution)
    begun(execution, "a")
    cluster.stop()
    # While nobody answers, the call may still run.
    assert watch() == 0
    cluster.start()
    flag.touch()
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error
    first = execution.attempts.get(task_id="a", attempt=1)
    assert first.error_code == "remote_call_lost"
    assert not first.settled


def test_an_abort_cancels_the_call(engine: Engine, cluster: Cluster, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    execution = engine.start(task("a", "waits", arguments={"path": str(flag)}))
    engine.drive(execution)
    begun(execution, "a")
    engine.command(execution, {"kind": "abort", "reason": "enough"})
    execution.refresh_from_db()
    assert execution.status == "ABORTED"
    assert watch() == 1
    assert configured_runners()["dask"].states() == {}
    flag.touch()
    assert watch() == 0
    assert not execution.attempts.exists()


def test_a_review_before_a_remote_task_shows_and_runs_the_edited_inputs(
    engine: Engine, cluster: Cluster
) -> None:
    plan = task("a", "value", arguments={"value": 1}, **review("BEFORE"))
    execution = engine.run(plan)
    assert execution.status == "PAUSED_FOR_REVIEW"
    [hold] = engine.holds(execution)
    engine.decide(hold, edits={"value": 2})
    finish(engine, execution)
    assert output(execution, "a") == 2


def test_the_submission_of_an_attempt_is_idempotent(engine: Engine, cluster: Cluster) -> None:
    """A worker that dies between the submission and the journal submits the same key again."""
    execution = engine.start(task("a", "value", arguments={"value": 1}))
    with pytest.raises(_Died):
        _dying_at_the_commit(engine, execution)
    wait_for(lambda: list(configured_runners()["dask"].states().values()) == [True])
    # No attempt has ended, so the call is not taken for a leftover.
    assert watch() == 0
    Execution.objects.filter(pk=execution.pk).update(lease_until=None, wake_at=None)
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error
    assert len(toolkit.calls(execution.pk)) == 1


class _Died(Exception):
    pass


def _dying_at_the_commit(engine: Engine, execution: Execution) -> None:
    def reached(name: str) -> None:
        if name == "task.result":
            raise _Died

    crashpoints.set_observer(reached)
    try:
        engine.drive(execution)
    finally:
        crashpoints.set_observer(None)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ({"tool": "remotekit.local"}, "not_remote"),
        ({"tool": "builtin.echo", "arguments": {"value": 1}}, "not_remote"),
    ],
    ids=["local", "builtin"],
)
def test_only_tools_that_allow_it_run_remotely(
    engine: Engine, settings: Any, written: dict[str, Any], code: str
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "dask_scheduler": "tcp://127.0.0.1:1"}
    with pytest.raises(InvalidRequest) as refused:
        engine.start({"id": "a", "type": "tool", "runner": "dask", **written})
    [problem] = refused.value.problems
    assert (problem.path, problem.code) == ("plan.tasks[0].runner", code)


@pytest.mark.parametrize(
    "written", [{"tool": "remotekit.value", "runner": "dask"}, {"tool": "remotekit.heavy"}]
)
def test_a_runner_that_is_not_configured_is_refused_at_its_field(
    engine: Engine, written: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        engine.start({"id": "a", "type": "tool", "arguments": {"value": 1}, **written})
    [problem] = refused.value.problems
    assert (problem.path, problem.code) == ("plan.tasks[0].runner", "runner_not_configured")


def test_a_cluster_that_cannot_be_reached_fails_the_attempt(engine: Engine, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "dask_scheduler": "tcp://127.0.0.1:1"}
    execution = engine.run(task("a", "value", arguments={"value": 1}))
    assert execution.status == "FAILED"
    assert execution.attempts.get(task_id="a").error_code == "runner_unavailable"


def test_calls_of_other_installations_stay(engine: Engine, cluster: Cluster, settings: Any) -> None:
    execution = engine.start(task("a", "value", arguments={"value": 1}))
    engine.drive(execution)
    key = settings.SECRET_KEY
    settings.SECRET_KEY = "another installation" * 5
    assert configured_runners()["dask"].states() == {}
    assert watch() in (0, 1)
    settings.SECRET_KEY = key
    assert len(configured_runners()["dask"].states()) == 1
