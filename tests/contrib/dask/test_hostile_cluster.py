"""Code that a process of a Dask cluster sends, executed by `distributed` when it unpickles."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contrib.dask.conftest import Cluster
from tests.support.processes import ROOT, wait_for
from workflows.common import landlock
from workflows.contrib.dask import confined_client
from workflows.engine.protocol.ports import Failure, Success
from workflows.remote.port import RunnerUnavailable
from workflows.remote.registry import configured_runners

pytestmark = pytest.mark.django_db(transaction=True)

KNOWN = {"PATH", "LANG", "LC_CTYPE", "HOME", "TMPDIR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
REQUEST = {
    "module": "tests.support.remote_tools",
    "function": "value",
    "arguments": {"value": 1},
    "key": "7:a:1",
    "execution": "7",
    "task": "a",
    "seconds": 60,
    "permissions": {},
    "feedback": [],
}

#: What the hostile object does where it is unpickled; `targets` is put in front of it.
ATTACK = """
import json, os, socket

def tried(function, *arguments):
    try:
        return str(function(*arguments))[:200]
    except BaseException as error:
        return type(error).__name__

def read(path):
    with open(path, "rb") as file:
        return file.read()

def write(path):
    with open(path, "w") as file:
        return file.write("hostile")

def connect(port):
    with socket.create_connection(("127.0.0.1", port), 2):
        return "connected"

def connect_unix(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return "connected"

report = {
    "pid": os.getpid(),
    "environment": dict(os.environ),
    "read": {path: tried(read, path) for path in targets["read"]},
    "listed": {path: tried(os.listdir, path) for path in targets["listed"]},
    "write": tried(write, targets["write"]),
    "tcp": tried(connect, targets["port"]),
    "unix": tried(connect_unix, targets["unix"]),
    "kill": tried(os.kill, targets["pid"], 0),
}
text = json.dumps({"output": report})
"""

#: Puts the object under the handle of a call, as a process of the cluster can.
PUBLISH = """
import sys
from distributed import Client, wait

address, handle, source = sys.argv[1:]

class Hostile:
    def __reduce__(self):
        expression = "(lambda names: (exec(%r, names), names['text'])[1])({})" % source
        return eval, (expression,)

with Client(address) as client:
    client.unpublish_dataset(handle)
    future = client.submit(Hostile, key="hostile", pure=False)
    wait(future)
    client.publish_dataset(future, name=handle)
"""


def publish(cluster: Cluster, handle: str, source: str) -> None:
    arguments = [sys.executable, "-c", PUBLISH, cluster.address, handle, source]
    subprocess.run(arguments, check=True, cwd=ROOT, timeout=60)


def test_hostile_code_runs_without_secrets_outside_of_this_process(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDPOINT_AUDIT_KEY", "the-audit-key")
    secret = tmp_path / "holdpoint.env"
    secret.write_text("HOLDPOINT_AUDIT_KEY=the-audit-key")
    settings, home = ROOT / "config/settings/base.py", tmp_path
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        targets = {
            "read": [str(secret), str(settings), f"/proc/{os.getpid()}/environ", "/etc/passwd"],
            "listed": [str(home), str(ROOT), "/tmp"],
            "write": str(tmp_path / "hostile"),
            "port": tcp.getsockname()[1],
            "unix": str(tmp_path / "s"),
            "pid": os.getpid(),
        }
        runner = configured_runners()["dask"]
        handle = runner.submit("7:a:1", json.dumps(REQUEST))
        wait_for(lambda: list(runner.states().values()) == [True], what="the end of the call")
        publish(cluster, handle, f"targets = {targets!r}\n{ATTACK}")
        outcome = runner.look([handle])[handle]
    assert isinstance(outcome, Success), outcome
    report: dict[str, Any] = outcome.output
    assert report["pid"] != os.getpid(), "code of the cluster ran in the product's process"
    assert set(report["environment"]) <= KNOWN
    assert "the-audit-key" not in json.dumps(report)
    results = [*report["read"].values(), *report["listed"].values()]
    results += [report[name] for name in ("write", "tcp", "unix", "kill")]
    assert set(results) == {"PermissionError"}, report
    assert not (tmp_path / "hostile").exists()


@pytest.mark.parametrize(
    "source",
    [
        "import os; os._exit(1)",
        "import os; os.write(1, b'[' * 100_000); os._exit(0)",
        "import os; os.write(1, b'{\"answer\": [1]}'); os._exit(0)",
        "import os; os.write(1, b'x' * 100_000_000); os._exit(0)",
        "import os, time\nif os.fork(): os._exit(0)\nos.setsid(); time.sleep(40); os._exit(0)",
    ],
    ids=["no answer", "too deep", "no object", "too long", "an open pipe"],
)
def test_an_answer_that_hostile_code_writes_is_checked(
    cluster: Cluster, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = configured_runners()["dask"]
    handle = runner.submit("7:a:1", json.dumps(REQUEST))
    wait_for(lambda: list(runner.states().values()) == [True], what="the end of the call")
    publish(cluster, handle, f"{source}\ntext = ''")
    monkeypatch.setattr(confined_client, "_TIMEOUT", 20)
    try:
        outcome = runner.look([handle])[handle]
    except RunnerUnavailable:
        return
    assert isinstance(outcome, Failure)


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
def test_the_client_does_not_start_where_it_reads_the_product(settings: Any) -> None:
    """Without a cluster: code of one could read the files below the Python environment."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "home": Path(sys.prefix) / "holdpoint"}
    with pytest.raises(RunnerUnavailable, match="lies below"):
        confined_client.ask("tcp://127.0.0.1:1", "states", {"prefix": "x"})
