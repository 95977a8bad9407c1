"""One real instance: the supervisor in a folder and on a port of its own."""

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from config.devserver.embedded import EmbeddedServers
from tests.architecture.files import ROOT
from tests.e2e.standing import Standing
from tests.support.ports import free_port
from tests.support.processes import ending_with_us

START_SECONDS = 300
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "SSL_CERT_FILE")


@dataclass
class Product:
    """A running instance. `lines` is everything its console said so far."""

    home: Path
    port: int
    env: dict[str, str]
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _news: "queue.Queue[str | None]" = field(default_factory=queue.Queue)
    #: Runs a command of `manage.py` and gives its output, in a process that stays.
    command: Standing = field(init=False)

    def __post_init__(self) -> None:
        self.command = Standing(self.env)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def servers(self) -> EmbeddedServers:
        return EmbeddedServers(self.home)

    def manage(self, *arguments: str) -> str:
        """Runs `manage.py` against this instance, as a process of its own; its standard output."""
        command = [sys.executable, "manage.py", *arguments]
        result = subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def wait_for_line(self, text: str, seconds: float = 60) -> str:
        """The next console line that contains `text`."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._news.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                break
            if text in line:
                return line
        raise AssertionError(f"No line with {text!r} came:\n" + "\n".join(self.lines[-60:]))

    def read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
                self._news.put(self.lines[-1])
        self._news.put(None)

    def stop(self, seconds: float = 30) -> int:
        """SIGTERM, as a service manager would; the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def launch(home: Path, port: int, **extra: str) -> Product:
    """Starts the supervisor; does not wait until it is ready."""
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    env |= {
        "HOLDPOINT_HOME": str(home),
        "HOLDPOINT_PORT": str(port),
        "HOLDPOINT_ANSWER_LINK_HOURS": "24",
        "PYTHONUNBUFFERED": "1",
    } | extra
    process = subprocess.Popen(
        ending_with_us([sys.executable, "-m", "config.devserver.supervisor"]),
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    product = Product(home, port, env, process)
    threading.Thread(target=product.read, daemon=True).start()
    return product


@contextmanager
def running_product(**extra: str) -> Iterator[Product]:
    """A ready instance in a folder of its own, gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="holdpoint-e2e-"))
    home.chmod(0o711)
    product = launch(home, free_port(), **extra)
    try:
        product.wait_for_line("is ready", START_SECONDS)
        yield product
    finally:
        try:
            product.command.close()
            if product.process.poll() is None:
                product.stop()
        finally:
            remove(product.servers)


def remove(servers: EmbeddedServers) -> None:
    servers.stop()
    for folder in (servers.layout.base, servers.layout.sockets, servers.layout.home):
        shutil.rmtree(folder, ignore_errors=True)
