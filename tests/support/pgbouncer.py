"""PgBouncer in transaction mode, from the system's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from config.devserver.embedded.layout import Account
from tests.support.ports import free_port
from tests.support.processes import end, wait_for

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
MISSING = "PgBouncer is not installed (Debian: apt-get install pgbouncer)"

#: Any name may connect: the database says which role it is. Statements of one client go to
#: different server connections in turn, so that nothing works by luck.
CONFIGURATION = """
[databases]
{database} = {server}

[pgbouncer]
listen_addr = {address}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
server_round_robin = 1
max_client_conn = 500
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pgbouncer.pid
{more}
"""


def configure(
    folder: Path, *, database: str, server: str, address: str, port: int, size: int, more: str = ""
) -> Path:
    """Write the configuration; `server` is how PgBouncer connects to PostgreSQL, as keywords."""
    path = folder / "pgbouncer.ini"
    path.write_text(
        CONFIGURATION.format(
            database=database,
            server=server,
            folder=folder,
            address=address,
            port=port,
            size=size,
            more=more,
        )
    )
    return path


@contextmanager
def pgbouncer(
    folder: Path, account: Account, *, database: str, server: str, size: int
) -> Iterator[int]:
    """Run PgBouncer as `account` on a free port of the loopback; yields the port."""
    assert PROGRAM is not None
    port = free_port()
    path = configure(
        folder, database=database, server=server, address="127.0.0.1", port=port, size=size
    )
    options = {"user": account.uid, "group": account.gid, "extra_groups": []}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [PROGRAM, "-q", str(path)],
            stdout=output,
            stderr=output,
            start_new_session=True,
            **(options if account.switch else {}),
        )
    try:
        log = folder / "pgbouncer.log"
        wait_for(lambda: log.exists() and "process up" in log.read_text(), seconds=15, what="up")
        yield port
    finally:
        end(process)
