"""Signs of life that other processes can read: kept in Redis, by Redis' clock."""

from __future__ import annotations

import django_rq

_KEPT_SECONDS = 3600


def beat(name: str) -> None:
    """Say that the process `name` has just done its round."""
    connection = django_rq.get_connection("default")
    seconds, _ = connection.time()
    connection.set(f"holdpoint:beat:{name}", seconds, ex=_KEPT_SECONDS)


def age(name: str) -> float | None:
    """Seconds since the last beat of `name`; None when there was none within the hour."""
    connection = django_rq.get_connection("default")
    found = connection.get(f"holdpoint:beat:{name}")
    if found is None:
        return None
    seconds, micros = connection.time()
    return float(seconds + micros / 1e6 - float(found))
