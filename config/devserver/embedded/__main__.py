"""`python -m config.devserver.embedded start|stop|remove`: the embedded servers and their data.

The supervisor starts the servers with this command, so that it need not load their client.
"""

import argparse
import shutil
import sys

from config.devserver.embedded import EmbeddedError, EmbeddedServers
from config.devserver.supervision.preflight_checks import StartRefused, only_one
from config.paths import DEFAULT_HOME
from config.settings.env import env_path


def remove(servers: EmbeddedServers) -> None:
    """Deletes everything below the home, and the stand-in folders outside of it."""
    layout = servers.layout
    for folder in (layout.data, layout.sockets, layout.home):
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m config.devserver.embedded", description=__doc__
    )
    parser.add_argument("action", choices=["start", "stop", "remove"])
    action = parser.parse_args().action
    servers = EmbeddedServers(env_path("HOLDPOINT_HOME", DEFAULT_HOME))
    if action != "start" and not servers.layout.home.exists():
        return 0
    try:
        if action == "start":
            servers.start()
            return 0
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
