"""System checks for settings that seem to work and later lose data, work or protection."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections

#: The tag of checks that workers, the sweeper and senders of webhooks run too.
TAG = "holdpoint"
IN_MEMORY_LAYER = "channels.layers.InMemoryChannelLayer"


@register(TAG)
def database_pool(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Refuse a connection pool in roles that fork: two processes would share connections."""
    pooled = [
        name for name, entry in settings.DATABASES.items() if entry.get("OPTIONS", {}).get("pool")
    ]
    if settings.HOLDPOINT_ROLE == "web" or not pooled:
        return []
    return [
        Error(
            f"The {settings.HOLDPOINT_ROLE} role must not use Django's connection pool.",
            hint=f"Remove OPTIONS['pool'] from DATABASES[{pooled[0]!r}]: worker processes fork.",
            id="holdpoint.E001",
        )
    ]


@register(TAG)
def web_connections(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Refuse persistent connections under daphne: they are lost when their thread ends."""
    kept = [name for name, entry in settings.DATABASES.items() if entry.get("CONN_MAX_AGE", 0) != 0]
    if settings.HOLDPOINT_ROLE != "web" or not kept:
        return []
    return [
        Error(
            "The web role must close database connections after each request.",
            hint=f"Set CONN_MAX_AGE to 0 in DATABASES[{kept[0]!r}].",
            id="holdpoint.E002",
        )
    ]


@register(TAG)
def channel_layer(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Require a channel layer that all processes share, so that workers can notify sockets."""
    backend = settings.CHANNEL_LAYERS.get("default", {}).get("BACKEND", IN_MEMORY_LAYER)
    if backend != IN_MEMORY_LAYER:
        return []
    return [
        Error(
            "The in-memory channel layer does not reach other processes.",
            hint="Use channels_redis.pubsub.RedisPubSubChannelLayer.",
            id="holdpoint.E003",
        )
    ]


@register(TAG)
def queue_serializer(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Require JSON: with RQ's default, pickle, write access to Redis allows running code."""
    loose = [
        name
        for name, queue in settings.RQ_QUEUES.items()
        if queue.get("SERIALIZER") != "rq.serializers.JSONSerializer"
    ]
    if not loose:
        return []
    return [
        Error(
            f"The queue {loose[0]!r} does not use the JSON serializer.",
            hint="Set SERIALIZER to rq.serializers.JSONSerializer.",
            id="holdpoint.E004",
        )
    ]


@register(TAG)
def policy_floor(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Require a valid policy floor; without it, plans without a workflow cannot be started."""
    # Imported here, so that commands without checks do not load the engine.
    from workflows.executions.validation import InvalidRequest, installation_floor

    try:
        installation_floor()
    except InvalidRequest as error:
        faults = "; ".join(f"{each.path}: {each.message}" for each in error.problems)
        return [
            Error(
                f"HOLDPOINT_POLICY_FLOOR is not a policy: {faults}",
                hint="Name fields of a policy, as in a workflow. See docs/operations.md.",
                id="holdpoint.E007",
            )
        ]
    return []


@register(Tags.database)
def vector_extension(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Require pgvector once the tables exist; without it, tools are found only by full text."""
    if "default" not in (databases or ()):
        return []
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT to_regclass('graphrag_tool') IS NULL,"
            " (SELECT string_to_array(extversion, '.')::int[] >= '{0,8}' FROM pg_extension"
            "  WHERE extname = 'vector')"
        )
        not_migrated, usable = cursor.fetchone()
    if not_migrated or usable:
        return []
    found = "is older than 0.8" if usable is False else "is missing"
    return [
        Error(
            f"The PostgreSQL extension 'vector' {found}: tools are found only by full text.",
            hint="Install pgvector 0.8 or newer; CREATE or ALTER EXTENSION vector UPDATE; then"
            " `manage.py migrate` and `manage.py reembed`.",
            id="holdpoint.E005",
        )
    ]


#: Tables in which django-allauth stores second factors.
STEP_UP_TABLES = ("account_emailaddress", "mfa_authenticator")


@register(Tags.database)
def step_up_tables(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Require the tables of second factors if step-up is enabled.

    Missing tables are only a warning, because `migrate`, which creates them, stops at an error.
    """
    if "default" not in (databases or ()) or settings.HOLDPOINT["step_up"] == "off":
        return []
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT name, to_regclass(name) IS NULL,"
            " (SELECT bool_and(has_table_privilege(to_regclass(name), wanted))"
            "  FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted)"
            " FROM unnest(%s::text[]) AS name ORDER BY 1",
            [list(STEP_UP_TABLES)],
        )
        rows = cursor.fetchall()
    missing = [name for name, is_missing, _ in rows if is_missing]
    closed = [name for name, _, is_usable in rows if is_usable is False]
    hint = (
        "As the owner of the tables and with HOLDPOINT_STEP_UP set: `manage.py migrate`, then"
        " `python -m config.database.roles`."
    )
    if missing:
        message = f"HOLDPOINT_STEP_UP is on, and there is no table {missing[0]!r}."
        return [Warning(message, hint=hint, id="holdpoint.W002")]
    if closed:
        message = f"HOLDPOINT_STEP_UP is on, and this role may not use the table {closed[0]!r}."
        return [Error(message, hint=hint, id="holdpoint.E008")]
    return []


@register(TAG)
def remote_runner(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Require the package of a configured remote runner, without which every remote task fails."""
    if not settings.HOLDPOINT["dask_scheduler"] or find_spec("distributed") is not None:
        return []
    return [
        Error(
            "HOLDPOINT_DASK_SCHEDULER is set, and the package distributed is not installed.",
            hint="Install the extra `dask`.",
            id="holdpoint.E009",
        )
    ]


@register(TAG)
def webhook_lease(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Require a lease that outlasts an attempt: a sender starts none that the lease could end."""
    lease = settings.HOLDPOINT["webhook_lease_seconds"]
    timeout = settings.HOLDPOINT["webhook_timeout_seconds"]
    if lease > timeout:
        return []
    return [
        Error(
            f"HOLDPOINT_WEBHOOK_LEASE_SECONDS ({lease:g}) is not above"
            f" HOLDPOINT_WEBHOOK_TIMEOUT_SECONDS ({timeout:g}): no webhook would be sent.",
            hint="Set the lease to three times the time limit of an attempt, as by default.",
            id="holdpoint.E010",
        )
    ]


@register(Tags.security, deploy=True)
def audit_key(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warn without an audit key: the database's owner could rewrite the audit log unnoticed."""
    if settings.HOLDPOINT["audit_key"]:
        return []
    return [
        Warning(
            "Decisions and heads of the audit log are not signed.",
            hint="Set HOLDPOINT_AUDIT_KEY (or HOLDPOINT_AUDIT_KEY_FILE) to 50 random characters.",
            id="holdpoint.W001",
        )
    ]
