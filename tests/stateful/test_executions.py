"""Random histories of executions, held against a model: on PostgreSQL, and in memory."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

import reviews.decisions.services
from tests.stateful import tools
from tests.stateful.database_world import DatabaseWorld
from tests.stateful.machine import Executions
from tests.stateful.memory_world import MemoryWorld
from tests.stateful.planner import AddsATask
from tests.stateful.workers import mortal_processes
from tests.stateful.world import World
from tests.support.catalogue import stock_catalogue
from workflows.executions import services

#: Histories per round: Hypothesis remembers what a round tried, and each round begins anew.
ROUND = 500


def test_whatever_happens_every_execution_ends_right(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: settings
) -> None:
    assert tools.__doc__  # imported for its tools
    stock_catalogue()
    group = Group.objects.get_or_create(name="reviewer")[0]
    reviewers = {name: get_user_model().objects.create_user(name) for name in ("ann", "bob")}
    for user in reviewers.values():
        user.groups.add(group)
    monkeypatch.setenv("HOLDPOINT_TEST_LEDGER", "")
    monkeypatch.setattr(services, "CataloguePlanner", AddsATask)
    # Whether a worker holds the lease is known here; there is nothing to wait for.
    monkeypatch.setattr(reviews.decisions.services, "BUSY_WAITS", ())
    numbers = itertools.count()

    def make_world() -> World:
        return DatabaseWorld(tmp_path / f"{next(numbers)}.jsonl", reviewers)

    with mortal_processes():
        play("on PostgreSQL", make_world, profile)


def test_whatever_happens_in_memory_every_execution_ends_right(memory_profile: settings) -> None:
    """The same machine, model and oracle, on the journal in memory: many more histories."""
    play("in memory", MemoryWorld, memory_profile)


def play(where: str, world: Callable[[], World], profile: settings) -> None:
    """Play `profile.max_examples` histories, and say what was played."""

    class Machine(Executions):
        make_world = staticmethod(world)

    began = time.monotonic()
    failures = 1
    try:
        left = profile.max_examples
        while left > 0:
            part = settings(profile, max_examples=min(ROUND, left))
            run_state_machine_as_test(Machine, settings=part)
            left -= ROUND
        failures = 0
    finally:
        seconds = time.monotonic() - began
        print(  # noqa: T201
            f"\nhistories {where}: {Machine.histories}, {Machine.steps} steps in {seconds:.0f} s"
            f" ({Machine.steps / seconds:.0f} steps/s), failures: {failures}"
        )
