"""Setup steps after the servers have started: migrations, database rights, demo."""

import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

from config.devserver.supervision.console import Console
from config.devserver.supervision.plan import MANAGE, Plan
from config.devserver.supervision.preflight_checks import StartRefused
from config.paths import BASE_DIR

READY_SECONDS = 120.0


def prepare(plan: Plan, console: Console) -> str:
    """Migrate as the owner of the tables, grant the product's role its rights, set up the demo.

    Returns the logins of the demo, one per line.
    """
    owner = plan.env_for("worker")
    if plan.owner_url:
        owner |= {"DATABASE_URL": plan.owner_url}
        owner.pop("DATABASE_URL_FILE", None)
    console.say("migrating the database")
    run([*MANAGE, "migrate", "--noinput"], owner, console)
    if plan.owner_url:
        grants = owner | {"HOLDPOINT_APP_DATABASE_URL": plan.env["DATABASE_URL"]}
        run([sys.executable, "-m", "config.database.roles"], grants, console)
    if plan.env["DJANGO_SETTINGS_MODULE"] == "config.settings.base":
        run([*MANAGE, "collectstatic", "--noinput", "--verbosity", "0"], owner, console)
    console.say("setting up users, groups and demo workflows")
    logins = _set_up(plan, console)
    _embed(plan, console)
    return logins


def _embed(plan: Plan, console: Console) -> None:
    """Give every tool a vector of the embedder in force, which may have changed; optional."""
    try:
        run([*MANAGE, "reembed"], plan.env_for("worker"), console)
    except StartRefused as error:
        console.say(f"tools are found by their words only: {error}")


def run(command: list[str], env: dict[str, str], console: Console) -> None:
    """Run one step and copy its output to the console; raises `StartRefused` if it fails."""
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
    _refuse(command, process.returncode)


def _set_up(plan: Plan, console: Console) -> str:
    """Run `setup_demo`: stderr goes to the console, stdout has the logins."""
    command = [*MANAGE, "setup_demo", "--logins"]
    result = subprocess.run(
        command,
        cwd=BASE_DIR,
        env=plan.env_for("worker"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    for line in result.stderr.splitlines():
        console.line("setup", line)
    _refuse(command, result.returncode)
    return result.stdout


def _refuse(command: list[str], code: int) -> None:
    if code != 0:
        raise StartRefused(f"`{' '.join(command[1:])}` failed with {code}; see above.")


def answers(address: str) -> bool:
    """Return whether daphne answers."""
    try:
        with urlopen(f"{address}/livez", timeout=2) as response:  # noqa: S310 - our own http address
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def deadline(seconds: float = READY_SECONDS) -> float:
    return time.monotonic() + seconds
