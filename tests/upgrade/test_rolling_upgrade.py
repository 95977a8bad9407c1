"""The upgrade of docs/operations.md from 0.2.0, while runs work and wait and people decide.

`make test-long` runs it. The code of 0.2.0 comes from the history, by its tag, and runs on the
packages of today's environment.
"""

from __future__ import annotations

import subprocess
import threading
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings

from config.devserver.embedded.layout import SUPERUSER
from tests.architecture.test_migrations import RELEASED
from tests.e2e.product import free_port
from tests.support.documented_installation import Machine, block, client, wait_until_ready
from tests.support.processes import ROOT, wait_for
from tests.support.repetitions import LONG
from workflows.api.client import Client, Execution, Problem

pytestmark = pytest.mark.skipif(not LONG, reason="minutes: make test-long runs it")

#: The last release. A release moves it, with `RELEASED` of the test of the migrations.
OLD = "0.2.0"

MIGRATE = block("sh", "roles && manage.py migrate")


def echo(name: str, after: str | None = None, *, reviewed: bool = False) -> dict[str, Any]:
    value = {"$from": after} if after else "first"
    task = {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": {"value": value}}
    if reviewed:
        task["human_review"] = {"trigger_phase": "BEFORE_EXECUTION"}
    return task


#: Two layers that wait for a person, and one after them.
PLAN = {
    "tasks": [
        echo("a"),
        echo("b", "a", reviewed=True),
        echo("c", "b", reviewed=True),
        echo("d", "c"),
    ]
}


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def archive_of_the_release() -> bytes:
    """Return the code of the last release as a tar file; skip before the release itself."""
    archive = git("archive", "--format=tar", OLD)
    if archive.returncode == 0:
        return archive.stdout
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if project["version"] == OLD:
        pytest.skip(f"{OLD} is not released yet, and no earlier version is upgraded")
    pytest.fail(f"the tag {OLD} is not in this clone: run `git fetch --tags --unshallow`")


@pytest.fixture
def old(django_db_setup: None, tmp_path: Path) -> Iterator[Machine]:
    """An installation of the last release, with a database of its own."""
    if settings.DATABASES["default"]["USER"] != SUPERUSER:
        pytest.skip("needs the embedded server, whose superuser is known")
    code = tmp_path / "old"
    code.mkdir()
    subprocess.run(["tar", "x", "-C", str(code)], input=archive_of_the_release(), check=True)
    newest = {app: max((code / app / "migrations").glob("0*.py")).stem for app in RELEASED}
    assert newest == RELEASED
    machine = Machine(tmp_path, root=code)
    try:
        yield machine
    finally:
        machine.remove()


class Load(threading.Thread):
    """Starts runs and decides their reviews without a pause, until one fails."""

    def __init__(self, starts: Client, reviews: Client) -> None:
        super().__init__()
        self.starts, self.reviews = starts, reviews
        self.ended = threading.Event()
        self.decisions = 0
        self.errors: list[str] = []

    def run(self) -> None:
        while not self.ended.is_set() and not self.errors:
            try:
                run = self.starts.start(plan=PLAN)
                while not (run := self.starts.wait(run.id, timeout=60)).is_final:
                    approve(self.reviews, run)
                    self.decisions += 1
                if run.status != "COMPLETED":
                    self.errors.append(f"run {run.id} is {run.status}")
            except (Problem, httpx.HTTPError, TimeoutError) as error:
                self.errors.append(repr(error))


@contextmanager
def loaded(starts: Client, reviews: Client) -> Iterator[Load]:
    load = Load(starts, reviews)
    load.start()
    try:
        yield load
    finally:
        load.ended.set()
        load.join()


def approve(reviews: Client, run: Execution) -> None:
    reviews.decide(reviews.get(run.id), run.open_holds[0]["id"], "APPROVE")


def test_the_last_release_serves_until_the_new_version_does(old: Machine, tmp_path: Path) -> None:
    old.install()
    starter, reviewer = (
        old.administrator(name, scopes)
        for name, scopes in (("starter", "read,run"), ("reviewer", "read,decide"))
    )
    old.run("manage.py sync_tools")
    (tmp_path / "new").mkdir()
    new = old.upgraded(tmp_path / "new")
    old_port, new_port = free_port(), free_port()
    with ExitStack() as stack:
        old_web, old_workers, new_processes = (stack.enter_context(ExitStack()) for _ in range(3))
        old_web.enter_context(old.running("web", port=old_port))
        old_workers.enter_context(old.running("workers", "sweeper", port=old_port))
        wait_until_ready(old_port)
        starts = stack.enter_context(client(old_port, starter))
        reviews = stack.enter_context(client(old_port, reviewer))
        held = [starts.wait(starts.start(plan=PLAN).id, timeout=60) for _ in range(3)]

        # 1. The new version migrates while the old one serves.
        with loaded(starts, reviews) as load:
            wait_for(lambda: load.decisions >= 2, what="decisions before the migration")
            new.run(MIGRATE)
            before = load.decisions
            wait_for(lambda: load.decisions >= before + 2, what="decisions on the new tables")
        assert load.errors == []
        # A worker of the old version finishes a layer of a run from before.
        approve(reviews, held[0])
        held[0] = starts.wait(held[0].id, timeout=60)
        assert [hold["node_id"] for hold in held[0].open_holds] == ["c"]

        # 2. Workers and sweeper are replaced while the old web process serves.
        with loaded(starts, reviews) as load:
            new_processes.enter_context(new.running("workers", "sweeper", port=new_port))
            old_workers.close()
            before = load.decisions
            wait_for(lambda: load.decisions >= before + 4, what="decisions with new workers")
        assert load.errors == []
        for _ in range(2):
            approve(reviews, held[1])
            held[1] = starts.wait(held[1].id, timeout=60)
        assert held[1].status == "COMPLETED"

        # 3. The web process is replaced, and decides what has waited since before the upgrade.
        new_processes.enter_context(new.running("web", port=new_port))
        wait_until_ready(new_port)
        old_web.close()
        starts = stack.enter_context(client(new_port, starter))
        reviews = stack.enter_context(client(new_port, reviewer))
        for run in (held[0], held[2]):
            while not run.is_final:
                approve(reviews, run)
                run = starts.wait(run.id, timeout=60)
            assert run.output("d") == "first"
        with loaded(starts, reviews) as load:
            wait_for(lambda: load.decisions >= 2, what="decisions of the new version")
        assert load.errors == []
    assert "records are whole" in new.run("manage.py verify_audit")
