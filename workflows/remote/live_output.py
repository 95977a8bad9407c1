"""The output of remote tasks that run, in Redis: the sweeper writes it, pages and REST read it.

It is kept for an hour after the last line was read.  While Redis is unavailable, there is none.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final

import redis
from django.conf import settings

from .output import Output

logger = logging.getLogger(__name__)

_KEPT_SECONDS: Final = 3600
#: Timeout of Redis, after which a page shows no output.
_REDIS_SECONDS: Final = 0.5


def store(outputs: Mapping[str, Output]) -> None:
    """Store the output of calls by their handles."""
    if not outputs:
        return
    pipeline = _redis(settings.REDIS_URL).pipeline(transaction=False)
    for handle, output in outputs.items():
        pipeline.set(_key(handle), output.as_json(), ex=_KEPT_SECONDS)
    try:
        pipeline.execute()
    except (redis.RedisError, OSError) as error:
        logger.warning("the output of remote tasks is not stored: %s", error)


def read(handles: Collection[str]) -> dict[str, Output]:
    """Return the stored output of these calls, by their handles."""
    if not handles:
        return {}
    names = list(handles)
    try:
        texts = _redis(settings.REDIS_URL).mget([_key(name) for name in names])
    except (redis.RedisError, OSError) as error:
        logger.warning("the output of remote tasks cannot be read: %s", error)
        return {}
    found = zip(names, texts, strict=True)
    return {name: Output.of_json(text) for name, text in found if text is not None}


def logs_of(handle: str) -> str:
    """Return the lines of a call, "" if there are none."""
    return read([handle]).get(handle, Output()).logs


def _key(handle: str) -> str:
    return f"holdpoint:remote-output:{sha256(handle.encode()).hexdigest()}"


# Keyed by the URL; there is one per process, never invalidated.
@lru_cache(maxsize=4)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS
    )
