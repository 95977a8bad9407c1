"""A real web process with a pool: sessions are shared, outlive a restart, and none gets lost."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from tests.support.groups import group_of
from tests.support.ports import free_port
from tests.support.processes import ROOT, database_url, end, environment, wait_for
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/api/v1/executions/"


class Web:
    """daphne with at most `most` sessions, and an operator who asks it."""

    def __init__(self, most: int, output: Path) -> None:
        self.name = f"pool of {most}"
        self.port = free_port()
        operator = User.objects.create_user(f"operator{most}")
        operator.groups.add(group_of("operator"))
        _, self.token = create_token(user=operator, name="t", scopes=["read"])
        self.output = output
        self._most = most

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port)]
        command += ["--application-close-timeout", "1", "config.asgi:application"]
        url = f"{database_url()}&application_name={self.name.replace(' ', '%20')}"
        env = environment(
            DATABASE_URL=url,
            HOLDPOINT_DB_POOL_MAX=str(self._most),
            HOLDPOINT_REQUESTS_PER_MINUTE="0",
        )
        with self.output.open("wb") as output:
            return subprocess.Popen(
                command, cwd=ROOT, env=env, start_new_session=True, stdout=output, stderr=output
            )

    def get(self, path: str = LIST, timeout: float = 60) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers=headers, timeout=timeout)

    def socket(self) -> ClientConnection:
        headers = {"Authorization": f"Bearer {self.token}"}
        return connect(f"ws://127.0.0.1:{self.port}/ws/reviews/", additional_headers=headers)

    def alive(self) -> bool:
        try:
            return self.get("/livez", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def sessions(self) -> set[int]:
        """The process ids of its sessions, as PostgreSQL knows them."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = %s", [self.name]
            )
            return {pid for (pid,) in cursor.fetchall()}

    def end_sessions(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE application_name = %s",
                [self.name],
            )
            return len(cursor.fetchall())


@contextmanager
def web_with(most: int, folder: Path) -> Iterator[Web]:
    found = Web(most, folder / "output")
    process = found.start()
    try:
        wait_for(found.alive, seconds=120, what="the web process answers")
        yield found
    finally:
        end(process)


def test_requests_share_sessions_that_outlive_a_restart(tmp_path: Path) -> None:
    with web_with(3, tmp_path) as web:
        with ThreadPoolExecutor(12) as threads:
            answers = list(threads.map(lambda _: web.get().status_code, range(36)))
        assert answers == [200] * 36
        before = web.sessions()
        assert 1 <= len(before) <= 3
        assert web.get().status_code == 200
        # A pool grows when all are on their way back, and loses none.
        assert before <= web.sessions()
        assert len(before) <= web.end_sessions() <= 3
        with ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(lambda _: web.get().status_code, range(6)))
        assert answers == [200] * 6
        assert web.sessions().isdisjoint(before)


def test_an_abandoned_request_returns_its_session(tmp_path: Path) -> None:
    """The only session waits for a lock, the client goes away, daphne gives the request up."""
    with web_with(1, tmp_path) as web:
        assert web.get().status_code == 200
        with _request_that_waits(web) as client:
            client.close()
            wait_for(
                lambda: b"took too long to shut down" in web.output.read_bytes(),
                what="daphne gives it up",
            )
        assert [web.get().status_code for _ in range(3)] == [200] * 3
        assert len(web.sessions()) == 1


def test_a_socket_is_closed_when_the_database_cannot_be_read(tmp_path: Path) -> None:
    """daphne cannot send the close codes below 3000: with them, the socket stayed open."""
    with web_with(1, tmp_path) as web:
        with web.socket() as quiet:
            quiet.send("x" * 5000)
            assert _close_code(quiet) == 4413
        with _request_that_waits(web), web.socket() as late:
            assert _close_code(late) == 4500


def _close_code(client: ClientConnection) -> int:
    """The code with which the server closes the socket."""
    with pytest.raises(ConnectionClosedError) as closed:
        deque(client, maxlen=0)  # what it sends before
    assert closed.value.rcvd is not None
    return int(closed.value.rcvd.code)


@contextmanager
def _request_that_waits(web: Web) -> Iterator[socket.socket]:
    """A request that keeps a session of the process: it waits for a lock of this one."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE auth_user, workflows_execution IN ACCESS EXCLUSIVE MODE")
        with socket.create_connection(("127.0.0.1", web.port)) as client:
            ask = f"GET {LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {web.token}"
            client.sendall(f"{ask}\r\n\r\n".encode())
            wait_for(lambda: _waits(web), what="the request waits for the lock")
            yield client


def _waits(web: Web) -> bool:
    with connection.cursor() as cursor:
        # A transaction sees the sessions as they were when it first looked.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT 1 FROM pg_stat_activity"
            " WHERE application_name = %s AND wait_event_type = 'Lock'",
            [web.name],
        )
        return cursor.fetchone() is not None
