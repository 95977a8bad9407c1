"""Tasks as Kubernetes jobs, against a stand-in for the API server whose pods are processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.workflows.conftest import Engine, source
from tests.integration.workflows.remote.conftest import KNOWN
from tests.support import (
    remote_tools,  # noqa: F401  (importing it declares its tools)
    toolkit,
)
from tests.support.kubernetes_api import NAMESPACE, KubernetesApi
from tests.support.processes import wait_for
from workflows.common import crashpoints
from workflows.engine.ports import Failure, Success
from workflows.executions.selectors import tasks_of
from workflows.models import Execution
from workflows.remote.kubernetes_runner import KubernetesRunner
from workflows.remote.output import Output
from workflows.remote.port import RunnerRefused, RunnerUnavailable
from workflows.remote.services import configured_runners
from workflows.remote.watcher import watch

RETRY = {"max_attempts": 2, "backoff_seconds": 0}


@pytest.fixture
def api(tmp_path: Path, ledger: Path, settings: Any) -> Iterator[KubernetesApi]:
    """A cluster that this process uses as its runner."""
    environment = {name: os.environ[name] for name in KNOWN if name in os.environ}
    made = KubernetesApi(tmp_path, {**environment, "HOLDPOINT_TEST_LEDGER": str(ledger)})
    configured = {
        "image": "registry.example/shop:1",
        "namespace": NAMESPACE,
        "service_account": "tasks",
        "resources": {"limits": {"memory": "8Gi"}},
        "config": made.kubeconfig(),
    }
    settings.HOLDPOINT = {**settings.HOLDPOINT, "kubernetes": configured}
    yield made
    made.close()


def task(name: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": f"remotekit.{tool}", "runner": "kubernetes", **more}


def finish(engine: Engine, execution: Execution) -> Execution:
    """Watch and drive until the run ends or waits for a person."""

    def ended() -> bool:
        watch()
        engine.drive(execution)
        execution.refresh_from_db()
        return execution.status != "RUNNING"

    wait_for(ended, what=f"the end of {execution.pk}")
    return execution


def begun(execution: Execution) -> None:
    wait_for(lambda: toolkit.calls(execution.pk), what="the task begins")


def only_job(api: KubernetesApi) -> str:
    [name] = api.jobs
    return name


def test_a_result_flows_to_the_next_task(engine: Engine, api: KubernetesApi) -> None:
    execution = engine.start(
        task("a", "value", arguments={"value": {"n": ["secret of a", None, "ü"]}}),
        task("b", "value", arguments={"value": source("a", "n")}),
    )
    engine.drive(execution)
    [job] = api.jobs.values()
    [secret] = api.secrets.values()
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error
    assert execution.attempts.get(task_id="b").output == ["secret of a", None, "ü"]
    # The inputs are in the Secret only, which ends with its job.
    assert "secret of a" in secret["stringData"]["request.json"]
    assert "secret of a" not in json.dumps(job)
    watch()
    assert (api.jobs, api.secrets) == ({}, {})
    assert {policy for _, policy in api.deleted} == {"Background"}


def test_a_job_is_run_once_with_the_time_limit_and_few_rights(
    engine: Engine, api: KubernetesApi
) -> None:
    engine.drive(engine.start(task("a", "value", arguments={"value": 1}, timeout_seconds=90)))
    [job] = api.jobs.values()
    spec = job["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 90)
    assert (pod["restartPolicy"], pod["automountServiceAccountToken"]) == ("Never", False)
    assert (pod["serviceAccountName"], container["image"]) == ("tasks", "registry.example/shop:1")
    assert container["resources"] == {"limits": {"memory": "8Gi"}}
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "env" not in container


class _Died(Exception):
    pass


@pytest.fixture
def dying() -> Iterator[Callable[[str], None]]:
    def at(point: str) -> None:
        def reached(name: str) -> None:
            if name == point:
                crashpoints.set_observer(None)
                raise _Died

        crashpoints.set_observer(reached)

    yield at
    crashpoints.set_observer(None)


def test_a_worker_that_dies_after_the_submission_submits_one_job(
    engine: Engine, api: KubernetesApi, dying: Callable[[str], None]
) -> None:
    execution = engine.start(task("a", "value", arguments={"value": 1}))
    dying("task.result")
    with pytest.raises(_Died):
        engine.drive(execution)
    job = only_job(api)
    assert watch() == 0
    Execution.objects.filter(pk=execution.pk).update(lease_until=None, wake_at=None)
    engine.drive(execution)
    assert only_job(api) == job
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error
    assert len(toolkit.calls(execution.pk)) == 1
    posted = [path.rpartition("/")[2] for method, path in api.requests if method == "POST"]
    assert posted == ["jobs", "secrets", "jobs", "secrets"]


def test_a_worker_that_dies_before_the_secret_starts_the_pod_later(
    engine: Engine, api: KubernetesApi
) -> None:
    [runner] = configured_runners().values()
    request = json.dumps({"seconds": 60})
    api.failing["/secrets"] = 503
    with pytest.raises(RunnerUnavailable, match="503 no such luck"):
        runner.submit("1:a:1", request)
    assert (len(api.jobs), len(api.secrets)) == (1, 0)
    handle = runner.submit("1:a:1", request)
    assert (len(api.jobs), len(api.secrets)) == (1, 1)
    assert runner.states().keys() == {handle}
    assert runner.key_of(handle) == "1:a:1"


def test_what_a_pod_prints_is_read_while_it_runs(
    engine: Engine, api: KubernetesApi, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    lines = "red alert\n90 %\nWARNING kit: disk is full"
    execution = engine.start(task("a", "talks", arguments={"path": str(flag)}))
    engine.drive(execution)
    begun(execution)

    def is_shown() -> bool:
        watch()
        [seen] = tasks_of(Execution.objects.get(pk=execution.pk))
        return (seen.status, seen.logs, seen.progress) == ("RUNNING", lines, 0.5)

    wait_for(is_shown, what="the lines of the task")
    flag.touch()
    finish(engine, execution)
    attempt = execution.attempts.get()
    assert (attempt.error, attempt.logs) == ("no more", f"{lines}\nthe end")


def test_a_killed_process_fails_the_attempt(
    engine: Engine, api: KubernetesApi, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    execution = engine.start(task("a", "waits", arguments={"path": str(flag)}, retry=RETRY))
    engine.drive(execution)
    begun(execution)
    first = only_job(api)
    api.kill(first)
    flag.touch()
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error
    failed = execution.attempts.get(attempt=1)
    assert failed.error == "the process of the task ended: OOMKilled, exit code 137"
    assert failed.error_code == "remote_process_ended"
    watch()
    assert first in [name for name, _ in api.deleted]


def test_a_job_that_is_lost_fails_the_attempt(
    engine: Engine, api: KubernetesApi, tmp_path: Path
) -> None:
    execution = engine.start(task("a", "waits", arguments={"path": str(tmp_path / "never")}))
    engine.drive(execution)
    begun(execution)
    api.lose(only_job(api))
    finish(engine, execution)
    assert execution.attempts.get().error_code == "remote_call_lost"


def test_a_late_result_is_not_read(engine: Engine, api: KubernetesApi, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    execution = engine.start(task("a", "waits", arguments={"path": str(flag)}, retry=RETRY))
    engine.drive(execution)
    begun(execution)
    first = only_job(api)
    api.ended[first] = ("Failed", "DeadlineExceeded")
    # Its process goes on, and has a result before anybody deletes the job.
    flag.touch()
    wait_for(lambda: " result " in api.log_of(first), what="the late result")
    finish(engine, execution)
    assert execution.status == "COMPLETED", execution.error
    late, settled = execution.attempts.order_by("attempt")
    assert (late.error_code, late.output) == ("task_timed_out", None)
    assert (settled.attempt, settled.output) == (2, "done")
    keys = {each["key"] for each in toolkit.calls(execution.pk)}
    assert keys == {f"{execution.pk}:a:1", f"{execution.pk}:a:2"}


def test_an_abort_stops_the_pod(engine: Engine, api: KubernetesApi, tmp_path: Path) -> None:
    execution = engine.start(task("a", "waits", arguments={"path": str(tmp_path / "never")}))
    engine.drive(execution)
    begun(execution)
    name = only_job(api)
    engine.command(execution, {"kind": "abort", "reason": "enough"})
    assert watch() == 1
    assert api.deleted == [(name, "Background")]
    assert watch() == 0
    assert [each["what"] for each in toolkit.calls(execution.pk)] == ["begin"]


RESULT = '{"output": 1}'
REFUSED = "the runner's result is refused: the log of the pod does not end with it"


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        (f"a\nMARKER result {RESULT}\n", Success(1, 0, "a")),
        (f"no end of the lineMARKER result {RESULT}\n", Success(1, 0, "no end of the line")),
        (f"MARKER progress 0.5\nMARKER result {RESULT}", Success(1, 0, "")),
        ("only lines\n", REFUSED),
        ("", REFUSED),
        # A tool that prints a page of somebody else cannot print the marker.
        (f"holdpoint-{'0' * 32} result {RESULT}\n", REFUSED),
        ("MARKER result [1]\n", "the runner's result is refused: it is no result of a call"),
        ("MARKER result " + "x" * 7_000_000, "the runner's result is refused: "),
    ],
)
def test_a_result_is_the_line_behind_the_marker(
    api: KubernetesApi, log: str, outcome: Success | str
) -> None:
    runner = KubernetesRunner()
    handle = runner.submit("1:a:1", json.dumps({"seconds": 60}))
    name, _, _ = handle.partition("/")
    api.kill(name)
    secret = json.loads(api.secrets[name]["stringData"]["request.json"])
    api.logs[name] = log.replace("MARKER", secret["marker"])
    api.ended[name] = ("Complete", "CompletionsReached")
    [seen] = runner.look([handle]).values()
    if isinstance(outcome, Success):
        assert seen == outcome
    else:
        assert isinstance(seen, Failure)
        assert seen.message.startswith(outcome)


def test_the_page_says_what_a_pod_waits_for(api: KubernetesApi) -> None:
    runner = KubernetesRunner()
    api.failing["/secrets"] = 503
    with pytest.raises(RunnerUnavailable):
        runner.submit("1:a:1", json.dumps({"seconds": 60}))
    api.waiting[only_job(api)] = "ImagePullBackOff"
    handle = runner.submit("1:a:1", json.dumps({"seconds": 60}))
    waits = Output("waiting: ImagePullBackOff: no such image")
    assert runner.outputs([handle]) == {handle: waits}
    assert runner.states() == {handle: False}


def test_jobs_are_listed_in_pages_and_those_of_others_are_left_alone(
    api: KubernetesApi, settings: Any
) -> None:
    for number in range(3):
        api.failing["/secrets"] = 503
        with pytest.raises(RunnerUnavailable):
            KubernetesRunner().submit(f"1:a:{number}", json.dumps({"seconds": 60}))
    api.page_size = 2
    handles = list(KubernetesRunner().states())
    assert sorted(map(KubernetesRunner().key_of, handles)) == ["1:a:0", "1:a:1", "1:a:2"]
    # Whoever writes another key to a job does not make it that attempt's.
    api.jobs[min(api.jobs)]["metadata"]["annotations"]["holdpoint-attempt"] = "7:z:1"
    assert len(KubernetesRunner().states()) == 2
    settings.SECRET_KEY = "another installation" * 5
    assert KubernetesRunner().states() == {}


def test_inputs_that_no_secret_holds_are_refused_once(engine: Engine, api: KubernetesApi) -> None:
    value = ["x" * 100_000] * 10
    execution = engine.run(task("a", "value", arguments={"value": value}, retry=RETRY))
    assert execution.status == "FAILED"
    assert execution.attempts.get().error_code == "runner_refused"
    assert api.requests == []


@pytest.mark.parametrize(("status", "error"), [(422, RunnerRefused), (403, RunnerUnavailable)])
def test_an_invalid_job_is_refused_and_a_full_quota_is_not(
    api: KubernetesApi, status: int, error: type[Exception]
) -> None:
    api.failing["/jobs"] = status
    with pytest.raises(error, match=f"{status} no such luck"):
        KubernetesRunner().submit("1:a:1", json.dumps({"seconds": 60}))


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": "http://cluster.example:6443"},
        {"server": "https://cluster.example:6443", "insecure-skip-tls-verify": True},
    ],
)
def test_an_api_server_beyond_this_machine_needs_a_certificate(
    api: KubernetesApi, settings: Any, cluster: dict[str, Any]
) -> None:
    path = Path(settings.HOLDPOINT["kubernetes"]["config"])
    config = json.loads(path.read_text())
    config["clusters"][0]["cluster"] = cluster
    path.write_text(json.dumps(config))
    with pytest.raises(RunnerUnavailable, match="needs https"):
        KubernetesRunner().states()


def test_a_cluster_that_cannot_be_reached_fails_the_attempt(
    engine: Engine, api: KubernetesApi, tmp_path: Path
) -> None:
    execution = engine.start(task("a", "waits", arguments={"path": str(tmp_path / "never")}))
    engine.drive(execution)
    api.close()
    # The call may still run.
    assert watch() == 0
    execution.refresh_from_db()
    assert execution.status == "RUNNING"
    assert engine.run(task("a", "value", arguments={"value": 1})).status == "FAILED"
