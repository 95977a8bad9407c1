"""The supervisor's parts on real processes."""

import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psutil
import pytest
from django.core.exceptions import ImproperlyConfigured

from config.devserver.embedded.processes import is_alive, wait_until
from config.devserver.supervision import child_process as child_module
from config.devserver.supervision.child_process import Child
from config.devserver.supervision.console import Console
from config.devserver.supervision.plan import read_plan
from config.devserver.supervision.preflight_checks import (
    StartRefused,
    check_port,
    end_leftovers,
    only_one,
    remember,
)
from config.devserver.supervision.prepare import answers
from config.devserver.supervision.process_tree import ProcessTree
from config.devserver.supervisor import Supervisor
from config.paths import BASE_DIR
from tests.support.ports import free_port
from tests.support.processes import environment
from workflows.common import restart_backoff

ENDS_AT_ONCE = "print('hello'); raise SystemExit(3)"
STAYS = "import time; print('up', flush=True); time.sleep(600)"
IGNORES_SIGTERM = "import signal; signal.signal(15, signal.SIG_IGN); " + STAYS
HAS_A_CHILD = (
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; "
    "time.sleep(600)']); print('child', p.pid, flush=True); p.wait()"
)


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@contextmanager
def running(code: str, output: io.StringIO, companion: str = "") -> Iterator[Child]:
    child = Child("web", [sys.executable, "-c", code], os.environ, Console(output), companion)
    child.start()
    try:
        yield child
    finally:
        child.ask_to_stop()
        child.wait(time.monotonic())


def says(output: io.StringIO, text: str) -> bool:
    return wait_until(lambda: text in output.getvalue(), 60)


def test_lines_carry_the_name(output: io.StringIO) -> None:
    with running(STAYS, output):
        assert says(output, "web       | up\n")


def test_a_signal_while_a_line_is_written_does_not_block(monkeypatch) -> None:
    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            supervisor._stop(signal.SIGTERM, None)
            return super().write(text)

    monkeypatch.setenv("DATABASE_URL", "postgres://app@h/n")
    monkeypatch.setenv("REDIS_URL", "redis://h")
    console = Console(Stream())
    supervisor = Supervisor(read_plan(), console)
    console.say("is ready")
    assert supervisor._stopping.is_set()


def test_lines_of_a_companion_carry_its_name(output: io.StringIO) -> None:
    code = "import os, sys; os.write(int(sys.argv[1]), b'swept\\n'); print('worked')"
    with running(code, output, "sweeper"):
        assert says(output, "sweeper   | swept\n")
        assert says(output, "web       | worked\n")


def test_a_child_that_ends_is_started_again(output: io.StringIO, monkeypatch) -> None:
    monkeypatch.setattr(restart_backoff, "FIRST_PAUSE", 0.01)
    with running(ENDS_AT_ONCE, output) as child:

        def restarted() -> bool:
            child.keep_alive()
            return child.restarts >= 2

        assert wait_until(restarted, 20)
        assert "ended with 3; starting again in 0.01 s" in output.getvalue()
        assert "starting again in 0.02 s" in output.getvalue()
        assert says(output, "hello")


def test_a_stopped_child_ends_with_its_own_children(output: io.StringIO) -> None:
    with running(HAS_A_CHILD, output) as child:
        assert says(output, "child ")
        grandchild = psutil.Process(int(output.getvalue().split()[-1]))
    assert wait_until(lambda: not is_alive(grandchild), 30)
    assert child._process.returncode is not None


def test_orphans_of_a_killed_child_are_killed_before_its_restart(
    output: io.StringIO,
) -> None:
    with running(HAS_A_CHILD, output) as child:
        assert says(output, "child ")
        grandchild = psutil.Process(int(output.getvalue().split()[-1]))
        os.kill(child.pid, signal.SIGKILL)

        def noticed() -> bool:
            child.keep_alive()
            return "ended with -9" in output.getvalue()

        assert wait_until(noticed, 30)
        assert not is_alive(grandchild)
        assert "killed what it had left: python" in output.getvalue()
        assert child.restarts == 0


def test_detached_orphans_of_a_killed_child_are_killed(output: io.StringIO, monkeypatch) -> None:
    monkeypatch.setattr(child_module, "LOOK_SECONDS", 0)
    code = HAS_A_CHILD.replace("])", "], start_new_session=True)")
    with running(code, output) as child:
        assert says(output, "child ")
        grandchild = psutil.Process(int(output.getvalue().split()[-1]))
        child.keep_alive()
        assert set(child.pids()) == {child.pid, grandchild.pid}
        os.kill(child.pid, signal.SIGKILL)
        assert wait_until(lambda: (child.keep_alive(), not is_alive(grandchild))[1], 30)


def test_a_detached_process_that_starts_later_is_recorded_too() -> None:
    tree = ProcessTree(os.getpid())
    tree.look()
    with subprocess.Popen([sys.executable, "-c", STAYS], start_new_session=True,
                          stdout=subprocess.DEVNULL) as later:  # fmt: skip
        tree.look()
        assert later.pid in {each.pid for each in tree.members()}
        later.kill()
    tree.look()
    assert later.pid not in {each.pid for each in tree.members()}


def test_a_child_that_ignores_sigterm_is_killed_at_the_deadline(output: io.StringIO) -> None:
    with running(IGNORES_SIGTERM, output) as child:
        assert says(output, "up")
        child.ask_to_stop()
        child.wait(time.monotonic() + 0.2)
        assert child._process.returncode == -signal.SIGKILL
        assert "did not stop in time and was killed" in output.getvalue()


def test_one_home_has_one_supervisor(tmp_path: Path) -> None:
    with (
        only_one(tmp_path),
        pytest.raises(StartRefused, match=f"already runs on .*process {os.getpid()}"),
        only_one(tmp_path),
    ):
        pass
    with only_one(tmp_path):
        pass  # free again


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartRefused, match=rf"Port {port}.*HOLDPOINT_PORT={port + 1}"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_children_of_a_killed_supervisor_are_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", STAYS], start_new_session=True,
                          stdout=subprocess.DEVNULL) as orphan:  # fmt: skip
        remember(tmp_path, [orphan.pid])
        assert end_leftovers(tmp_path) == "1 process"
        assert orphan.wait(30) < 0
    assert end_leftovers(tmp_path) == ""


def test_an_orphan_that_ignores_sigterm_is_killed_with_its_session(tmp_path: Path) -> None:
    code = IGNORES_SIGTERM.replace("print(", HAS_A_CHILD.replace("p.wait()", "print("))
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, text=True,
                          stdout=subprocess.PIPE) as orphan:  # fmt: skip
        assert orphan.stdout is not None
        below = psutil.Process(int(orphan.stdout.readline().split()[-1]))
        assert orphan.stdout.readline() == "up\n"
        remember(tmp_path, [orphan.pid])
        assert end_leftovers(tmp_path).startswith("1 process; had to kill python")
        assert orphan.wait(30) == -signal.SIGKILL
    assert wait_until(lambda: not is_alive(below), 30)


def test_a_reused_pid_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "children.json").write_text(f"[[{os.getpid()}, 1.0], [99999999, 1.0]]")
    assert end_leftovers(tmp_path) == ""


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL"])
def test_one_url_without_the_other_is_refused(monkeypatch, name: str) -> None:
    for other in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "x")
    with pytest.raises(StartRefused, match="Set both"):
        read_plan()


def test_with_both_urls_nothing_is_embedded(monkeypatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://a@h/n")
    monkeypatch.setenv("REDIS_URL", "redis://h")
    plan = read_plan()
    assert plan.servers is None
    assert plan.env["DATABASE_URL"] == "postgres://a@h/n"


def test_no_child_receives_the_owners_database_url(monkeypatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://app@h/n")
    monkeypatch.setenv("REDIS_URL", "redis://h")
    monkeypatch.setenv("DATABASE_OWNER_URL", "postgres://owner:secret@h/n")
    plan = read_plan()
    assert plan.owner_url == "postgres://owner:secret@h/n"
    for name, _, env, _ in plan.children():
        assert "secret" not in " ".join(env.values()), name


def test_no_log_of_daphne_has_an_address(db, monkeypatch, tmp_path: Path) -> None:
    """The web process of `make run` really serves; deployments start daphne in the same way."""
    monkeypatch.setenv("HOLDPOINT_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDPOINT_PORT", str(port := free_port()))
    plan = read_plan()
    (command,) = [line for name, line, _, _ in plan.children() if name == "web"]
    (tmp_path / "logs").mkdir()
    output = tmp_path / "output"
    with output.open("wb") as file:
        web = subprocess.Popen(command, cwd=BASE_DIR, env=environment(), stdout=file, stderr=file)
    try:
        assert wait_until(lambda: answers(plan), 60), output.read_text()
        httpx.get(f"http://127.0.0.1:{port}/login/?next=/S3CRET&password=S3CRET")
        httpx.post(f"http://127.0.0.1:{port}/answer/S3CRET/?code=S3CRET")
    finally:
        web.terminate()
        web.wait(30)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert output in written
    for path in written:
        assert b"S3CRET" not in path.read_bytes(), path
    for name in ("Dockerfile", "Procfile", "systemd/holdpoint-web@.service"):
        text = (BASE_DIR / "deploy" / name).read_text()
        assert re.search(r"daphne\W+-v\W+0\W", text), name


def test_the_home_comes_from_the_environment(monkeypatch, tmp_path: Path) -> None:
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDPOINT_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDPOINT_PORT", "8123")
    plan = read_plan()
    assert plan.address == "http://127.0.0.1:8123"
    assert plan.servers is not None
    assert plan.env["DATABASE_URL"] == plan.servers.layout.urls.database
    assert plan.owner_url != plan.env["DATABASE_URL"]
    names = [(name, companion) for name, _, _, companion in plan.children()]
    assert names == [("web", ""), ("workers", "sweeper")]
    roles = [env["HOLDPOINT_ROLE"] for _, _, env, _ in plan.children()]
    assert roles == ["web", "worker"]


@pytest.mark.parametrize("port", ["0", "70000", "http"])
def test_an_odd_port_is_refused(monkeypatch, port: str) -> None:
    monkeypatch.setenv("HOLDPOINT_PORT", port)
    with pytest.raises(ImproperlyConfigured, match="HOLDPOINT_PORT"):
        read_plan()


def test_the_supervisor_loads_no_client_of_the_servers() -> None:
    code = "import config.devserver.supervisor, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], cwd=BASE_DIR, text=True).split()
    assert {"psycopg", "redis", "urllib.request"}.isdisjoint(loaded)


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False)])
def test_only_status_200_is_an_answer(monkeypatch, status: int, ready: bool) -> None:
    requests: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.raw_requestline + self.headers["Host"].encode())
            self.send_response(status)
            self.end_headers()

    Handler.protocol_version = "HTTP/1.1"
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setenv("HOLDPOINT_PORT", str(server.server_port))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        plan = read_plan()
        assert answers(plan) is ready
        server.shutdown()
    assert requests == [f"GET /livez HTTP/1.1\r\n127.0.0.1:{server.server_port}".encode()]
    assert not answers(plan)
