"""`python -m config.devserver.supervisor`: the whole product on one machine, from one terminal.

Starts PostgreSQL and Redis (unless DATABASE_URL and REDIS_URL point to others), migrates, and keeps
daphne, the worker pool and the sweeper alive. Ctrl-C or SIGTERM stops them in order: first the
processes that accept work, last the databases.
"""

import os
import signal
import sys
import threading
import time
from types import FrameType

from django.core.exceptions import ImproperlyConfigured

from config.devserver.embedded import EmbeddedError
from config.devserver.supervision.child_process import STOP_SECONDS, Child
from config.devserver.supervision.console import Console
from config.devserver.supervision.plan import Plan, read_plan
from config.devserver.supervision.preflight_checks import (
    StartRefused,
    check_port,
    end_leftovers,
    only_one,
    remember,
)
from config.devserver.supervision.prepare import answers, deadline, prepare, start_servers

START_TICK = 0.1  # interval for checking the children until the product is ready
TICK = 1.0  # the same afterwards
REMEMBER_SECONDS = 10.0  # interval for storing the ids of all processes


class Supervisor:
    """Runs the processes of a `Plan` until SIGINT or SIGTERM."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._stopping = threading.Event()
        self._children: list[Child] = []
        self._remembered = 0.0

    def run(self) -> None:
        """Run until SIGINT or SIGTERM; raises `StartRefused` or `EmbeddedError`."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)
        with only_one(self._plan.home):
            ended = end_leftovers(self._plan.home)
            if ended:
                self._console.say(f"ended what an earlier start that was killed had left: {ended}")
            check_port(self._plan.host, self._plan.port)
            try:
                self._start()
                self._watch()
            finally:
                self._shut_down()

    def _start(self) -> None:
        if self._plan.servers is not None:
            self._console.say(f"starting PostgreSQL and Redis below {self._plan.home}")
            start_servers(self._plan, self._console)
        logins = prepare(self._plan, self._console)
        if self._stopping.is_set():
            return
        for name, command, env, companion in self._plan.children():
            self._children.append(Child(name, command, env, self._console, companion))
            self._children[-1].start()
        self._remember()
        self._wait_until_ready(logins)

    def _wait_until_ready(self, logins: str) -> None:
        latest = deadline()
        while not self._stopping.is_set():
            if answers(self._plan):
                self._welcome(logins)
                return
            if time.monotonic() > latest:
                raise StartRefused("The web process does not answer; see its lines above.")
            self._tend(START_TICK)

    def _welcome(self, logins: str) -> None:
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            self._console.say(
                "running as root: code of tasks runs as root behind the sandbox's walls; in "
                "production run the workers as a user of their own"
            )
        self._console.block(
            f"Holdpoint is ready: {self._plan.address}/\n\n{logins}\n"
            f"Data is kept in {self._plan.home}. Ctrl-C stops everything."
        )

    def _watch(self) -> None:
        while not self._stopping.is_set():
            self._tend(TICK)

    def _tend(self, seconds: float) -> None:
        """Check servers and children after a while, and restart those that have ended."""
        self._stopping.wait(seconds)
        if self._stopping.is_set():
            return
        self._repair_servers()
        before = [child.pid for child in self._children]
        for child in self._children:
            child.keep_alive()
        changed = before != [child.pid for child in self._children]
        if changed or time.monotonic() - self._remembered > REMEMBER_SECONDS:
            self._remember()

    def _repair_servers(self) -> None:
        if self._plan.servers is None:
            return
        try:
            for name in self._plan.servers.repair():
                self._console.line("database", f"{name} had died and was started again")
        except EmbeddedError as error:
            self._console.line("database", f"{error}")
            self._stopping.wait(5)

    def _remember(self) -> None:
        """Store the ids of all processes, for the next start in case this one is killed."""
        self._remembered = time.monotonic()
        remember(self._plan.home, [pid for child in self._children for pid in child.pids()])

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # Prints nothing: the signal may come while this thread holds the lock of the console.
        self._stopping.set()

    def _shut_down(self) -> None:
        if self._stopping.is_set():
            self._console.say("stopping")
        latest = time.monotonic() + STOP_SECONDS
        for child in reversed(self._children):
            child.ask_to_stop()
        for child in reversed(self._children):
            child.wait(latest)
        if self._plan.servers is not None:
            self._plan.servers.stop()
        (self._plan.home / "children.json").unlink(missing_ok=True)
        self._console.say("stopped")


def main() -> int:
    console = Console()
    try:
        Supervisor(read_plan(), console).run()
    except (StartRefused, EmbeddedError, ImproperlyConfigured) as error:
        console.say(f"{error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
