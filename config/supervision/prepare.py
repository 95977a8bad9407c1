"""The steps between "the servers answer" and "the product may start"."""

import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

from config.paths import BASE_DIR
from config.supervision.console import Console
from config.supervision.guards import StartRefused
from config.supervision.plan import MANAGE, Plan

READY_SECONDS = 120.0


def prepare(plan: Plan, console: Console) -> None:
    """Migrates as the owner of the tables, grants the product its rights, lays out the demo."""
    owner = plan.env_for("worker")
    if plan.owner_url:
        owner |= {"DATABASE_URL": plan.owner_url}
        owner.pop("DATABASE_URL_FILE", None)
    console.say("migrating the database")
    run([*MANAGE, "migrate", "--noinput"], owner, console)
    if plan.owner_url:
        grants = owner | {"HOLDPOINT_APP_DATABASE_URL": plan.env["DATABASE_URL"]}
        run([sys.executable, "-m", "config.grants"], grants, console)
    if plan.env["DJANGO_SETTINGS_MODULE"] == "config.settings.base":
        run([*MANAGE, "collectstatic", "--noinput", "--verbosity", "0"], owner, console)
    console.say("setting up users, groups and demo workflows")
    run([*MANAGE, "setup_demo"], plan.env_for("worker"), console)


def run(command: list[str], env: dict[str, str], console: Console) -> None:
    """One step; its lines appear as they come. Raises `StartRefused` when it fails."""
    with subprocess.Popen(
        command,
        cwd=BASE_DIR,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or []:
            console.line("setup", line.rstrip())
    if process.returncode != 0:
        raise StartRefused(
            f"`{' '.join(command[1:])}` failed with {process.returncode}; see above."
        )


def demo_logins(plan: Plan) -> str:
    """What `setup_demo --show` prints: the demo users and their passwords."""
    result = subprocess.run(
        [*MANAGE, "setup_demo", "--show"],
        cwd=BASE_DIR,
        env=plan.env_for("worker"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout if result.returncode == 0 else ""


def answers(address: str) -> bool:
    """Whether daphne says it is alive."""
    try:
        with urlopen(f"{address}/livez", timeout=2) as response:  # noqa: S310 - our own http address
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def deadline(seconds: float = READY_SECONDS) -> float:
    return time.monotonic() + seconds
