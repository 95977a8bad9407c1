"""`make run` from outside: start, stop, restart, and failures."""

import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path

import psutil
import pytest

from config.devserver.embedded import EmbeddedServers
from config.devserver.embedded.processes import is_alive, wait_until
from tests.e2e.product import Product, free_port, launch, remove, running_product
from tests.support.processes import command_line, process_name

READY_SECONDS = 180
GONE_SECONDS = 30
REFUSED_SECONDS = 90
SERVERS = {"postgres", "redis-server"}
STAYS = """import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("SIGTERM is ignored", flush=True)
signal.pause()"""
BUSY = [sys.executable, "-c", STAYS]
USERS = "from django.contrib.auth.models import User"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with a_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def instance(home: Path) -> Iterator[Product]:
    with started(home) as running:
        yield running


@pytest.fixture(scope="module")
def other() -> Iterator[Product]:
    """A second instance, beside the first; the last test kills it."""
    with a_home() as home, started(home) as running:
        yield running


@contextmanager
def a_home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="holdpoint-run-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        remove(EmbeddedServers(folder))


@contextmanager
def started(home: Path, port: int | None = None) -> Iterator[Product]:
    running = launch(home, port or free_port())
    try:
        running.wait_for_line("is ready", READY_SECONDS)
        yield running
    finally:
        if running.process.poll() is None:
            running.stop()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (urllib.error.URLError, OSError):
        return 0


def children_of(instance: Product) -> list[psutil.Process]:
    return psutil.Process(instance.process.pid).children(recursive=True)


def test_the_start_prints_address_and_accounts(instance: Product) -> None:
    text = "\n".join(instance.lines)
    assert f"Holdpoint is ready: {instance.address}/" in text
    for user in ("admin", "reviewer", "reviewer2", "auditor", "operator"):
        assert f"\n{user} " in text
    assert wait_until(lambda: status(f"{instance.address}/readyz") == 200, 90)


def test_a_killed_database_comes_back(instance: Product) -> None:
    process = instance.servers.postgres.process()
    assert process is not None
    process.kill()
    instance.wait_for_line("postgres had died and was started again")
    assert wait_until(lambda: status(f"{instance.address}/readyz") == 200, 90)


def test_a_killed_redis_comes_back(instance: Product) -> None:
    process = instance.servers.redis.process()
    assert process is not None
    process.kill()
    instance.wait_for_line("redis had died and was started again")
    assert wait_until(lambda: status(f"{instance.address}/readyz") == 200, 90)


def test_a_second_supervisor_on_the_same_home_is_refused(instance: Product, home: Path) -> None:
    second = launch(home, free_port())
    assert second.process.wait(REFUSED_SECONDS) == 1
    second.wait_for_line(f"already runs on {home} (process {instance.process.pid})")
    assert status(f"{instance.address}/livez") == 200


def test_a_port_in_use_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = launch(tmp_path, port)
        assert refused.process.wait(REFUSED_SECONDS) == 1
        refused.wait_for_line(f"HOLDPOINT_PORT={min(port + 1, 65535)} make run")
    assert refused.servers.postgres.process() is None


def test_a_start_that_has_to_be_killed_leaves_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[EmbeddedServers] = []

    def busy(home: Path, port: int) -> Product:
        """One that has started its servers and takes too long to end."""
        servers.append(EmbeddedServers(home))
        servers[0].start()
        made = Product(home, port, {}, subprocess.Popen(BUSY, stdout=subprocess.PIPE, text=True))
        threading.Thread(target=made.read, daemon=True).start()
        made.wait_for_line("SIGTERM is ignored")
        return made

    monkeypatch.setattr("tests.e2e.product.launch", busy)
    monkeypatch.setattr("tests.e2e.product.START_SECONDS", 0)
    monkeypatch.setattr(Product, "stop", partialmethod(Product.stop, seconds=0.1))
    with pytest.raises(subprocess.TimeoutExpired), running_product():
        pass
    (found,) = servers
    assert found.postgres.process() is None
    assert found.redis.process() is None
    assert not found.layout.home.exists()


def test_two_instances_side_by_side(instance: Product, other: Product) -> None:
    for each in (instance, other):
        assert wait_until(lambda each=each: status(f"{each.address}/readyz") == 200, 90)
    assert other.servers.layout.urls.redis != instance.servers.layout.urls.redis


def test_the_supervisor_recovers_after_a_kill_and_stops(other: Product) -> None:
    """All but the databases end with a killed supervisor; the next start finds their rows."""
    other.manage("shell", "-c", f"{USERS}; User.objects.create(username='kept')")
    left = [child for child in children_of(other) if process_name(child) not in SERVERS]
    other.process.kill()
    other.process.wait(GONE_SECONDS)
    assert wait_until(lambda: not any(is_alive(process) for process in left), GONE_SECONDS)
    with started(other.home, other.port) as second:
        count = f"{USERS}; print(User.objects.filter(username='kept').count())"
        assert second.manage("shell", "-v", "0", "-c", count).strip() == "1"
        everything = children_of(second)
        assert second.stop() == 0
    assert wait_until(lambda: not any(is_alive(process) for process in everything), GONE_SECONDS)
    assert second.servers.postgres.process() is None
    assert second.servers.redis.process() is None


def test_a_killed_web_process_ends_everything(instance: Product) -> None:
    everything = children_of(instance)
    next(child for child in everything if "daphne" in command_line(child)).kill()
    assert instance.process.wait(GONE_SECONDS) == 1
    assert wait_until(lambda: not any(is_alive(process) for process in everything), GONE_SECONDS)
    assert instance.servers.postgres.process() is None
    assert instance.servers.redis.process() is None
