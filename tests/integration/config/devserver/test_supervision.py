"""The supervisor's parts on real processes."""

import os
import re
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from django.core.exceptions import ImproperlyConfigured

from config.devserver.embedded.processes import wait_until
from config.devserver.plan import read_plan
from config.devserver.preflight import StartRefused, check_port, only_one
from config.devserver.supervisor import answers
from config.paths import BASE_DIR
from tests.support.ports import free_port
from tests.support.processes import environment


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
    for name, _, env in plan.children():
        assert "secret" not in " ".join(env.values()), name


def test_no_log_of_daphne_has_an_address(db, monkeypatch, tmp_path: Path) -> None:
    """The web process of `make run` really serves; deployments start daphne in the same way."""
    monkeypatch.setenv("HOLDPOINT_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDPOINT_PORT", str(port := free_port()))
    plan = read_plan()
    (command,) = [line for name, line, _ in plan.children() if name == "web"]
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
    roles = {name: env.get("HOLDPOINT_ROLE") for name, _, env in plan.children()}
    assert roles == {"web": "web", "workers": "worker", "sweeper": "sweeper", "databases": None}


@pytest.mark.parametrize("port", ["0", "70000", "http"])
def test_an_odd_port_is_refused(monkeypatch, port: str) -> None:
    monkeypatch.setenv("HOLDPOINT_PORT", port)
    with pytest.raises(ImproperlyConfigured, match="HOLDPOINT_PORT"):
        read_plan()


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
