"""Servers to talk to: mcp-server-git on a repository of the test, our own on both transports."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.ports import free_port
from workflows.common import background_loop
from workflows.tools.mcp_client import McpServerSpec, close_pool, pool

SERVER = Path(__file__).with_name("server.py")


def until(condition: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    """Poll `condition` until it is true; fail naming `what`."""
    pause = threading.Event()
    for _ in range(int(seconds * 50)):
        if found := condition():
            return found
        pause.wait(0.02)
    raise AssertionError(f"gave up waiting: {what}")


def has_ended(pid: int) -> bool:
    """Whether the process has ended (a zombie that nobody has reaped yet counts)."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Journal:
    """What the server wrote down; `forked` is a process that the server's owner has forked."""

    forked = 0

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    @property
    def words(self) -> list[str]:
        return self.path.read_text().splitlines()

    @property
    def pids(self) -> list[int]:
        return [int(word.split()[1]) for word in self.words if word.startswith("pid ")]

    def wait_for(self, word: str) -> None:
        until(lambda: word in self.words, f"{word!r} in {self.words}")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def spec(journal: Journal) -> Iterator[Callable[..., McpServerSpec]]:
    """Makes a stdio spec of our own server; closes the pool afterwards."""

    def make(*flags: str, **changes: Any) -> McpServerSpec:
        values: dict[str, Any] = {
            "name": "own",
            "transport": "stdio",
            "command": sys.executable,
            "args": (str(SERVER), *flags),
            "env": {"JOURNAL": str(journal.path)},
            "read_paths": (str(SERVER.parent),),
            "write_paths": (str(journal.path),),
        }
        return McpServerSpec(**(values | changes))

    yield make
    close_pool()
    until(lambda: all(has_ended(pid) for pid in journal.pids), "the servers end with the pool")


@pytest.fixture
def call() -> Callable[..., Any]:
    """Calls a tool of a spec and waits for the value."""

    def do(spec: McpServerSpec, tool: str, timeout: float = 30, **arguments: Any) -> Any:
        return background_loop.run(pool().call(spec, tool, arguments, timeout), timeout + 30)

    return do


class HTTPServer:
    """Our server on a loopback port, which it keeps when it is started again."""

    def __init__(self, journal: Journal, *flags: str) -> None:
        self.journal = journal
        self.flags = flags
        self.port = free_port()
        self.start()

    @property
    def spec(self) -> McpServerSpec:
        url = f"http://127.0.0.1:{self.port}/mcp"
        return McpServerSpec("web", "http", url=url, headers={"x-team": "blue"})

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), "--port", str(self.port), *self.flags],
            env=os.environ | {"JOURNAL": str(self.journal.path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self._answers, "the HTTP server listens")

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(params=[(), ("--handshake",)], ids=["sessionless", "handshake"])
def web(journal: Journal, request: pytest.FixtureRequest) -> Iterator[HTTPServer]:
    server = HTTPServer(journal, *request.param)
    yield server
    close_pool()
    server.kill()


def git(repo: Path, *words: str) -> str:
    """Run git in `repo`, without the configuration of whoever runs the tests."""
    identity = {
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.com",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.com",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    done = subprocess.run(
        ["git", "-C", str(repo), *words], env=os.environ | identity, check=True, capture_output=True
    )
    return done.stdout.decode()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main")
    (path / "readme.txt").write_text("one\n")
    git(path, "add", ".")
    git(path, "commit", "--quiet", "-m", "feat: start")
    return path


@pytest.fixture
def git_spec(repo: Path) -> Iterator[McpServerSpec]:
    yield McpServerSpec(
        "git",
        "stdio",
        command=sys.executable,
        args=("-m", "mcp_server_git", "--repository", str(repo)),
        read_paths=(str(repo),),
    )
    close_pool()
