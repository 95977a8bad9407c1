"""The production settings, loaded in a process of their own."""

import json
import os
import subprocess
import sys

import pytest
from django.utils.module_loading import import_string

from tests.architecture.files import ROOT

GIVEN = {
    "SECRET_KEY": "k" * 60 + "0123456789abc",
    "ALLOWED_HOSTS": "desk.example",
    "HOLDPOINT_SITE_URL": "https://desk.example",
    "DATABASE_URL": "postgres://app@/holdpoint?host=/run/pg",
    "REDIS_URL": "unix:///run/redis.sock?db=0",
}
SHOW = """
import json, config.settings.base as s
names = ("DEBUG", "DATABASES", "ALLOWED_ORIGINS", "HOLDPOINT_ROLE", "SESSION_COOKIE_AGE",
         "SECURE_SSL_REDIRECT", "RQ_QUEUES", "CHANNEL_LAYERS", "HOLDPOINT", "MIDDLEWARE")
print(json.dumps({name: getattr(s, name) for name in names}, default=str))
"""


def load(**changes: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"]} | GIVEN | changes
    env = {name: value for name, value in env.items() if value}
    command = [sys.executable, "-c", SHOW]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def ran(program: str) -> str:
    """What it prints, with the production settings."""
    env = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "config.settings.base"} | GIVEN
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded(**changes: str) -> dict:
    result = load(**changes)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "REDIS_URL"])
def test_missing_settings_are_named(name: str) -> None:
    result = load(**{name: ""})
    assert result.returncode != 0
    assert f"ImproperlyConfigured: {name} is not set" in result.stderr


def test_the_defaults_are_secure() -> None:
    settings = loaded()
    assert settings["DEBUG"] is False
    assert settings["SECURE_SSL_REDIRECT"] is True
    assert settings["SESSION_COOKIE_AGE"] == 8 * 3600
    assert settings["ALLOWED_ORIGINS"] == ["https://desk.example"]
    assert settings["RQ_QUEUES"]["default"]["SERIALIZER"] == "rq.serializers.JSONSerializer"
    assert settings["CHANNEL_LAYERS"]["default"]["CONFIG"]["hosts"][0]["socket_timeout"] is None


@pytest.mark.parametrize(
    ("role", "age"), [("web", 0), ("worker", None), ("sweeper", None), ("command", 0)]
)
def test_the_role_decides_how_long_a_connection_lives(role: str, age: int | None) -> None:
    assert loaded(HOLDPOINT_ROLE=role)["DATABASES"]["default"]["CONN_MAX_AGE"] == age


def test_only_the_web_process_has_a_pool() -> None:
    entry = loaded(HOLDPOINT_ROLE="web", HOLDPOINT_DB_POOL_MAX="7")["DATABASES"]["default"]
    assert entry["CONN_HEALTH_CHECKS"] is True
    pool = entry["OPTIONS"]["pool"]
    assert (pool["min_size"], pool["max_size"], pool["timeout"]) == (2, 7, 5)
    plain = "django.db.backends.postgresql"
    for role in ("worker", "sweeper", "command", ""):
        entry = loaded(HOLDPOINT_ROLE=role)["DATABASES"]["default"]
        assert (entry["ENGINE"], "pool" in entry["OPTIONS"]) == (plain, False), role
    entry = loaded(HOLDPOINT_ROLE="web", HOLDPOINT_DB_POOL_MAX="0")["DATABASES"]["default"]
    assert (entry["ENGINE"], "pool" in entry["OPTIONS"]) == (plain, False)


def test_the_role_is_web_under_daphne_and_not_in_a_command() -> None:
    show = "from django.conf import settings; print(settings.HOLDPOINT_ROLE)"
    assert ran(f"import config.asgi; {show}") == "web"
    assert ran(show) == "command"


@pytest.mark.parametrize("step_up", ["off", "high_risk"])
def test_the_last_middleware_is_sync(step_up: str) -> None:
    last = import_string(loaded(HOLDPOINT_STEP_UP=step_up)["MIDDLEWARE"][-1])
    assert not getattr(last, "async_capable", False)


def test_product_numbers_come_from_the_environment() -> None:
    numbers = loaded(HOLDPOINT_LEASE_SECONDS="45", HOLDPOINT_HTTP_ALLOW_HOSTS="a.example,b.example")
    assert numbers["HOLDPOINT"]["lease_seconds"] == 45
    assert numbers["HOLDPOINT"]["http_allow_hosts"] == ["a.example", "b.example"]
    assert numbers["HOLDPOINT"]["checkpoints_kept"] == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDPOINT_ROLE", "boss"),
        ("HOLDPOINT_LEASE_SECONDS", "0"),
        ("HOLDPOINT_DB_POOL_MAX", "-1"),
        ("HOLDPOINT_SWEEP_SECONDS", "nan"),
        ("SECURE_SSL_REDIRECT", "perhaps"),
        ("LOG_LEVEL", "LOUD"),
        ("DATABASE_URL", "mysql://x/y"),
    ],
)
def test_odd_values_stop_the_start(name: str, value: str) -> None:
    result = load(**{name: value})
    assert result.returncode != 0
    assert name in result.stderr.splitlines()[-1]
