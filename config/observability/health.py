"""Health checks: `/livez` (the process answers) and `/readyz` (its dependencies work)."""

import time
from collections.abc import Callable
from typing import Any

import redis
from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from config.observability.alive import SWEEPER_SECONDS
from workflows.executions import dispatch
from workflows.metrics import process_liveness

Check = dict[str, Any]


@never_cache
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """200 `ok`, without touching a database."""
    return HttpResponse("ok", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when every check is fine, else 503.

    {"status": "ready", "checks": {"postgres": {"ok": true, "ms": 1}, "redis": {…},
     "sweeper": {"ok": true, "age_seconds": 1.5, "failing": 0},
     "queues": {"ok": true, "depth": {"default": 0}}}}
    """
    checks = {"postgres": _timed(_postgres), "redis": _timed(_redis)}
    if checks["redis"]["ok"]:
        checks |= {"sweeper": _guarded(_sweeper), "queues": _guarded(_queues)}
    else:
        unknown = {"ok": False, "error": "unknown without Redis"}
        checks |= {"sweeper": unknown, "queues": unknown}
    fine = all(each["ok"] for each in checks.values())
    body = {"status": "ready" if fine else "not ready", "checks": checks}
    return JsonResponse(body, status=200 if fine else 503)


def _timed(ask: Callable[[], None]) -> Check:
    started = time.monotonic()
    try:
        ask()
    except (Error, redis.RedisError, OSError) as error:
        # Only the class of the error: messages may contain addresses and user names.
        return {"ok": False, "error": type(error).__name__}
    return {"ok": True, "ms": round((time.monotonic() - started) * 1000)}


def _guarded(check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (redis.RedisError, OSError) as error:
        return {"ok": False, "error": type(error).__name__}


def _postgres() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()


def _redis() -> None:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    try:
        client.ping()
    finally:
        client.close()


def _sweeper() -> Check:
    """Check the sweeper: without it, lost work is not recovered and no deadline takes effect."""
    age = process_liveness.heartbeat_age("sweeper")
    if age is None:
        return {"ok": False, "error": "no sign of life within the hour", "age_seconds": None}
    return {
        "ok": age <= SWEEPER_SECONDS,
        "age_seconds": round(age, 1),
        # Failing parts do not make a web process unready; /metrics reports them.
        "failing": len(process_liveness.failing_parts("sweeper")),
    }


def _queues() -> Check:
    depth = {name: dispatch.queue_length(name) for name in settings.RQ_QUEUES}
    return {"ok": depth["default"] <= settings.HOLDPOINT["ready_queue_depth"], "depth": depth}
