"""The embedded PostgreSQL: initdb, start, repair, stop.

The client, which takes 10 MiB, is loaded where it is used: `make run` only looks whether the server
still runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from config.devserver.embedded.layout import (
    APP_ROLE,
    DATABASE,
    OWNER_ROLE,
    POSTGRES_PACKAGE,
    SOCKET_NAME,
    SUPERUSER,
    Account,
    EmbeddedError,
    Layout,
    package_folder,
)
from config.devserver.embedded.processes import (
    find_process,
    processes_in,
    read_pid,
    spawn_server,
    stop_process,
    tail,
    wait_until,
)

if TYPE_CHECKING:
    import psycopg

START_SECONDS = 60.0  # crash recovery of a large write-ahead log included
STOP_SECONDS = 15.0
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",  # /dev/shm is tiny in containers
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Processes that one machine does without; each takes memory and wakes up.
    "io_method": "sync",
    "max_logical_replication_workers": "0",
}
#: Who may connect, and how: over the socket, with a password.
ACCESS = "# Written by Holdpoint at each start.\nlocal all all scram-sha-256\n"
_KEY_REFUSED = (
    "PostgreSQL below {home} refuses the password that this folder's key makes: the file "
    "servers_key was lost or replaced. Put it back, or start afresh with `make reset`."
)
THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres:
    """One PostgreSQL server. `durable=False` gives up crash safety for speed (tests)."""

    def __init__(self, layout: Layout, *, durable: bool = True) -> None:
        self.layout = layout
        self.settings = SETTINGS | ({} if durable else THROWAWAY)
        self.log = layout.logs / "postgres.log"

    def start(self) -> None:
        """Starts the server, or takes over the one of an earlier run; then makes the database."""
        if self.process() is None or not self.answers():
            self._prepare()
            self._launch()
        self._require_passwords()
        self._bootstrap()

    def stop(self) -> None:
        """Ends sessions and the server (fast shutdown), without losing a committed row."""
        process = self.process()
        if process is not None:
            stop_process(process, signal.SIGINT, STOP_SECONDS)

    def process(self) -> psutil.Process | None:
        pid = read_pid(self.layout.data / "postmaster.pid")
        return None if pid is None else find_process(pid, "postgres", self.layout.data)

    def answers(self) -> bool:
        """Whether a session can be opened; raises `EmbeddedError` if the password is wrong."""
        import psycopg

        try:
            with self.connect("postgres"):
                return True
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise EmbeddedError(_KEY_REFUSED.format(home=self.layout.home)) from None
            return False

    def connect(self, dbname: str) -> psycopg.Connection[tuple[object, ...]]:
        """Open a session of the superuser."""
        import psycopg

        return psycopg.connect(
            host=str(self.layout.sockets),
            user=SUPERUSER,
            password=self.layout.password(SUPERUSER),
            dbname=dbname,
            autocommit=True,
            connect_timeout=5,
        )

    # ------------------------------------------------------------ start

    def _prepare(self) -> None:
        layout, account = self.layout, self.layout.account
        layout.logs.mkdir(parents=True, exist_ok=True)
        layout.base.mkdir(parents=True, exist_ok=True)
        own_folder(layout.sockets, account)
        own_folder(layout.data, account)
        if layout.base != layout.home:
            link(layout.home / "postgres", layout.data)
        if not layout.binaries.exists():
            copy_programs(layout.binaries.parent)
        self._clear_leftovers()
        if not (layout.data / "PG_VERSION").exists():
            self._initdb()

    def _clear_leftovers(self) -> None:
        """Ends orphans of a killed server and drops lock files whose owner is gone.

        Nobody else's server can be hit: only processes that work in our data folder are ended.
        """
        for orphan in processes_in(self.layout.data, "postgres"):
            stop_process(orphan, signal.SIGQUIT, 5)
        (self.layout.data / "postmaster.pid").unlink(missing_ok=True)
        for name in (SOCKET_NAME, f"{SOCKET_NAME}.lock"):
            (self.layout.sockets / name).unlink(missing_ok=True)

    def _initdb(self) -> None:
        """A new cluster; a half-made one of an interrupted start is thrown away first."""
        for entry in self.layout.data.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        command = [str(self.layout.binaries / "initdb"), "--pgdata", str(self.layout.data)]
        command += ["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8"]
        command += ["--locale", "C.UTF-8", "--no-instructions", "--no-sync"]
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **self._process_options(),
        )
        if result.returncode != 0:
            (self.layout.data / "PG_VERSION").unlink(missing_ok=True)
            raise EmbeddedError(f"PostgreSQL could not create its data folder:\n{result.stderr}")

    def _launch(self) -> None:
        command = [str(self.layout.binaries / "postgres"), "-D", str(self.layout.data)]
        command += ["-k", str(self.layout.sockets)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        child = spawn_server(command, self.log, **self._process_options())
        if not wait_until(lambda: child.poll() is not None or self.answers(), START_SECONDS):
            child.kill()
        if child.poll() is not None or not self.answers():
            raise EmbeddedError(f"PostgreSQL did not start. Its log ends with:\n{tail(self.log)}")

    def _process_options(self) -> dict[str, Any]:
        """Runs a PostgreSQL program as the account, in its folder, with a clean environment."""
        account = self.layout.account
        options: dict[str, Any] = {
            "cwd": self.layout.data,
            "env": {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        }
        if account.switch:
            options |= {"user": account.uid, "group": account.gid, "extra_groups": []}
        return options

    # ------------------------------------------------------------ first contents

    def _require_passwords(self) -> None:
        """Set the passwords and ask for them: in a new cluster, or one of an earlier release."""
        from psycopg import sql

        path = self.layout.data / "pg_hba.conf"
        if path.read_text(encoding="utf-8") == ACCESS:
            return
        with self.connect("postgres") as connection:
            roles = connection.execute("SELECT rolname FROM pg_roles WHERE rolcanlogin").fetchall()
            for (role,) in roles:
                self._set_password(connection, str(role))
            owner = path.stat()
            half = path.with_name("pg_hba.conf.new")
            half.unlink(missing_ok=True)
            half.write_text(ACCESS, encoding="utf-8")
            half.chmod(0o600)
            os.chown(half, owner.st_uid, owner.st_gid)
            half.replace(path)
            connection.execute(sql.SQL("SELECT pg_reload_conf()"))

    def _set_password(self, connection: psycopg.Connection[tuple[object, ...]], role: str) -> None:
        """Store the verifier of a role's password; the password itself stays here."""
        from psycopg import sql

        verifier = connection.pgconn.encrypt_password(
            self.layout.password(role).encode(), role.encode(), b"scram-sha-256"
        )
        change = sql.SQL("ALTER ROLE {} PASSWORD {}")
        connection.execute(change.format(sql.Identifier(role), sql.Literal(verifier.decode())))

    def _bootstrap(self) -> None:
        """Roles, rights and the extension, once: new databases copy them from template1."""
        from psycopg import sql

        with self.connect("postgres") as connection:
            exists = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
            if exists.fetchone():
                return
            for role in (OWNER_ROLE, APP_ROLE):
                known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
                if not known.fetchone():
                    connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
                self._set_password(connection, role)
        with self.connect("template1") as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            for owner in (OWNER_ROLE, SUPERUSER):
                grant_by_default(connection, owner)
        with self.connect("postgres") as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(
                    sql.Identifier(DATABASE), sql.Identifier(OWNER_ROLE)
                )
            )


def grant_by_default(connection: psycopg.Connection[tuple[object, ...]], owner: str) -> None:
    """What `owner` creates later can be read and written, not altered, by the product's role."""
    from psycopg import sql

    names = {"owner": sql.Identifier(owner), "app": sql.Identifier(APP_ROLE)}
    for grant in ("SELECT, INSERT, UPDATE, DELETE ON TABLES", "USAGE, SELECT ON SEQUENCES"):
        connection.execute(
            sql.SQL(
                "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} GRANT " + grant + " TO {app}"
            ).format(**names)
        )


def own_folder(folder: Path, account: Account) -> None:
    """Makes `folder` private to the account; refuses one that somebody else planted."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = folder.lstat()
    if folder.is_symlink() or info.st_uid not in {account.uid, os.geteuid()}:
        raise EmbeddedError(f"{folder} belongs to somebody else; remove it or set HOLDPOINT_HOME.")
    if account.switch and info.st_uid != account.uid:
        os.chown(folder, account.uid, account.gid)
    folder.chmod(0o700)


def link(name: Path, target: Path) -> None:
    """Leaves a pointer in the home folder to data that had to be kept elsewhere."""
    with contextlib.suppress(FileExistsError):
        name.symlink_to(target)


def copy_programs(target: Path) -> None:
    """Copies PostgreSQL to `target`, where an unprivileged account can run it.

    The wheel keeps shared libraries in a folder beside the package, found by a relative path.
    """
    package = package_folder(POSTGRES_PACKAGE)
    root = target.parents[1]
    half = root.with_name(f"{root.name}.{os.getpid()}")
    half.mkdir(mode=0o755, parents=True)
    shutil.copytree(package / target.name, half / package.name / target.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, half / libraries.name, symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", str(half)], check=True)  # noqa: S607 - POSIX
    try:
        half.rename(root)
    except OSError:  # another start was faster
        shutil.rmtree(half)
