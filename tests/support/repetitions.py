"""How often a test tries a race, a crash or chance: more often in `make test-long`."""

import os

LONG = bool(os.environ.get("HOLDPOINT_TEST_LONG"))


def often(usual: int, long: int) -> int:
    """`long` in `make test-long`, `usual` otherwise."""
    return long if LONG else usual
