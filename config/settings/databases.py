"""`DATABASE_URL` as Django's `DATABASES` entry.

    postgres://user:password@host:5432/name?sslmode=require
    postgres://user@/name?host=/folder/of/the/socket
    postgres://user@%2Ffolder%2Fof%2Fthe%2Fsocket/name

Every part is percent-decoded. Query parameters other than `host` and `port` go to libpq as they
are (`sslmode`, `connect_timeout`, `application_name`, ...).
"""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from config.database.pool import reset_connection

SCHEMES = frozenset({"postgres", "postgresql"})


def parse_database_url(
    url: str, *, conn_max_age: int | None = 0, transaction_pooling: bool = False
) -> dict[str, Any]:
    """The settings for `url`; raises `ImproperlyConfigured`, without repeating the password.

    With `transaction_pooling` nothing may outlive a transaction in a session of PostgreSQL: no
    server-side cursors, and no prepared statements (`workflows.journal.prepared_statements`).
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ImproperlyConfigured("DATABASE_URL must start with postgres:// or postgresql://.")
    try:
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured("DATABASE_URL has a port that is not a number.") from None
    name = unquote(parts.path.removeprefix("/"))
    if not name:
        raise ImproperlyConfigured("DATABASE_URL names no database.")
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    host = options.pop("host", "") or _host(parts.netloc)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(options.pop("port", "") or port or ""),
        "CONN_MAX_AGE": conn_max_age,
        "CONN_HEALTH_CHECKS": conn_max_age != 0,
        "DISABLE_SERVER_SIDE_CURSORS": transaction_pooling,
        "OPTIONS": options,
    }


def _host(netloc: str) -> str:
    """The host with its case kept: `urlsplit().hostname` would lower that of a folder."""
    location = netloc.rpartition("@")[2]
    if location.startswith("["):
        return location[1:].partition("]")[0]
    return unquote(location.partition(":")[0])


def with_pool(
    entry: dict[str, Any], *, min_size: int, max_size: int, wait_seconds: float
) -> dict[str, Any]:
    """Return the settings `entry` with Django's connection pool for this process.

    Args:
        entry: settings that `parse_database_url` returned.
        min_size: connections that stay open.
        max_size: connections that may be open at once.
        wait_seconds: how long a request waits for a connection. The pool tries to reach an
            unavailable server for as long, then leaves that to the next request.
    """
    pool = {
        "min_size": min_size,
        "max_size": max_size,
        "timeout": wait_seconds,
        "reconnect_timeout": wait_seconds,
        "name": "holdpoint",
    }
    options = {**entry["OPTIONS"], "pool": pool}
    # PgBouncer refuses connection options, and a reset would reach some session of PostgreSQL.
    if not entry["DISABLE_SERVER_SIDE_CURSORS"]:
        pool["reset"] = reset_connection
        # As a connection option, so that RESET ALL returns to UTC and not to the server's zone.
        options["options"] = f"{options.get('options', '')} -c TimeZone=UTC".strip()
    return {**entry, "CONN_HEALTH_CHECKS": True, "OPTIONS": options}
