"""PostgreSQL with a standby, Redis with Sentinel, PgBouncer and HAProxy, each on a host."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg
import redis

from config.devserver.embedded.layout import SUPERUSER, Layout
from config.devserver.embedded.postgres import copy_programs
from tests.cluster.clock import Clock
from tests.cluster.network import Host, NamespaceHost, Process
from tests.support.pgbouncer import PROGRAM as PGBOUNCER
from tests.support.pgbouncer import configure
from tests.support.processes import wait_for

PROGRAMS = {
    "haproxy": "haproxy",
    "redis-server": "redis-server",
    "redis-sentinel": "redis-sentinel",
}
#: /dev/shm is tiny in containers.
POSTGRES = {
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
}


def missing() -> str:
    """The server that this machine lacks; "" if none."""
    lacking = [name for name in PROGRAMS if find(name) is None]
    if PGBOUNCER is None:
        lacking.append("pgbouncer")
    return f"needs {', '.join(lacking)} (Debian packages of these names)" if lacking else ""


def find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Postgres:
    """A server on a host: `initialize` makes a primary, `follow` a standby.

    `mebibytes` gives it a file system of that size.
    """

    def __init__(self, host: Host, layout: Layout, *, mebibytes: int = 0) -> None:
        self.host, self.account, self._bin = host, layout.account, layout.binaries
        if not self._bin.exists():
            copy_programs(self._bin.parent)
        self.clock = Clock(host.folder)
        self.data, self.log = host.folder / "postgres", host.folder / "postgres.log"
        self.data.mkdir(mode=0o700)
        if isinstance(host, NamespaceHost) and mebibytes:
            host.mount(self.data, mebibytes)
            self.data.chmod(0o700)
        os.chown(self.data, self.account.uid, self.account.gid)

    def _run(self, name: str, *arguments: str) -> str:
        words = [str(self._bin / name), *arguments]
        env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        return self.host.run(*words, account=self.account, env=env, cwd=self.data)

    def initialize(self, addresses: str) -> None:
        self._run(
            "initdb", "--pgdata", str(self.data), "--username", SUPERUSER, "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions",
        )  # fmt: skip
        rules = f"host all all {addresses} trust\nhost replication all {addresses} trust\n"
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write(rules)

    def follow(self, primary: Postgres) -> None:
        address = f"host={primary.host.address} user={SUPERUSER}"
        self._run("pg_basebackup", "-D", str(self.data), "-R", "-c", "fast", "-d", address)

    def start(self) -> None:
        words = [*self.clock.words, str(self._bin / "postgres"), "-D", str(self.data)]
        for name, value in {**POSTGRES, "listen_addresses": self.host.address}.items():
            words += ["-c", f"{name}={value}"]
        self.process = self.host.start(self.log.name, *words, account=self.account, cwd=self.data)
        wait_for(self.answers, what=f"PostgreSQL on {self.host.name}")

    def answers(self) -> bool:
        try:
            with self.connect("postgres"):
                return True
        except psycopg.OperationalError:
            return False

    def replicate_synchronously(self) -> None:
        """From now on a commit waits until a standby has it on its disk."""
        with self.connect("postgres") as session:
            session.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            session.execute("SELECT pg_reload_conf()")

    def load(self, database: str, source: str) -> None:
        """Fill an empty database with what the database at the address `source` has."""
        options = ["--no-owner", "--no-privileges"]
        target = f"host={self.host.address} user={SUPERUSER} dbname={database}"
        with subprocess.Popen(
            [str(self._bin / "pg_dump"), *options, source], stdout=subprocess.PIPE
        ) as dump:
            command = [str(self._bin / "psql"), "-qX", "-v", "ON_ERROR_STOP=1", "-d", target]
            subprocess.run(command, stdin=dump.stdout, stdout=subprocess.DEVNULL, check=True)
        assert dump.returncode == 0

    def connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=self.host.address, user=SUPERUSER, dbname=database, autocommit=True
        )

    def stop_at_once(self) -> None:
        """Stop without ending transactions."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(60)

    def pids(self) -> list[int]:
        """The postmaster, then its children."""
        with contextlib.suppress(psutil.NoSuchProcess):
            server = psutil.Process(self.process.pid)
            return [server.pid, *(child.pid for child in server.children())]
        return []

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-D", str(self.data), "-w")


#: A server that is gone is noticed within seconds, and so is a client that was cut off within a
#: transaction, whose locks others wait for.
LIMITS = """
server_connect_timeout = 3
server_login_retry = 1
query_wait_timeout = 10
idle_transaction_timeout = 15
"""


class Bouncer:
    """PgBouncer in transaction mode on a host."""

    def __init__(self, host: Host, layout: Layout, *, database: str, role: str) -> None:
        assert PGBOUNCER is not None
        self._host, self._database, self._role = host, database, role
        os.chown(host.folder, layout.account.uid, layout.account.gid)
        self.address = f"{host.address}:6432"
        self._program, self._account = PGBOUNCER, layout.account
        self._process: Process | None = None

    def point_at(self, server: Postgres) -> None:
        """Start, or reload with another server."""
        path = configure(
            self._host.folder,
            database=self._database,
            server=f"host={server.host.address} dbname={self._database} user={self._role}",
            address=self._host.address,
            port=6432,
            size=10,
            more=LIMITS,
        )
        if self._process is None:
            words = [self._program, "-q", str(path)]
            self._process = self._host.start("output", *words, account=self._account)
        else:
            self._process.send_signal(signal.SIGHUP)


SENTINEL = """
port 26379
bind 0.0.0.0
protected-mode no
dir {folder}
sentinel monitor holdpoint {primary} 6379 2
sentinel down-after-milliseconds holdpoint 1000
sentinel failover-timeout holdpoint 5000
"""


class Redis:
    """A Redis on a host, without persistence; `primary` makes it a replica."""

    def __init__(
        self, host: Host, primary: Redis | None = None, *, program: Path | None = None
    ) -> None:
        self.host = host
        first = str(program or find("redis-server"))
        self._words = [first, "--bind", host.address, "--protected-mode", "no"]
        self._words += ["--save", "", "--dir", str(host.folder)]
        if primary is not None:
            self._words += ["--replicaof", primary.host.address, "6379"]
        self.start()

    def start(self) -> None:
        self.process = self.host.start("redis.log", *self._words)
        wait_for(self.role, what=f"Redis on {self.host.name}")

    def role(self) -> str:
        try:
            with redis.Redis(self.host.address, socket_timeout=2) as client:
                return str(client.info("replication")["role"])
        except redis.RedisError:
            return ""

    def flush(self) -> bool:
        """Remove all keys; returns whether this server did, as only a primary does."""
        try:
            with redis.Redis(self.host.address, socket_timeout=5) as client:
                return bool(client.flushall())
        except redis.RedisError:
            return False


def watch(hosts: Sequence[Host], primary: Redis) -> None:
    """Start a Sentinel on each host; two of them agree on a failover."""
    for host in hosts:
        (folder := host.folder / "sentinel").mkdir()
        path = folder / "sentinel.conf"
        path.write_text(SENTINEL.format(folder=folder, primary=primary.host.address))
        host.start("sentinel.log", find("redis-sentinel") or "", str(path))


HAPROXY = """
global
  maxconn 2000
defaults
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  timeout check 2s
  retries 3
  option redispatch
frontend holdpoint
  mode http
  bind {address}:80
  http-request set-header X-Forwarded-Proto https
  http-request set-header X-Forwarded-For %[src]
  default_backend web
backend web
  mode http
  balance roundrobin
  option httpchk
  http-check send meth GET uri /livez hdr Host holdpoint.example.com hdr X-Forwarded-Proto https
  default-server check inter 500 fall 2 rise 1 on-marked-down shutdown-sessions
{web}
listen redis
  mode tcp
  bind {address}:6379
  option tcp-check
  tcp-check send info\\ replication\\r\\n
  tcp-check expect string role:master
  default-server check inter 500 fall 1 rise 1 on-marked-down shutdown-sessions
{redis}
"""


def balance(host: Host, web: Sequence[Host], redis: Sequence[Host]) -> None:
    """Start HAProxy: port 80 leads to the web processes, 6379 to the Redis that is the primary."""

    def servers(hosts: Sequence[Host], port: int) -> str:
        return "\n".join(f"  server {each.name} {each.address}:{port}" for each in hosts)

    path = host.folder / "haproxy.cfg"
    text = HAPROXY.format(address=host.address, web=servers(web, 8000), redis=servers(redis, 6379))
    path.write_text(text)
    host.run(find("haproxy") or "", "-c", "-f", str(path))
    host.start("haproxy.log", find("haproxy") or "", "-db", "-f", str(path))
