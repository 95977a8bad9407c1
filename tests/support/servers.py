"""The PostgreSQL and Redis of one test run."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import psutil

from config.devserver.embedded import EmbeddedServers, Layout

OURS = re.compile(r"holdpoint-test-(\d+)")


def start() -> None:
    """Starts them, or finds them started by another xdist worker of this run."""
    home = Path(os.environ["HOLDPOINT_TEST_HOME"])
    servers = EmbeddedServers(home, durable=False)
    if not servers.layout.logs.exists():
        remove_leftovers()
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o711)  # the account that runs PostgreSQL must be able to walk in
    servers.start()


def database_url(role: str, database: str) -> str:
    """The address of a database of this run's PostgreSQL for one of its roles."""
    return Layout.of(os.environ["HOLDPOINT_TEST_HOME"]).database_url(role, database)


def stop(home: Path) -> None:
    """Ends them by pid and removes the folder."""
    if not home.exists():
        return
    servers = EmbeddedServers(home, durable=False)
    servers.stop()
    for folder in {servers.layout.base, servers.layout.sockets, home}:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers() -> None:
    """Ends what a killed test run left behind: its folder names a process that is gone."""
    for home in Path(tempfile.gettempdir()).glob("holdpoint-test-*"):
        match = OURS.fullmatch(home.name)
        if match and not psutil.pid_exists(int(match[1])):
            stop(home)
