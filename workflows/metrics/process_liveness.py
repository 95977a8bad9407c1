"""Heartbeats and counts that processes report to each other in Redis, by Redis' clock."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import django_rq
from redis import Redis

_TTL_SECONDS = 3600


# Never stale: the connection pool reconnects by itself.
@cache
def _connection() -> Redis:
    return django_rq.get_connection("default")


def heartbeat(name: str) -> None:
    """Report that the process `name` is alive."""
    connection = _connection()
    seconds, _ = connection.time()
    connection.set(f"holdpoint:beat:{name}", seconds, ex=_TTL_SECONDS)


def heartbeat_age(name: str) -> float | None:
    """Return the seconds since the last heartbeat of `name`; None if it is over an hour old."""
    connection = _connection()
    beat = connection.get(f"holdpoint:beat:{name}")
    if beat is None:
        return None
    seconds, micros = connection.time()
    return float(seconds + micros / 1e6 - float(beat))


def report_failing(name: str, parts: Mapping[str, int]) -> None:
    """Report which parts of the process `name` fail, and for how many rounds in a row."""
    connection = _connection()
    key = f"holdpoint:failing:{name}"
    with connection.pipeline() as pipeline:
        pipeline.delete(key)
        if parts:
            for part, rounds in parts.items():
                pipeline.hset(key, part, str(rounds))
            pipeline.expire(key, _TTL_SECONDS)
        pipeline.execute()


def failing_parts(name: str) -> dict[str, int]:
    """Return the failing parts of `name`, each with its failed rounds in a row."""
    connection = _connection()
    rows = connection.hgetall(f"holdpoint:failing:{name}")
    return {_text(part): int(rounds) for part, rounds in rows.items()}


def report_count(name: str, process: str, number: int) -> None:
    """Report how many `name` this process has now; the report expires after a minute."""
    connection = _connection()
    seconds, _ = connection.time()
    with connection.pipeline() as pipeline:
        pipeline.hset(f"holdpoint:count:{name}", process, f"{number}@{seconds}")
        pipeline.expire(f"holdpoint:count:{name}", _TTL_SECONDS)
        pipeline.execute()


def total_count(name: str, *, fresh_seconds: int = 60) -> int:
    """Return the sum of what all processes reported."""
    connection = _connection()
    seconds, _ = connection.time()
    total = 0
    for process, value in connection.hgetall(f"holdpoint:count:{name}").items():
        number, _, at = _text(value).partition("@")
        if seconds - int(at) <= fresh_seconds:
            total += int(number)
        else:
            connection.hdel(f"holdpoint:count:{name}", process)
    return total


def _text(value: bytes | str) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value
