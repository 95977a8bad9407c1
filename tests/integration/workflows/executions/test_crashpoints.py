"""A process dies at every crash point, several times each; every run is recovered.

`make test-long` kills twenty times per point.
"""

import ast
import itertools
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django_rq
import pytest
from django.contrib.auth import get_user_model
from hypothesis import given
from hypothesis import strategies as st

from reviews.models import HumanReviewRecord
from tests.architecture.files import package_modules
from tests.integration.workflows.conftest import Engine
from tests.integration.workflows.executions import crash_driver
from tests.support import toolkit
from tests.support.groups import group_of
from tests.support.processes import ROOT, environment
from tests.support.repetitions import often
from workflows.common import crashpoints
from workflows.common.crashpoints import EXIT_CODE, POINTS
from workflows.executions.recovery import sweep
from workflows.models import Execution

KILLS = often(5, 20)
EPOCH = "2000-01-01T00:00Z"


class Driver:
    """The process that forks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **request: Any) -> tuple[int, dict[str, int]]:
        """Exit status of the child and what it told."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        return answer["status"], answer["reached"]

    def live(self, title: str, kind: str, crash: str = "") -> tuple[int, dict[str, int]]:
        return self.ask(do="live", title=title, kind=kind, crash=crash)


@contextmanager
def driving() -> Iterator[Driver]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.workflows.executions.crash_driver"],
        cwd=ROOT,
        env=environment(HOLDPOINT_ROLE="worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Driver(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=30)


def kill_at(driver: Driver, point: str, counts: dict[str, dict[str, int]]) -> None:
    """KILLS lives that end at `point`, spread over every time it is reached in either life."""
    places = [
        (kind, nth)
        for kind, reached in counts.items()
        for nth in range(1, reached.get(point, 0) + 1)
    ]
    assert places, f"no life reaches {point}"
    for number in range(KILLS):
        kind, nth = places[number % len(places)]
        status, _ = driver.live(f"{point}/{number}", kind, f"{point}:{nth}")
        if status != EXIT_CODE:
            # Timing decides how often a point is reached; the first time is always there.
            status, _ = driver.live(f"{point}/{number}/again", kind, point)
        assert status == EXIT_CODE, (point, kind, nth)


def let_time_pass() -> None:
    """Leases run out, waits are over, and nobody has been sent for in ages."""
    left = Execution.objects.exclude(status__in=crash_driver.FINAL)
    left.filter(lease_until__isnull=False).update(lease_until=EPOCH)
    left.filter(wake_at__isnull=False).update(wake_at=EPOCH)
    left.update(dispatched_at=EPOCH)
    Execution.objects.filter(queued_commands__gt=0).update(lease_until=None, dispatched_at=EPOCH)


def recover(driver: Driver) -> int:
    """Sweeper, a worker and the reviewer go round until all is done; how often they went."""
    for rounds in range(1, 16):
        let_time_pass()
        sweep()
        status, _ = driver.ask(do="drain")
        assert status == 0
        left = Execution.objects.exclude(status__in=crash_driver.FINAL)
        for execution_id in left.values_list("pk", flat=True):
            crash_driver.decide_all(execution_id)
        if not left.exists():
            return rounds
    raise AssertionError(list(left.values_list("title", "status", "error")))


@pytest.fixture
def reviewer(transactional_db: None) -> None:
    user = get_user_model().objects.create_user("reviewer")
    user.groups.add(group_of("reviewer"))


#: No execution of this module sends messages, asks for approval, is erased or runs remotely; see
#: reviews/notifications/test_outgoing_messages.py, workflows/approvals/test_asking.py,
#: reviews/retention/test_erasing.py and workflows/remote/test_crashes.py.
ELSEWHERE = {
    "message.sent",
    "slack_message.sent",
    "security_events.sent",
    "approval.created",
    "gate.sent",
    "gate.answered",
    "retention.erased",
    "remote.woken",
}


def test_a_crash_at_any_point_is_recovered(engine: Engine, reviewer: None) -> None:
    django_rq.get_queue("default").empty()
    with driving() as driver:
        counts = {kind: driver.live(f"whole/{kind}", kind)[1] for kind in crash_driver.LIVES}
        for point in sorted(POINTS - ELSEWHERE):
            kill_at(driver, point, counts)
        recover(driver)
    kinds = {execution.pk: kind_of(execution) for execution in Execution.objects.all()}
    assert len(kinds) >= KILLS * len(POINTS - ELSEWHERE)
    ledger = keys_by_task()
    for execution in Execution.objects.all():
        check(execution, kinds[execution.pk], ledger[str(execution.pk)])


def kind_of(execution: Execution) -> str:
    return "steered" if execution.policy["per_layer_validation"] else "plain"


def keys_by_task() -> dict[str, dict[str, set[str]]]:
    """Execution → task → the keys its tool was called with."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for call in toolkit.calls():
        found[call["execution"]][call["task"]].add(call["key"])
    return found


OUTPUTS = {
    "a": "nudged",
    "b": "recovered",
    "c": ["nudged", "recovered"],
    "d": ["nudged", "recovered"],
    "e": ["nudged", "recovered"],
    "f": ["nudged", "recovered"],
    "g": ["nudged", "recovered"],
}


def check(execution: Execution, kind: str, keys: dict[str, set[str]]) -> None:
    where = f"{execution.title} ({kind})"
    assert execution.status == crash_driver.LIVES[kind][2], where
    seqs = list(execution.events.order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, execution.version + 1)), where
    assert execution.queued_commands == 0, where
    assert not execution.commands.filter(taken_at__isnull=True).exists(), where
    # Every repetition of an attempt carries the attempt's key.  What an abort cut off is not
    # recorded, though its tool was called.
    tries = Counter(execution.attempts.values_list("task_id", flat=True))
    for name, found in keys.items():
        last = max(tries[name], kind == "steered")
        assert found == {f"{execution.pk}:{name}:{n}" for n in range(1, last + 1)}, where
    if kind == "plain":
        check_plain(execution, where)


def check_plain(execution: Execution, where: str) -> None:
    settled = execution.attempts.filter(settled=True, status="SUCCEEDED")
    assert dict(settled.values_list("task_id", "output")) == OUTPUTS, where
    holds = execution.holds.all()
    assert [each.status for each in holds] == ["APPROVED", "APPROVED"], where
    records = HumanReviewRecord.objects.filter(execution=execution)
    assert sorted(each.hold_id for each in records) == sorted(each.pk for each in holds), where
    kinds = list(execution.events.values_list("kind", flat=True))
    assert kinds.count("context_updated") == execution.commands.count(), where
    assert execution.context == {"nudged": True}, where


# --- the points themselves ----------------------------------------------------------------------


def calls_in(path: Path) -> list[str]:
    """Names given to `crashpoint(...)` in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "crashpoint"
        and isinstance(node.args[0], ast.Constant)
    ]


def test_every_crash_point_is_placed_once() -> None:
    modules = [*package_modules("workflows"), *package_modules("reviews")]
    placed = Counter(name for path in modules for name in calls_in(path))
    assert placed == Counter(POINTS)
    assert all(f"`{name}`" in (crashpoints.__doc__ or "") for name in POINTS)


@pytest.mark.parametrize("text", ["nowhere", "step.after:0", "step.after:x", "step.after:", ""])
def test_a_wrong_name_or_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"crash point|counts from|invalid literal"):
        crashpoints.parse(text)


@given(name=st.sampled_from(sorted(POINTS)), nth=st.integers(1, 50))
def test_a_crash_happens_at_the_nth_arrival(name: Any, nth: int) -> None:
    acted: list[int] = []
    arrivals = itertools.count(1)
    crashpoints.arm(f"{name}:{nth}", lambda: acted.append(next(arrivals)))
    try:
        for _ in range(nth - 1):
            crashpoints.crashpoint(name)
            crashpoints.crashpoint(next(iter(POINTS - {name})))  # type: ignore[arg-type]
        assert acted == []
        for _ in range(3):
            crashpoints.crashpoint(name)
    finally:
        crashpoints.set_observer(None)
    assert acted == [1]


def test_the_environment_enables_a_crash_point() -> None:
    code = (
        "from workflows.common.crashpoints import crashpoint; "
        "crashpoint('step.after'); print('alive')"
    )
    for armed, status in (("step.after", EXIT_CODE), ("step.before", 0), ("", 0)):
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, crashpoints.VARIABLE: armed},
            capture_output=True,
            check=False,
        )
        assert result.returncode == status
