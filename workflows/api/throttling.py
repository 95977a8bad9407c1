"""Limit the requests per minute of a token, or of a user without a token, and other attempts.

The counters are in Redis and shared by all web processes. While Redis is unavailable, requests are
not limited: availability matters more than the limit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from workflows import conf
from workflows.models import ApiToken

WINDOW_SECONDS = 60
#: Timeout of Redis, after which a request is not counted.
_REDIS_SECONDS = 0.5

logger = logging.getLogger(__name__)


class MinuteThrottle(BaseThrottle):
    """Limits per minute: for all requests, and lower ones for starts and decisions.

    A view's `throttle_scope` is "start" or "decide"; it applies to unsafe methods. `wait` returns
    the seconds until the current minute ends.
    """

    def allow_request(self, request: Request, view: Any) -> bool:
        key = _throttle_key(request)
        if key is None:
            return True
        kinds = ["any"]
        view_scope = getattr(view, "throttle_scope", None)
        if view_scope is not None and request.method not in SAFE_METHODS:
            kinds.append(view_scope)
        self._left = count_requests(key, kinds)
        return not self._left

    def wait(self) -> float:
        return self._left


def count_requests(key: str, kinds: Iterable[str]) -> float:
    """Count one request of each kind; return 0, or above a limit the seconds until it resets."""
    limits = {kind: conf.requests_per_minute(kind) for kind in kinds}
    limited = {kind: limit for kind, limit in limits.items() if limit}
    now = time.time()
    minute = int(now // WINDOW_SECONDS)
    keys = [f"holdpoint:throttle:{key}:{kind}:{minute}" for kind in limited]
    counts = _increment(keys, WINDOW_SECONDS)
    over = any(count > limit for count, limit in zip(counts, limited.values(), strict=False))
    return WINDOW_SECONDS - now % WINDOW_SECONDS if over else 0.0


def is_attempt_allowed(key: str, limit: int, *, seconds: int) -> bool:
    """Count one attempt; return whether there were at most `limit` in this window of `seconds`."""
    window = int(time.time() // seconds)
    counts = _increment([f"holdpoint:throttle:{key}:{window}"], seconds)
    return all(count <= limit for count in counts)


def token_throttle_key(token_id: int) -> str:
    """Return the throttle key of a token, for REST and MCP."""
    return f"token-{token_id}"


def _throttle_key(request: Request) -> str | None:
    if isinstance(request.auth, ApiToken):
        return token_throttle_key(request.auth.pk)
    return f"user-{request.user.pk}" if request.user.is_authenticated else None


def _increment(keys: list[str], seconds: int) -> list[int]:
    """Increment counters of a window and return them; return [] while Redis is unavailable."""
    if not keys:
        return []
    pipeline = _redis(settings.REDIS_URL).pipeline(transaction=False)
    for key in keys:
        pipeline.incr(key)
        pipeline.expire(key, 2 * seconds)
    try:
        return [int(count) for count in pipeline.execute()[::2]]
    except (redis.RedisError, OSError) as error:
        logger.warning("requests are not counted: %s", error)
        return []


# Keyed by the URL; there is one per process, never invalidated.
@lru_cache(maxsize=4)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS
    )
