"""`python -m config.devserver.supervisor`: the whole product on one machine, from one terminal.

Starts PostgreSQL and Redis (unless DATABASE_URL and REDIS_URL point to others), migrates, sets up
the demo, and runs the processes with honcho: Ctrl-C, SIGTERM or the end of one of them ends all.
The databases stop last.
"""

import multiprocessing
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from types import FrameType

from django.core.exceptions import ImproperlyConfigured
from honcho.manager import Manager

from config.devserver.embedded import EmbeddedError
from config.devserver.plan import MANAGE, Plan, read_plan
from config.devserver.preflight import StartRefused, check_port, only_one
from config.paths import BASE_DIR

POLL_SECONDS = 0.2
STOPPED = {128 + signal.SIGINT, 128 + signal.SIGTERM}  # honcho's exit codes after a signal


def supervise(plan: Plan) -> int:
    """Run until SIGINT, SIGTERM or the end of a process; return the exit code.

    Raises `StartRefused` or `EmbeddedError`.
    """
    with only_one(plan.home):
        check_port(plan.host, plan.port)
        try:
            if plan.servers is not None:
                say(f"Starting PostgreSQL and Redis below {plan.home}")
                plan.servers.start()
            logins = prepare(plan)
            return run_processes(plan, logins)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            if plan.servers is not None:
                plan.servers.stop()
            say("Stopped")


def prepare(plan: Plan) -> str:
    """Migrate as the owner of the tables, grant the product's role its rights, set up the demo.

    Returns the logins of the demo, one per line.
    """
    owner = plan.env_for("worker")
    if plan.owner_url:
        owner |= {"DATABASE_URL": plan.owner_url}
        owner.pop("DATABASE_URL_FILE", None)
    say("Migrating the database")
    # The next commands check the settings; checks of URLs and of the admin would load every page.
    run([*MANAGE, "migrate", "--noinput", "--skip-checks"], owner)
    if plan.owner_url:
        grants = owner | {"HOLDPOINT_APP_DATABASE_URL": plan.env["DATABASE_URL"]}
        run([sys.executable, "-m", "config.database.roles"], grants)
    if plan.env["DJANGO_SETTINGS_MODULE"] == "config.settings.base":
        run([*MANAGE, "collectstatic", "--noinput", "--verbosity", "0"], owner)
    say("Setting up users, groups and demo workflows")
    return run([*MANAGE, "setup_demo", "--logins"], plan.env_for("worker"), stdout=subprocess.PIPE)


def run(command: list[str], env: dict[str, str], stdout: int | None = None) -> str:
    """Run one step and return its output if `stdout` is a pipe; `StartRefused` if it fails."""
    step = subprocess.run(
        command,
        cwd=BASE_DIR,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        text=True,
        check=False,
    )
    if step.returncode != 0:
        raise StartRefused(f"`{shlex.join(command[1:])}` failed with {step.returncode}; see above.")
    return step.stdout or ""


def run_processes(plan: Plan, logins: str) -> int:
    """Run web, workers, sweeper and the watch of the databases; return the exit code."""
    manager = Manager()
    for name, command, env in plan.children():
        manager.add_process(name, f"exec {shlex.join(command)}", env=env, cwd=str(BASE_DIR))
    threading.Thread(target=welcome, args=(plan, logins), daemon=True).start()
    try:
        manager.loop()
    finally:
        # Only after an exception: these processes of honcho would be waited for without end.
        for reader in multiprocessing.active_children():
            reader.kill()
    return 0 if manager.returncode in STOPPED else 1


def welcome(plan: Plan, logins: str) -> None:
    """Print address and accounts when the web process answers."""
    while not answers(plan):
        time.sleep(POLL_SECONDS)
    say(
        f"\nHoldpoint is ready: {plan.address}/\n\n{logins}\n"
        f"Data is kept in {plan.home}. Ctrl-C stops everything.\n"
    )


def answers(plan: Plan) -> bool:
    """Return whether daphne answers."""
    host = plan.address.removeprefix("http://")
    request = f"GET /livez HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection((plan.host, plan.port), timeout=2) as client:
            client.sendall(request.encode())
            return client.recv(16).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def say(text: str) -> None:
    print(text, flush=True)


def stop(number: int, frame: FrameType | None) -> None:
    """End the start in order; once the processes run, honcho handles SIGINT and SIGTERM."""
    raise SystemExit(0)


def hang_up(number: int, frame: FrameType | None) -> None:
    """Stop as with SIGTERM when the terminal is closed."""
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, hang_up)
    try:
        return supervise(read_plan())
    except (StartRefused, EmbeddedError, ImproperlyConfigured) as error:
        say(f"{error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
