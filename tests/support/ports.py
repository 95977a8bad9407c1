"""Ports for servers that a test starts as processes."""

import random
import socket
from contextlib import suppress

#: Below the ports that Linux gives to outgoing connections and to servers that ask for any port.
#: One of those may be taken again while the process that it is meant for starts.
_PORTS = range(12_000, 32_000)


def free_port() -> int:
    """Return a port on which nobody listens."""
    chance = random.SystemRandom()  # the workers of a run must not try the same ports
    while True:
        port = chance.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
