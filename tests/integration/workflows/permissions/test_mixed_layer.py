"""Everything at one boundary: successes, escalations, a failure, reviews, one that is too slow."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.support.http_server import Server
from workflows.models import Execution

from .conftest import ANSWER, Desk, code, echo, fetch

HELD = ("ask1", "ask2", "before", "after")
ORDERS = list(itertools.permutations(HELD))
ANSWERS = list(itertools.product((True, False), repeat=len(HELD)))
MIXES = random.Random(20_260).sample(list(itertools.product(ORDERS, ANSWERS)), 12)


def layer(web: Server) -> list[dict[str, Any]]:
    waits = {"on_timeout": "keep_waiting", "on_reject": "fail"}
    before = {**waits, "trigger_phase": "BEFORE_EXECUTION"}
    after = {**waits, "trigger_phase": "AFTER_EXECUTION"}
    return [
        echo("fine1", 1),
        code("fine2", "n + 1", inputs={"n": 1}),
        fetch("ask1", web),
        fetch("ask2", web, permission_set="filesystem"),
        code("broken", "1 / 0"),
        echo("before", "b", human_review=before),
        echo("after", "a", human_review=after),
        code("slow", "while True:\n    pass", timeout_seconds=0.3),
        # What waits for each of the held ones, and for nothing of the rest.
        *(echo(f"then_{name}", {"$from": name}) for name in HELD),
    ]


@pytest.mark.parametrize(("order", "answers"), MIXES)
def test_every_order_of_decisions_ends_right(
    desk: Desk, web: Server, order: tuple[str, ...], answers: tuple[bool, ...]
) -> None:
    approved = dict(zip(HELD, answers, strict=True))
    execution = desk.run(*layer(web))
    _all_wait(desk, execution)
    asked = len(web.seen)
    for number, name in enumerate(order, start=1):
        desk.decide(desk.hold(execution, name), "APPROVE" if approved[name] else "REJECT")
        execution = desk.drive(execution)
        rests = number < len(order)
        assert (execution.status == "PAUSED_FOR_REVIEW") is rests
    assert execution.status == "FAILED"  # broken and slow are leaves
    assert len(web.seen) - asked == approved["ask1"] + approved["ask2"]
    _check_ends(desk, execution, approved)


def _all_wait(desk: Desk, execution: Execution) -> None:
    """One hold for each, all at once, and no sibling's result is lost."""
    held = execution.holds.filter(status="OPEN")
    assert sorted(held.values_list("task_id", flat=True)) == sorted(HELD)
    assert desk.statuses(execution) == {
        "fine1": "SUCCEEDED",
        "fine2": "SUCCEEDED",
        "after": "SUCCEEDED",
        "broken": "FAILED",
        "slow": "FAILED",
    }


def _check_ends(desk: Desk, execution: Execution, approved: dict[str, bool]) -> None:
    ends = desk.statuses(execution)
    bad = {"ask1": "FAILED", "ask2": "FAILED", "before": "REJECTED", "after": "REJECTED"}
    for name, yes in approved.items():
        assert ends[name] == ("SUCCEEDED" if yes else bad[name])
        assert ends[f"then_{name}"] == ("SUCCEEDED" if yes else "SKIPPED")
    outputs = {"ask1": ANSWER, "ask2": ANSWER, "before": "b", "after": "a"}
    for name, output in outputs.items():
        if approved[name]:
            assert desk.output(execution, f"then_{name}") == output
    # FinishedTask work ran once, whatever was decided around it.
    for name in ("fine1", "fine2", "broken", "slow", "after"):
        assert execution.attempts.filter(task_id=name).count() == 1
