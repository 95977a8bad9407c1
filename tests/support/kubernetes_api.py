"""A stand-in for the API server of Kubernetes, its Job controller and its kubelet, on loopback.

It speaks the HTTP of jobs, Secrets, pods and their logs.  The pod of a job is a process of this
machine, which starts when the Secret that it mounts exists.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.processes import ROOT

NAMESPACE, TOKEN = "tasks", "token-of-the-service-account"


class KubernetesApi:
    """One namespace; `environment` is that of the image in which pods run."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.deleted: list[tuple[str, str]] = []
        self.requests: list[tuple[str, str]] = []
        #: Part of a path → status with which the next request for it fails.
        self.failing: dict[str, int] = {}
        #: Name → the log of a pod that no process writes.
        self.logs: dict[str, str] = {}
        self.waiting: dict[str, str] = {}
        self.ended: dict[str, tuple[str, str]] = {}
        self.page_size = 500
        #: What a killed process is reported as.
        self.killed_as = "OOMKilled"
        self._folder = folder
        self._environment = {**environment, "PYTHONPATH": str(ROOT)}
        self._pods: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for name in list(self._pods):
            self.kill(name)

    def kubeconfig(self) -> str:
        """Return the path of a file with which a client connects."""
        path = self._folder / "kubeconfig"
        server = f"http://127.0.0.1:{self._server.server_port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server}}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(json.dumps(config))
        return str(path)

    def log_of(self, name: str) -> str:
        """Return what the pod of a job has printed."""
        path = self._folder / name / "log"
        return self.logs[name] if name in self.logs else path.read_bytes().decode()

    def kill(self, name: str) -> None:
        """Kill the process of a pod, as the kernel does for want of memory."""
        process = self._pods.get(name)
        if process is not None:
            process.kill()
            process.wait()

    def lose(self, name: str) -> None:
        """Forget a job without a request, as its time to live does."""
        self.kill(name)
        self.jobs.pop(name)
        self._pods.pop(name, None)

    def run(self, name: str) -> None:
        """Start the pod of a job whose Secret exists, unless its log is written by hand."""
        if name in self._pods or name in self.logs or name in self.waiting:
            return
        spec = self.jobs[name]["spec"]["template"]["spec"]
        [container] = spec["containers"]
        [volume] = [each["secret"] for each in spec["volumes"] if "secret" in each]
        mount = next(each for each in container["volumeMounts"] if each["name"] == "request")
        folder = self._folder / name
        folder.mkdir()
        for file, text in self.secrets[volume["secretName"]]["stringData"].items():
            (folder / file).write_text(text)
        python, *arguments = container["command"]
        assert python == "python"
        local = [each.replace(mount["mountPath"], str(folder)) for each in arguments]
        with (folder / "log").open("wb") as log:
            self._pods[name] = subprocess.Popen(
                [sys.executable, *local],
                cwd=folder,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    # --- requests -------------------------------------------------------------------------------

    def answer(
        self, method: str, path: str, query: Mapping[str, str], body: Any
    ) -> tuple[int, Any]:
        """Return the status and the body of an answer."""
        with self._lock:
            self.requests.append((method, path))
            for part, status in list(self.failing.items()):
                if method == "POST" and part in path:
                    del self.failing[part]
                    return _status(status, "no such luck")
            jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
            core = f"/api/v1/namespaces/{NAMESPACE}"
            if path == jobs:
                return self._create(self.jobs, body) if method == "POST" else self._list(query)
            if path.startswith(jobs):
                return self._job(method, path.rpartition("/")[2], query, body)
            if path == f"{core}/secrets":
                return self._create_secret(body)
            if path == f"{core}/pods":
                return self._list_pods(query["labelSelector"])
            if path.endswith("/log"):
                return self._log(path.split("/")[-2].removesuffix("-x7k2p"), query)
            return _status(404, "the server could not find the requested resource")

    def _create(self, kept: dict[str, dict[str, Any]], body: Any) -> tuple[int, Any]:
        name = body["metadata"]["name"]
        if name in kept:
            return _status(409, f'"{name}" already exists')
        body["metadata"].update(uid=f"uid-{len(kept)}", creationTimestamp=_now())
        kept[name] = body
        return 201, body

    def _create_secret(self, body: Any) -> tuple[int, Any]:
        created = self._create(self.secrets, body)
        [owner] = body["metadata"]["ownerReferences"]
        assert owner["uid"] == self.jobs[owner["name"]]["metadata"]["uid"]
        self.run(owner["name"])
        return created

    def _list(self, query: Mapping[str, str]) -> tuple[int, Any]:
        wanted = dict([query["labelSelector"].split("=")])
        names = [
            name
            for name, job in sorted(self.jobs.items())
            if wanted.items() <= job["metadata"]["labels"].items()
        ]
        first = int(query.get("continue", "0"))
        end = first + min(self.page_size, int(query["limit"]))
        metadata = {"continue": str(end)} if end < len(names) else {}
        items = [self._with_status(name) for name in names[first:end]]
        return 200, _list_of("batch/v1", "JobList", items, metadata)

    def _job(self, method: str, name: str, query: Mapping[str, str], body: Any) -> tuple[int, Any]:
        if name not in self.jobs:
            return _status(404, f'jobs.batch "{name}" not found')
        if method == "GET":
            return 200, self._with_status(name)
        policy = (body or {}).get("propagationPolicy") or query.get("propagationPolicy", "Orphan")
        self.deleted.append((name, policy))
        del self.jobs[name]
        if policy != "Orphan":
            self.kill(name)
            self._pods.pop(name, None)
            self.secrets.pop(name, None)
        return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _end(self, name: str) -> tuple[str, str] | None:
        """Return the condition and reason with which a job has ended."""
        if name in self.ended:
            return self.ended[name]
        code = self._pods[name].poll() if name in self._pods else None
        if code is None:
            return None
        return (
            ("Complete", "CompletionsReached") if code == 0 else ("Failed", "BackoffLimitExceeded")
        )

    def _with_status(self, name: str) -> dict[str, Any]:
        end = self._end(name)
        conditions = []
        if end is not None:
            kind, reason = end
            conditions = [{"type": kind, "status": "True", "reason": reason}]
        return {**self.jobs[name], "status": {"conditions": conditions}}

    def _list_pods(self, selector: str) -> tuple[int, Any]:
        name = selector.removeprefix("job-name=")
        if name not in self._pods and name not in self.logs and name not in self.waiting:
            return 200, _list_of("v1", "PodList", [], {})
        state: dict[str, Any] = {"running": {"startedAt": _now()}}
        process = self._pods.get(name)
        if name in self.waiting:
            state = {"waiting": {"reason": self.waiting[name], "message": "no such image"}}
        elif process is not None and process.poll() is not None:
            reason = "Completed" if process.returncode == 0 else self.killed_as
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            state = {"terminated": {"exitCode": code, "reason": reason}}
        container = {
            "name": "task",
            "image": "image",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        metadata = {
            "name": f"{name}-x7k2p",
            "creationTimestamp": _now(),
            "labels": {"job-name": name},
        }
        pod = {"metadata": metadata, "status": {"containerStatuses": [container]}}
        return 200, _list_of("v1", "PodList", [pod], {})

    def _log(self, name: str, query: Mapping[str, str]) -> tuple[int, Any]:
        if name in self.waiting:
            return _status(400, "container is waiting to start")
        text = self.log_of(name).encode()
        lines = text.removesuffix(b"\n").split(b"\n")[-int(query["tailLines"]) :]
        return 200, b"\n".join([*lines, b""])[: int(query["limitBytes"])]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(code: int, message: str) -> tuple[int, Any]:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return code, {**status, "message": message, "code": code}


def _list_of(version: str, kind: str, items: list[Any], metadata: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "items": items}


class _Handler(BaseHTTPRequestHandler):
    api: KubernetesApi
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status, answer = _status(401, "Unauthorized")
        else:
            status, answer = self.api.answer(self.command, parts.path, query, body)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        kind = "text/plain" if isinstance(answer, bytes) else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = _handle

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""
