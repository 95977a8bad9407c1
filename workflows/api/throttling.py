"""How many requests a token, or a person without one, may send in a minute.

Counted in Redis, so that all web processes count together.  Without Redis nobody is counted: an
answer matters more than a limit.
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
#: What Redis may take before a request goes on uncounted.
_REDIS_SECONDS = 0.5

logger = logging.getLogger(__name__)


class MinuteThrottle(BaseThrottle):
    """Limits per minute: for everything, and a lower one for what starts or decides.

    A view's `throttle_scope` is "start" or "decide"; it counts for what is not only read.
    `wait` says when the present minute ends.
    """

    def allow_request(self, request: Request, view: Any) -> bool:
        who = _who(request)
        if who is None:
            return True
        kinds = ["any"]
        own = getattr(view, "throttle_scope", None)
        if own is not None and request.method not in SAFE_METHODS:
            kinds.append(own)
        self._left = count_requests(who, kinds)
        return not self._left

    def wait(self) -> float:
        return self._left


def count_requests(who: str, kinds: Iterable[str]) -> float:
    """Count one request of each kind for `who`; 0, or the seconds until there are some again."""
    limits = {kind: conf.requests_per_minute(kind) for kind in kinds}
    limited = {kind: most for kind, most in limits.items() if most}
    now = time.time()
    minute = int(now // WINDOW_SECONDS)
    counts = _counted([f"holdpoint:throttle:{who}:{kind}:{minute}" for kind in limited])
    over = any(count > most for count, most in zip(counts, limited.values(), strict=False))
    return WINDOW_SECONDS - now % WINDOW_SECONDS if over else 0.0


def token_throttle_key(token_id: int) -> str:
    """Under which name a token's requests are counted, through whichever door they come."""
    return f"token-{token_id}"


def _who(request: Request) -> str | None:
    if isinstance(request.auth, ApiToken):
        return token_throttle_key(request.auth.pk)
    return f"user-{request.user.pk}" if request.user.is_authenticated else None


def _counted(keys: list[str]) -> list[int]:
    """One more for each of the keys; how many that makes.  Nothing while Redis is away."""
    if not keys:
        return []
    pipeline = _redis(settings.REDIS_URL).pipeline(transaction=False)
    for key in keys:
        pipeline.incr(key)
        pipeline.expire(key, 2 * WINDOW_SECONDS)
    try:
        return [int(count) for count in pipeline.execute()[::2]]
    except (redis.RedisError, OSError) as error:
        logger.warning("requests are not counted: %s", error)
        return []


@lru_cache(maxsize=4)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS
    )
