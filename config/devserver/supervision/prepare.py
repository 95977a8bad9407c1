"""Setup steps: the embedded servers, migrations, database rights, demo."""

import os
import socket
import subprocess
import sys
import time
from tempfile import TemporaryFile
from typing import IO

from config.devserver.supervision.console import Console
from config.devserver.supervision.plan import MANAGE, Plan
from config.devserver.supervision.preflight_checks import StartRefused
from config.paths import BASE_DIR

READY_SECONDS = 120.0


def start_servers(plan: Plan, console: Console) -> None:
    """Start the embedded servers in a process that ends: their client takes 10 MiB."""
    env = dict(os.environ) | {"HOLDPOINT_HOME": str(plan.home)}
    run([sys.executable, "-m", "config.devserver.embedded", "start"], env, console)


def prepare(plan: Plan, console: Console) -> str:
    """Migrate as the owner of the tables, grant the product's role its rights, set up the demo.

    Returns the logins of the demo, one per line.
    """
    owner = plan.env_for("worker")
    if plan.owner_url:
        owner |= {"DATABASE_URL": plan.owner_url}
        owner.pop("DATABASE_URL_FILE", None)
    console.say("migrating the database")
    # The next commands check the settings; checks of URLs and of the admin would load every page.
    run([*MANAGE, "migrate", "--noinput", "--skip-checks"], owner, console)
    if plan.owner_url:
        grants = owner | {"HOLDPOINT_APP_DATABASE_URL": plan.env["DATABASE_URL"]}
        run([sys.executable, "-m", "config.database.roles"], grants, console)
    if plan.env["DJANGO_SETTINGS_MODULE"] == "config.settings.base":
        run([*MANAGE, "collectstatic", "--noinput", "--verbosity", "0"], owner, console)
    console.say("setting up users, groups and demo workflows")
    with TemporaryFile("w+") as logins:
        run([*MANAGE, "setup_demo", "--logins"], plan.env_for("worker"), console, logins)
        logins.seek(0)
        return logins.read()


def run(
    command: list[str], env: dict[str, str], console: Console, answer: IO[str] | None = None
) -> None:
    """Run one step and copy its output to the console; with `answer`, stdout is written there.

    Raises `StartRefused` if it fails.
    """
    with subprocess.Popen(
        command,
        cwd=BASE_DIR,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=answer or subprocess.PIPE,
        stderr=subprocess.PIPE if answer else subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stderr or process.stdout or []:
            console.line("setup", line.rstrip())
    if process.returncode != 0:
        raise StartRefused(
            f"`{' '.join(command[1:])}` failed with {process.returncode}; see above."
        )


def answers(plan: Plan) -> bool:
    """Return whether daphne answers; without an HTTP client, which takes 3 MiB."""
    host = plan.address.removeprefix("http://")
    request = f"GET /livez HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection((plan.host, plan.port), timeout=2) as client:
            client.sendall(request.encode())
            return client.recv(16).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def deadline(seconds: float = READY_SECONDS) -> float:
    return time.monotonic() + seconds
