"""DATABASE_URL, sockets included."""

from urllib.parse import quote

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from config.settings.databases import parse_database_url, with_pool


def test_all_parts() -> None:
    entry = parse_database_url("postgres://us%40er:p%3Aw@db.example:6543/na%20me?sslmode=require")
    assert (entry["USER"], entry["PASSWORD"]) == ("us@er", "p:w")
    assert (entry["HOST"], entry["PORT"], entry["NAME"]) == ("db.example", "6543", "na me")
    assert entry["OPTIONS"] == {"sslmode": "require"}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@%2FTmp%2FAbc%2Frun/hold",
        "postgresql://me@/hold?host=/Tmp/Abc/run",
        "postgresql://me@/hold?host=%2FTmp%2FAbc%2Frun",
    ],
)
def test_a_socket_folder_keeps_its_case(url: str) -> None:
    entry = parse_database_url(url)
    assert (entry["HOST"], entry["USER"], entry["NAME"]) == ("/Tmp/Abc/run", "me", "hold")
    assert entry["PORT"] == ""
    assert entry["OPTIONS"] == {}


def test_ipv6() -> None:
    entry = parse_database_url("postgres://me@[::1]:5433/hold")
    assert (entry["HOST"], entry["PORT"]) == ("::1", "5433")


def test_transaction_pooling_leaves_no_state_in_a_session() -> None:
    entry = parse_database_url("postgres://h/n", transaction_pooling=True)
    assert entry["DISABLE_SERVER_SIDE_CURSORS"]
    options = with_pool(entry, min_size=1, max_size=2, wait_seconds=1)["OPTIONS"]
    assert "options" not in options  # PgBouncer refuses the connection
    assert "reset" not in options["pool"]


@pytest.mark.parametrize(("age", "checked"), [(0, False), (None, True), (60, True)])
def test_persistent_connections_are_checked(age: int | None, checked: bool) -> None:
    entry = parse_database_url("postgres://h/n", conn_max_age=age)
    assert (entry["CONN_MAX_AGE"], entry["CONN_HEALTH_CHECKS"]) == (age, checked)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mysql://h/n",
        "postgres://h",
        "postgres://h/",
        "postgres://h:port/n",
        "postgres://h:99999/n",
    ],
)
def test_bad_urls_are_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        parse_database_url(url)


def test_a_refusal_does_not_repeat_the_password() -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        parse_database_url("mysql://user:hunter2@h/n")
    assert "hunter2" not in str(caught.value)


words = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=20)


@given(user=words, password=words, folder=words, name=words)
def test_every_quoted_part_reads_back(user: str, password: str, folder: str, name: str) -> None:
    host = f"/{folder}"
    parts = [quote(part, safe="") for part in (user, password, host, name)]
    entry = parse_database_url("postgres://{}:{}@{}/{}".format(*parts))
    assert [entry[key] for key in ("USER", "PASSWORD", "HOST", "NAME")] == [
        user,
        password,
        host,
        name,
    ]
