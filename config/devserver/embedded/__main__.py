"""`python -m config.devserver.embedded watch|stop|remove`: the servers and their data."""

import argparse
import shutil
import sys
import time
from typing import NoReturn

from config.devserver.embedded import EmbeddedError, EmbeddedServers
from config.devserver.preflight import StartRefused, only_one
from config.settings.topics import Installation
from workflows.common.parent_death import end_with_starter

WATCH_SECONDS = 1.0
FAILED_SECONDS = 5.0  # pause after a start that failed


def remove(servers: EmbeddedServers) -> None:
    """Deletes everything below the home, and the stand-in folders outside of it."""
    layout = servers.layout
    for folder in (layout.data, layout.sockets, layout.home):
        shutil.rmtree(folder, ignore_errors=True)


def watch(servers: EmbeddedServers) -> NoReturn:
    """Start a server again that was killed; the supervisor ends this process."""
    end_with_starter()
    while True:
        time.sleep(WATCH_SECONDS)
        try:
            for name in servers.repair():
                sys.stdout.write(f"{name} had died and was started again\n")
        except EmbeddedError as error:
            sys.stdout.write(f"{error}\n")
            time.sleep(FAILED_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m config.devserver.embedded", description=__doc__
    )
    parser.add_argument("action", choices=["watch", "stop", "remove"])
    action = parser.parse_args().action
    servers = EmbeddedServers(Installation.read().home)
    if not servers.layout.home.exists():
        return 0
    try:
        if action == "watch":
            watch(servers)
        with only_one(servers.layout.home):
            servers.stop()
            if action == "remove":
                remove(servers)
    except (StartRefused, EmbeddedError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
