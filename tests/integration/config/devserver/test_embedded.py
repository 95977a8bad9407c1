"""The embedded servers as a user meets them: killed, left over, deep below, side by side."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from config.devserver.embedded import EmbeddedError, EmbeddedServers, Layout
from config.devserver.embedded.layout import (
    APP_ROLE,
    MAX_SOCKET_PATH,
    OWNER_ROLE,
    SOCKET_NAME,
    SUPERUSER,
    reachable,
)
from config.devserver.embedded.postgres import own_folder
from config.devserver.embedded.processes import is_alive, wait_until


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="holdpoint-home-"))
    folder.chmod(0o711)
    yield folder
    remove(EmbeddedServers(folder))


def remove(servers: EmbeddedServers) -> None:
    servers.stop()
    for folder in (servers.layout.base, servers.layout.sockets, servers.layout.home):
        shutil.rmtree(folder, ignore_errors=True)


def started(home: Path) -> EmbeddedServers:
    servers = EmbeddedServers(home, durable=False)
    servers.start()
    return servers


def one(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def kill(servers: EmbeddedServers) -> None:
    for process in (servers.postgres.process(), servers.redis.process()):
        assert process is not None
        process.kill()
        assert wait_until(lambda process=process: not is_alive(process), 10)


def pong(url: str) -> bool:
    with redis.Redis.from_url(url) as client:
        return client.ping()


def test_postgres_18_with_pgvector_and_redis(home: Path) -> None:
    urls = started(home).layout.urls
    assert str(one(urls.database, "SHOW server_version")).startswith("18.")
    assert one(urls.database, "SELECT '[1,2]'::vector <-> '[1,4]'::vector") == 2.0
    assert pong(urls.redis)


def test_the_product_role_reads_and_writes_but_does_not_alter(home: Path) -> None:
    urls = started(home).layout.urls
    with psycopg.connect(urls.owner) as connection:
        connection.execute("CREATE TABLE notes (id bigserial PRIMARY KEY, text text)")
    with psycopg.connect(urls.database, autocommit=True) as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('a')")
        connection.execute("UPDATE notes SET text = 'b'")
        for refused in ("DROP TABLE notes", "TRUNCATE notes", "CREATE TABLE other (id int)",
                        "ALTER TABLE notes DISABLE TRIGGER ALL",
                        "SET session_replication_role = replica"):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused)
    assert one(urls.database, "SELECT text FROM notes") == "b"


def test_data_outlives_a_stop_and_a_second_start_takes_over(home: Path) -> None:
    servers = started(home)
    urls = servers.layout.urls
    with psycopg.connect(urls.owner) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    servers.stop()
    assert servers.postgres.process() is None
    assert servers.redis.process() is None
    again = started(home)
    assert one(urls.owner, "SELECT n FROM kept") == 42
    process = again.postgres.process()
    assert started(home).postgres.process() == process


def test_killed_servers_recover_their_data(home: Path) -> None:
    servers = EmbeddedServers(home)
    urls = servers.start()
    with psycopg.connect(urls.owner) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    assert servers.repair() == []
    kill(servers)
    assert servers.repair() == ["postgres", "redis"]
    assert one(urls.owner, "SELECT n FROM kept") == 42
    assert pong(urls.redis)


def test_sessions_of_a_killed_postmaster_do_not_block_the_next(home: Path) -> None:
    servers = started(home)
    with psycopg.connect(servers.layout.urls.owner, autocommit=True) as open_session:
        kill(servers)
        assert servers.repair() == ["postgres", "redis"]
        with pytest.raises(psycopg.OperationalError):
            open_session.execute("SELECT 1")


def test_lock_files_of_other_processes_are_removed(home: Path) -> None:
    servers = started(home)
    kill(servers)
    pid_file = servers.layout.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    lock = servers.layout.sockets / f"{SOCKET_NAME}.lock"
    lock.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    servers.redis.pidfile.write_text(str(os.getpid()))
    servers.start()
    assert one(servers.layout.urls.owner, "SELECT 1") == 1
    assert pong(servers.layout.urls.redis)


@pytest.mark.parametrize("damage", ["", "abc\n", "99999999\n"])
def test_damaged_pid_files_are_removed(home: Path, damage: str) -> None:
    servers = started(home)
    servers.stop()
    (servers.layout.data / "postmaster.pid").write_text(damage)
    servers.redis.pidfile.write_text(damage)
    servers.start()
    assert one(servers.layout.urls.owner, "SELECT 1") == 1


def test_an_interrupted_initdb_is_done_again(home: Path) -> None:
    servers = EmbeddedServers(home, durable=False)
    servers.layout.data.mkdir()
    (servers.layout.data / "base").mkdir()
    (servers.layout.data / "half").write_text("x")
    servers.start()
    assert one(servers.layout.urls.owner, "SELECT 1") == 1


def test_two_homes_side_by_side(home: Path) -> None:
    other = home / "other"
    first, second = started(home), started(other)
    try:
        with psycopg.connect(first.layout.urls.owner) as connection:
            connection.execute("CREATE TABLE only_here AS SELECT 1 AS n")
        assert one(second.layout.urls.owner, "SELECT to_regclass('only_here') IS NULL") is True
        second.stop()
        assert one(first.layout.urls.owner, "SELECT n FROM only_here") == 1
    finally:
        remove(second)


def test_concurrent_starts_make_one_server(home: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: started(home), range(4)))
    assert one(EmbeddedServers(home).layout.urls.owner, "SELECT 1") == 1


def test_a_deep_home_gets_a_short_socket_folder(home: Path) -> None:
    deep = home.joinpath(*["a-rather-long-name"] * 8)
    servers = started(deep)
    try:
        assert len(os.fsencode(servers.layout.sockets / SOCKET_NAME)) <= MAX_SOCKET_PATH
        assert one(servers.layout.urls.owner, "SELECT 1") == 1
        assert pong(servers.layout.urls.redis)
    finally:
        remove(servers)


def test_odd_characters_in_the_home(home: Path) -> None:
    servers = started(home / "My Runs 50% #1 é")
    try:
        assert one(servers.layout.urls.database, "SELECT 1") == 1
        assert pong(servers.layout.urls.redis)
    finally:
        remove(servers)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand PostgreSQL to another account")
def test_a_private_home_of_root_stays_private(home: Path) -> None:
    home.chmod(0o700)
    servers = started(home)
    assert not reachable(home, servers.layout.account.uid)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / "postgres").resolve() == servers.layout.data.resolve()
    assert one(servers.layout.urls.owner, "SELECT 1") == 1


def test_a_symbolic_link_as_home_is_refused(home: Path) -> None:
    (home / "elsewhere").mkdir()
    (home / "planted").symlink_to(home / "elsewhere")
    with pytest.raises(EmbeddedError, match="belongs to somebody else"):
        own_folder(home / "planted", Layout.of(home).account)


def test_a_start_that_fails_shows_the_log(home: Path) -> None:
    servers = started(home)
    servers.stop()
    with (servers.layout.data / "postgresql.conf").open("a") as settings:
        settings.write("no_such_setting = 1\n")
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        servers.start()


# --- passwords ------------------------------------------------------------------------------------


def test_nobody_connects_without_the_password(home: Path) -> None:
    layout = started(home).layout
    assert stat.S_IMODE((home / "servers_key").stat().st_mode) == 0o600
    folder, database = str(layout.sockets), "holdpoint"
    for role in (SUPERUSER, OWNER_ROLE, APP_ROLE):
        assert one(layout.database_url(role), "SELECT current_user") == role
        for password in (None, "", "x", layout.password("another")):
            with pytest.raises(psycopg.OperationalError, match=r"password|no password"):
                psycopg.connect(host=folder, user=role, dbname=database, password=password)
    assert len({layout.password(role) for role in (SUPERUSER, OWNER_ROLE, APP_ROLE, "redis")}) == 4
    assert pong(layout.urls.redis)
    for credentials in ("", ":x@", f":{layout.password(SUPERUSER)}@"):
        with pytest.raises(redis.RedisError, match=r"(?i)auth|password"):
            pong(f"unix://{credentials}{layout.redis_socket}")


def test_no_password_is_in_a_command_line_or_a_log(home: Path) -> None:
    layout = started(home).layout
    key = (home / "servers_key").read_text()
    secrets = [key, *(layout.password(user) for user in (SUPERUSER, OWNER_ROLE, APP_ROLE, "redis"))]
    texts = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    texts += [path.read_text(errors="replace") for path in layout.logs.iterdir()]
    assert any(str(layout.data) in text for text in texts)
    assert not [text for text in texts if any(secret in text for secret in secrets)]
    readable = [path for path in home.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert not [path for path in readable if key.encode() in path.read_bytes()]


def test_a_home_from_before_passwords_is_upgraded_at_the_start(home: Path) -> None:
    servers = started(home)
    with psycopg.connect(servers.layout.urls.owner) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    (servers.layout.data / "pg_hba.conf").write_text("local all all trust\n")
    with psycopg.connect(servers.layout.urls.superuser, autocommit=True) as connection:
        connection.execute("SELECT pg_reload_conf()")
        for role in (APP_ROLE, OWNER_ROLE, SUPERUSER):
            connection.execute(f"ALTER ROLE {role} PASSWORD NULL")
    with redis.Redis.from_url(servers.layout.urls.redis) as client:
        client.config_set("requirepass", "")
    (home / "servers_key").unlink()
    again = started(home).layout
    assert one(again.urls.owner, "SELECT n FROM kept") == 42
    assert one(again.urls.database, "SELECT 1") == 1
    assert pong(again.urls.redis)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host=str(again.sockets), user=SUPERUSER, dbname="holdpoint")
    with pytest.raises(redis.RedisError, match=r"(?i)auth"):
        pong(f"unix://{again.redis_socket}")


def test_a_lost_key_is_explained(home: Path) -> None:
    started(home)
    (home / "servers_key").unlink()
    with pytest.raises(EmbeddedError, match=r"servers_key was lost or replaced.*make reset"):
        started(home)
