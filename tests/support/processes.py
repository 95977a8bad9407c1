"""Real worker and sweeper processes, stopped by the test that started them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import psutil
from django.conf import settings
from django.db import connection

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


def wait_for(condition: Callable[[], T | None], *, seconds: float = 120, what: str = "") -> T:
    """What `condition` returns once it is true; fails when it is not within `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what or condition}")


def database_url() -> str:
    """The address of the present test database."""
    values = connection.settings_dict
    query = urlencode({"host": values["HOST"], "port": values["PORT"]})
    account = f"{quote(values['USER'])}:{quote(values['PASSWORD'])}"
    return f"postgresql://{account}@/{values['NAME']}?{query}"


def environment(**more: str) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.support.process_settings",
        "DATABASE_URL": database_url(),
        "REDIS_URL": settings.REDIS_URL,
        **more,
    }


def ending_with_us(command: Sequence[str]) -> list[str]:
    """Return the command of a process that gets SIGTERM when this process is killed (Linux).

    The kernel watches the thread that starts the process: let it be the main thread.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", *command] if setpriv else [*command]


def process_name(process: psutil.Process) -> str:
    """The name of a process; "" when it has ended."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def command_line(process: psutil.Process) -> list[str]:
    """The words of the command of a process; none when it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def start(*arguments: str, **more: str) -> subprocess.Popen[bytes]:
    """`manage.py` with these arguments, in a process group of its own."""
    return subprocess.Popen(
        ending_with_us([sys.executable, "manage.py", *arguments, "--skip-checks"]),
        cwd=ROOT,
        env=environment(**more),
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and all it started."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for each in family[1:]:
        if each.is_running():
            each.kill()


@contextmanager
def engine_processes(workers: int = 2, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker pool and a sweeper; yields the pool's process."""
    pool = start("run_workers", "--workers", str(workers), HOLDPOINT_ROLE="worker", **more)
    sweeper = start("run_sweeper", HOLDPOINT_ROLE="sweeper", **more)
    try:
        yield pool
    finally:
        end(pool)
        end(sweeper)


def worker_pids(pool: subprocess.Popen[bytes]) -> list[int]:
    """Pids of the pool's workers."""
    return [child.pid for child in psutil.Process(pool.pid).children()]
