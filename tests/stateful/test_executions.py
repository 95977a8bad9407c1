"""Random histories of real executions, held against a model."""

import itertools
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

import reviews.services
import reviews.undo
from tests.catalogue import stock_catalogue
from tests.stateful import tools
from tests.stateful.machine import Executions
from tests.stateful.planner import AddsATask
from tests.stateful.workers import mortal_processes
from tests.stateful.world import World
from workflows import services


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
    monkeypatch.setattr(reviews.services, "BUSY_WAITS", ())
    monkeypatch.setattr(reviews.undo, "BUSY_WAITS", ())
    numbers = itertools.count()

    class Machine(Executions):
        @staticmethod
        def make_world() -> World:
            return World(tmp_path / f"{next(numbers)}.jsonl", reviewers)

    with mortal_processes():
        run_state_machine_as_test(Machine, settings=profile)
