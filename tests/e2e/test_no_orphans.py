"""`kill -9` of every kind of process: no orphan remains after a few seconds."""

import os
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from config.devserver.embedded.processes import is_alive, wait_until
from tests.e2e.product import Product, running_product
from tests.support.processes import command_line, process_name

DATABASES = {"postgres", "redis-server"}
GONE_SECONDS = 30  # a few on a machine that is not busy
BACK_SECONDS = 60
KINDS = ("daphne", "run_workers", "run_sweeper")
#: A program without end in each language of the sandbox.
ENDLESS = (
    ("typescript", "while (true) {}\nreturn 0"),
    ("python", "while True:\n    pass"),
)


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with running_product(HOLDPOINT_WORKERS="2", HOLDPOINT_CATALOGUE_SECONDS="2") as running:
        yield running


@pytest.fixture
def mortal() -> Iterator[Product]:
    """A product of its own for a test that ends it."""
    with running_product(HOLDPOINT_WORKERS="2", HOLDPOINT_CATALOGUE_SECONDS="2") as running:
        yield running


def everything(product: Product) -> list[psutil.Process]:
    """All processes of the product but the databases and the supervisor."""
    found = psutil.Process(product.process.pid).children(recursive=True)
    return [each for each in found if process_name(each) not in DATABASES]


def command(process: psutil.Process) -> str:
    return " ".join(command_line(process))


def below(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def supervised(product: Product, what: str) -> list[psutil.Process]:
    """The processes of the supervisor, each below one of honcho, whose command names `what`."""
    readers = psutil.Process(product.process.pid).children()
    found = [each for reader in readers for each in reader.children()]
    return [each for each in found if what in command(each)]


def workers(product: Product) -> list[psutil.Process]:
    return [
        each
        for pool in supervised(product, "run_workers")
        for each in pool.children()
        if "run_workers" in command(each)
    ]


def busy(product: Product, names: set[str]) -> list[psutil.Process]:
    """Sandboxed programs that are at work."""
    return [
        each
        for worker in workers(product)
        for each in worker.children()
        if process_name(each) in names and each.cpu_times().user > 0.3
    ]


def run_for_ever(product: Product, seconds: int = 120) -> None:
    """Start a run with an endless program in each language, and wait until both are at work."""
    tasks = [
        {"id": language, "type": "code_execution", "language": language, "code": code,
         "timeout_seconds": seconds}
        for language, code in ENDLESS
    ]  # fmt: skip
    start = "from workflows.executions.services import start_execution"
    product.manage(
        "shell",
        "-v",
        "0",
        "-c",
        f"{start}; start_execution(actor=None, plan={{'tasks': {tasks!r}}})",
    )
    wait(
        lambda: (
            {process_name(each) for each in busy(product, {"deno", "monty"})} == {"deno", "monty"}
        )
    )


def wait(condition: Callable[[], bool], seconds: float = BACK_SECONDS) -> None:
    def safely() -> bool:
        try:
            return condition()
        except psutil.NoSuchProcess:
            return False

    assert wait_until(safely, seconds)


def kill(process: psutil.Process) -> list[psutil.Process]:
    """Kill it; what is left of it and of all that was below it, a few seconds later."""
    family = below(process)
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, family)), GONE_SECONDS)
    return [each for each in family if is_alive(each)]


def is_whole(product: Product) -> bool:
    """One of each kind, and two workers: none missing, none too many."""
    return all(len(supervised(product, kind)) == 1 for kind in KINDS) and len(workers(product)) == 2


def test_a_killed_worker_ends_its_programs(product: Product) -> None:
    wait(lambda: is_whole(product))
    run_for_ever(product)
    programs = busy(product, {"deno", "monty"})
    for worker in {program.parent().pid for program in programs}:
        assert kill(psutil.Process(worker)) == []
    wait(lambda: is_whole(product))


def test_a_killed_mcp_server_leaves_no_helper_and_a_killed_guard_no_server(
    product: Product,
) -> None:
    def guards() -> list[psutil.Process]:
        found = [each for each in everything(product) if "stdio_guard.py" in command(each)]
        return [each for each in found if each.children()]

    wait(lambda: len(guards()) >= 1)
    guard = guards()[0]
    [server] = guard.children()
    family = below(guard)
    os.kill(server.pid, signal.SIGKILL)
    assert wait_until(lambda: not any(map(is_alive, family)), GONE_SECONDS), family
    wait(lambda: len(guards()) >= 1)
    assert kill(guards()[0]) == []
    wait(lambda: is_whole(product))


@pytest.mark.parametrize("what", KINDS)
def test_a_killed_process_ends_the_product(mortal: Product, what: str) -> None:
    wait(lambda: is_whole(mortal))
    run_for_ever(mortal)
    family = everything(mortal)
    [process] = supervised(mortal, what)
    assert what != "run_workers" or len(below(process)) > 5
    assert kill(process) == []
    assert mortal.process.wait(GONE_SECONDS) == 1
    wait_until(lambda: not any(map(is_alive, family)), GONE_SECONDS)
    assert [command(each) for each in family if is_alive(each)] == []
    assert mortal.servers.postgres.process() is None
    assert mortal.servers.redis.process() is None


def test_a_killed_supervisor_ends_everything_except_the_databases(mortal: Product) -> None:
    run_for_ever(mortal)
    wait(lambda: len(everything(mortal)) > 8)
    family = everything(mortal)
    os.kill(mortal.process.pid, signal.SIGKILL)
    mortal.process.wait()
    wait_until(lambda: not any(map(is_alive, family)), GONE_SECONDS)
    assert [command(each) for each in family if is_alive(each)] == []
    assert mortal.servers.postgres.process() is not None
    assert mortal.servers.redis.process() is not None
