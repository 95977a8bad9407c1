"""`python -m config.embedded stop|remove`: ends the servers of HOLDPOINT_HOME; removes its data."""

import argparse
import shutil
import sys

from config.embedded import EmbeddedServers
from config.env import env_path
from config.paths import DEFAULT_HOME
from config.supervision.guards import StartRefused, only_one


def remove(servers: EmbeddedServers) -> None:
    """Deletes everything below the home, and the stand-in folders outside of it."""
    layout = servers.layout
    for folder in (layout.data, layout.sockets, layout.home):
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m config.embedded", description=__doc__)
    parser.add_argument("action", choices=["stop", "remove"])
    action = parser.parse_args().action
    servers = EmbeddedServers(env_path("HOLDPOINT_HOME", DEFAULT_HOME))
    if not servers.layout.home.exists():
        return 0
    try:
        with only_one(servers.layout.home):
            servers.stop()
            if action == "remove":
                remove(servers)
    except StartRefused as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
