"""Run calls as Kubernetes jobs (the extra `kubernetes`).

The name of a job is derived from the key of the attempt, so the API server refuses a second one.
The request travels in a Secret that the job owns and its pod mounts.  The result is the last line
of the pod's log, behind a marker that only this installation can derive: a termination message
holds 4 kB, and an endpoint for results would need a way from every pod to Holdpoint and a token in
it.  Jobs are never repeated by Kubernetes, and end at the time limit of their task.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

from django.utils.crypto import salted_hmac

from workflows import conf
from workflows.engine.ports import Failure, Success
from workflows.engine.reasons import Reason

from .output import Output, clean, share_of
from .port import RunnerRefused, RunnerUnavailable
from .results import lost, refused, result_of

#: Seconds for connecting, and for one answer of the API server.
_TIMEOUT: Final = (5, 10)
#: Bytes of a Secret, by the API server.
_MAX_REQUEST: Final = 1_000_000
#: A long line is stored in pieces of 16 kB, each of which counts as a line: these are enough for
#: the largest result and the lines before it.  While a task runs, up to one line each second is
#: its progress.
_END_LINES, _END_BYTES = 300, 6_000_000
_LIVE_LINES, _LIVE_BYTES = 400, 1_000_000
#: Seconds after which Kubernetes removes an ended job that nobody has read.
_UNREAD_SECONDS: Final = 7 * 86_400
_PAGE: Final = 500
_INSTALLATION: Final = "holdpoint-installation"
_ATTEMPT: Final = "holdpoint-attempt"
_FOLDER, _FILE = "/run/holdpoint", "request.json"
_NOT_FOUND, _CONFLICT = 404, 409
#: Statuses of a job or Secret that no repetition makes valid.
_INVALID: Final = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class _Api:
    batch: Any
    core: Any


class KubernetesRunner:
    """A RemoteRunner with jobs in one namespace of a cluster."""

    def __init__(self) -> None:
        self._settings = conf.kubernetes()
        self._namespace = self._settings["namespace"]
        # Installations that share a namespace do not see each other's jobs.
        self._installation = salted_hmac("holdpoint.remote", "kubernetes").hexdigest()[:12]

    def submit(self, key: str, request: str) -> str:
        call = {**json.loads(request), "marker": self._marker(key)}
        text = json.dumps(call)
        if len(text) > _MAX_REQUEST:
            raise RunnerRefused(f"the inputs are larger than {_MAX_REQUEST} bytes")
        with self._api(submits=True) as api:
            job = self._job(api, key, seconds=call["seconds"])
            self._create(api.core.create_namespaced_secret, self._secret(key, text, job))
        return f"{self._name(key)}/{key}"

    def look(self, handles: Collection[str]) -> Mapping[str, Success | Failure]:
        with self._api() as api:
            found = {handle: self._outcome(api, handle) for handle in handles}
        return {handle: outcome for handle, outcome in found.items() if outcome is not None}

    def outputs(self, handles: Collection[str]) -> Mapping[str, Output]:
        with self._api() as api:
            found = {handle: self._printed(api, handle) for handle in handles}
        return {handle: output for handle, output in found.items() if output is not None}

    def states(self) -> Mapping[str, bool]:
        states: dict[str, bool] = {}
        query = {"label_selector": f"{_INSTALLATION}={self._installation}", "limit": _PAGE}
        with self._api() as api:
            while True:
                page = api.batch.list_namespaced_job(
                    self._namespace, **query, _request_timeout=_TIMEOUT
                )
                for job in page.items:
                    key = (job.metadata.annotations or {}).get(_ATTEMPT, "")
                    if job.metadata.name == self._name(key):
                        states[f"{job.metadata.name}/{key}"] = _end_of(job) is not None
                rest = getattr(page.metadata, "_continue", None)
                if not rest:
                    return states
                query["_continue"] = rest

    def cancel(self, handles: Collection[str]) -> None:
        with self._api() as api:
            for handle in handles:
                # The pod and the Secret go with their job.
                self._unless_missing(
                    api.batch.delete_namespaced_job, handle, propagation_policy="Background"
                )

    def key_of(self, handle: str) -> str:
        return handle.partition("/")[2]

    # --- objects --------------------------------------------------------------------------------

    def _name(self, key: str) -> str:
        return f"holdpoint-{self._installation}-{sha256(key.encode()).hexdigest()[:32]}"

    def _marker(self, key: str) -> str:
        """Return the text before a result: what a tool prints of the world cannot contain it."""
        return "holdpoint-" + salted_hmac("holdpoint.remote.result", key).hexdigest()[:32]

    def _metadata(self, key: str) -> dict[str, Any]:
        labels = {_INSTALLATION: self._installation, "app.kubernetes.io/managed-by": "holdpoint"}
        return {"name": self._name(key), "labels": labels, "annotations": {_ATTEMPT: key}}

    def _job(self, api: _Api, key: str, *, seconds: float) -> Any:
        """Create the job of an attempt; return it, or the one that exists."""
        metadata = self._metadata(key)
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": math.ceil(seconds),
                "ttlSecondsAfterFinished": _UNREAD_SECONDS,
                "template": {
                    "metadata": {"labels": metadata["labels"]},
                    "spec": self._pod(metadata["name"]),
                },
            },
        }
        created = self._create(api.batch.create_namespaced_job, body)
        if created is not None:
            return created
        return api.batch.read_namespaced_job(
            metadata["name"], self._namespace, _request_timeout=_TIMEOUT
        )

    def _pod(self, secret: str) -> dict[str, Any]:
        program = ["python", "-u", "-m", "workflows.remote.job_process", f"{_FOLDER}/{_FILE}"]
        container = {
            "name": "task",
            "image": self._settings["image"],
            "command": program,
            "resources": self._settings["resources"],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "request", "mountPath": _FOLDER, "readOnly": True},
                {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            ],
        }
        return {
            "restartPolicy": "Never",
            "serviceAccountName": self._settings["service_account"],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [
                {"name": "request", "secret": {"secretName": secret, "defaultMode": 0o444}},
                {"name": "tmp", "emptyDir": {}},
            ],
        }

    def _secret(self, key: str, text: str, job: Any) -> dict[str, Any]:
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job.metadata.name,
            "uid": job.metadata.uid,
        }
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**self._metadata(key), "ownerReferences": [owner]},
            "immutable": True,
            "stringData": {_FILE: text},
        }

    def _create(self, method: Any, body: dict[str, Any]) -> Any:
        """Create an object; return None if there is one with its name."""
        from kubernetes.client import ApiException

        try:
            return method(self._namespace, body, _request_timeout=_TIMEOUT)
        except ApiException as error:
            if error.status != _CONFLICT:
                raise
            return None

    def _unless_missing(self, method: Any, handle: str, **more: Any) -> Any:
        """Call a method for the job of a handle; return None if there is no such job."""
        from kubernetes.client import ApiException

        name = handle.partition("/")[0]
        try:
            return method(name, self._namespace, _request_timeout=_TIMEOUT, **more)
        except ApiException as error:
            if error.status != _NOT_FOUND:
                raise
            return None

    # --- what became of a job -------------------------------------------------------------------

    def _outcome(self, api: _Api, handle: str) -> Success | Failure | None:
        """Return the result of a call that has ended, else None."""
        job = self._unless_missing(api.batch.read_namespaced_job, handle)
        if job is None:
            return lost("kubernetes")
        end = _end_of(job)
        if end is None:
            return None
        pod = self._pod_of(api, handle)
        text = self._log(api, pod, _END_LINES, _END_BYTES)
        output, result = self._read(handle, text)
        if end.type == "Complete" and pod is None:
            return lost("kubernetes")
        if end.type == "Complete":
            if result is None:
                return refused("the log of the pod does not end with it", output.logs)
            return result_of(result, output.logs)
        if end.reason == "DeadlineExceeded":
            reason = Reason("task_timed_out", {"seconds": f"{job.spec.active_deadline_seconds:g}"})
        else:
            reason = Reason("remote_process_ended", {"why": _why(pod) or end.reason or "Failed"})
        return Failure(reason.text, retryable=True, logs=output.logs, reason=reason)

    def _printed(self, api: _Api, handle: str) -> Output | None:
        pod = self._pod_of(api, handle)
        if pod is None:
            return None
        text = self._log(api, pod, _LIVE_LINES, _LIVE_BYTES)
        output, _ = self._read(handle, text)
        return output if output.logs else Output(clean(_waiting(pod)), output.progress)

    def _pod_of(self, api: _Api, handle: str) -> Any:
        """Return the newest pod of a job, or None."""
        name = handle.partition("/")[0]
        pods = api.core.list_namespaced_pod(
            self._namespace, label_selector=f"job-name={name}", limit=10, _request_timeout=_TIMEOUT
        ).items
        return max(pods, key=lambda pod: pod.metadata.creation_timestamp, default=None)

    def _log(self, api: _Api, pod: Any, lines: int, size: int) -> str:
        """Return the end of a pod's log; "" before its container has started."""
        from kubernetes.client import ApiException

        if pod is None:
            return ""
        try:
            response = api.core.read_namespaced_pod_log(
                pod.metadata.name,
                self._namespace,
                container="task",
                tail_lines=lines,
                limit_bytes=size,
                _preload_content=False,
                _request_timeout=_TIMEOUT,
            )
        except ApiException as error:
            if error.status in (400, _NOT_FOUND):
                return ""
            raise
        try:
            text: bytes = response.read(size)
        finally:
            response.close()
        return text.decode("utf-8", "replace")

    def _read(self, handle: str, text: str) -> tuple[Output, str | None]:
        """Return the output in the log of a pod, and the result if there is one."""
        marker = self._marker(self.key_of(handle)) + " "
        lines: list[str] = []
        progress, result = None, None
        for line in text.split("\n"):
            printed, found, said = line.partition(marker)
            if printed or not found:
                lines.append(printed)
            kind, _, value = said.partition(" ")
            if kind == "progress":
                progress = share_of(_number(value))
            elif kind == "result":
                result = value
        return Output(clean("\n".join(lines)), progress), result

    @contextmanager
    def _api(self, *, submits: bool = False) -> Iterator[_Api]:
        from kubernetes import client, config
        from urllib3.exceptions import HTTPError

        try:
            configuration = client.Configuration()
            if self._settings["config"]:
                config.load_kube_config(
                    self._settings["config"],
                    client_configuration=configuration,
                    persist_config=False,
                )
            else:
                config.load_incluster_config(client_configuration=configuration)
            _check_connection(configuration)
            with client.ApiClient(configuration) as connection:
                yield _Api(client.BatchV1Api(connection), client.CoreV1Api(connection))
        except client.ApiException as error:
            kind = RunnerRefused if submits and error.status in _INVALID else RunnerUnavailable
            raise kind(_message(error)) from error
        except (HTTPError, OSError, config.ConfigException) as error:
            raise RunnerUnavailable(f"{type(error).__name__}: {error}"[:500]) from error


def _check_connection(configuration: Any) -> None:
    """Raise RunnerUnavailable if inputs and results would travel in the clear."""
    parts = urlsplit(configuration.host)
    if parts.hostname in ("127.0.0.1", "::1", "localhost"):
        return
    if parts.scheme != "https" or not configuration.verify_ssl:
        raise RunnerUnavailable(
            "the API server beyond this machine needs https, with a certificate that is checked"
        )


def _message(error: Any) -> str:
    try:
        said = json.loads(error.body)["message"]
    except (TypeError, ValueError, KeyError):
        said = error.reason
    return f"{error.status} {said}"[:500]


def _end_of(job: Any) -> Any:
    """Return the condition with which a job has ended, or None."""
    for condition in job.status.conditions or ():
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return condition
    return None


def _container_state(pod: Any) -> Any:
    statuses = pod.status.container_statuses if pod is not None and pod.status else None
    return statuses[0].state if statuses else None


def _why(pod: Any) -> str:
    """Return why the process of a pod has ended: `OOMKilled, exit code 137`."""
    state = _container_state(pod)
    if state is not None and state.terminated is not None:
        return f"{state.terminated.reason}, exit code {state.terminated.exit_code}"[:200]
    reason = pod.status.reason if pod is not None and pod.status else ""
    return (reason or "")[:200]


def _waiting(pod: Any) -> str:
    """Return what a pod waits for, "" if it does not: an image, or a node with room for it."""
    state = _container_state(pod)
    if state is not None and state.waiting is not None:
        parts = (state.waiting.reason, state.waiting.message)
        return "waiting: " + ": ".join(part for part in parts if part)
    for condition in (pod.status.conditions if pod.status else None) or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"waiting: {condition.reason}: {condition.message}"
    return ""


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
