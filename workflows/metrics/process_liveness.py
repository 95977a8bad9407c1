"""Signs of life that other processes can read: kept in Redis, by Redis' clock."""

from __future__ import annotations

from collections.abc import Mapping

import django_rq

_KEPT_SECONDS = 3600


def heartbeat(name: str) -> None:
    """Say that the process `name` has just done its round."""
    connection = django_rq.get_connection("default")
    seconds, _ = connection.time()
    connection.set(f"holdpoint:beat:{name}", seconds, ex=_KEPT_SECONDS)


def heartbeat_age(name: str) -> float | None:
    """Seconds since the last beat of `name`; None when there was none within the hour."""
    connection = django_rq.get_connection("default")
    found = connection.get(f"holdpoint:beat:{name}")
    if found is None:
        return None
    seconds, micros = connection.time()
    return float(seconds + micros / 1e6 - float(found))


def report_failing(name: str, parts: Mapping[str, int]) -> None:
    """Say which parts of the process `name` fail, and for how many rounds in a row."""
    connection = django_rq.get_connection("default")
    key = f"holdpoint:failing:{name}"
    with connection.pipeline() as pipeline:
        pipeline.delete(key)
        if parts:
            for part, rounds in parts.items():
                pipeline.hset(key, part, str(rounds))
            pipeline.expire(key, _KEPT_SECONDS)
        pipeline.execute()


def failing_parts(name: str) -> dict[str, int]:
    """The failing parts of `name` with their rounds in a row, as it last reported them."""
    connection = django_rq.get_connection("default")
    rows = connection.hgetall(f"holdpoint:failing:{name}")
    return {_text(part): int(rounds) for part, rounds in rows.items()}


def report_count(name: str, process: str, number: int) -> None:
    """Say how many `name` this process has now; forgotten after a minute without a word."""
    connection = django_rq.get_connection("default")
    seconds, _ = connection.time()
    with connection.pipeline() as pipeline:
        pipeline.hset(f"holdpoint:count:{name}", process, f"{number}@{seconds}")
        pipeline.expire(f"holdpoint:count:{name}", _KEPT_SECONDS)
        pipeline.execute()


def total_count(name: str, *, fresh_seconds: int = 60) -> int:
    """How many all processes have together."""
    connection = django_rq.get_connection("default")
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
