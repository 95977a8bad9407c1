"""`/livez`: this process answers. `/readyz`: it can also do its work."""

import redis
from django.conf import settings
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@never_cache
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """200 `ok`, without touching a database."""
    return HttpResponse("ok", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when PostgreSQL and Redis answer, else 503; the body says which one does not."""
    checks = {"postgres": _postgres_answers(), "redis": _redis_answers()}
    return JsonResponse(checks, status=200 if all(checks.values()) else 503)


def _postgres_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() is not None
    except OperationalError:
        return False


def _redis_answers() -> bool:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()
