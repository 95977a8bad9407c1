"""The script of the hooks as processes that ask, wait, and are ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping

import pytest

from reviews.contrib.coding_agents.client import hook
from reviews.contrib.coding_agents.models import HookCall
from tests.support.processes import wait_for
from tests.support.running_product import Reviewer, finished, start
from tests.support.running_product import (
    agent_environment as agent_environment,
)
from tests.support.running_product import reviewer as reviewer
from tests.support.running_product import server as server
from workflows.approvals.selectors import with_status
from workflows.models import Approval

from .test_hook_script import EVENTS

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_hook_script(reviewer: Reviewer, agent_environment: dict[str, str]) -> None:
    for name, event in EVENTS.items():
        command = [sys.executable, hook.__file__, name, "--timeout", "60"]
        process = start(command, agent_environment)
        assert process.stdin is not None
        process.stdin.write(json.dumps(event))
        process.stdin.close()
        process.stdin = None
        reviewer.decide("APPROVE")
        assert '"allow"' in finished(process)


def statuses() -> list[str]:
    rows = with_status(Approval.objects.order_by("pk"))
    return [row.status for row in rows]  # type: ignore[attr-defined]


def asking(env: Mapping[str, str], timeout: float = 60) -> subprocess.Popen[str]:
    """A hook process that has sent its event."""
    process = start([sys.executable, hook.__file__, "codex", "--timeout", str(timeout)], env)
    assert process.stdin is not None
    process.stdin.write(json.dumps(EVENTS["codex"]))
    process.stdin.close()
    process.stdin = None
    return process


def test_a_hook_that_ends_leaves_no_open_approval(agent_environment: dict[str, str]) -> None:
    late = asking(agent_environment, timeout=2)
    _, error = late.communicate(timeout=60)
    assert (late.returncode, "nobody decided in time" in error) == (2, True), error
    assert statuses() == ["cancelled"]
    for count, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), 2):
        process = asking(agent_environment)
        wait_for(lambda: statuses()[-1:] == ["pending"], what="an approval", seconds=60)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
        assert (process.returncode, "terminated" in error) == (2, True), error
        assert statuses() == ["cancelled"] * count, number


def test_a_retry_of_a_killed_hook_finds_the_open_approval(
    reviewer: Reviewer, agent_environment: dict[str, str]
) -> None:
    killed = asking(agent_environment)
    wait_for(lambda: statuses() == ["pending"], what="an approval", seconds=60)
    killed.kill()
    killed.communicate(timeout=60)
    both = [asking(agent_environment), asking(agent_environment)]
    wait_for(lambda: HookCall.objects.count() == 3, what="both retries wait", seconds=60)
    assert statuses() == ["pending"]
    assert HookCall.objects.filter(approval=Approval.objects.get()).count() == 3
    reviewer.decide("APPROVE")
    answers = [json.loads(finished(process))["hookSpecificOutput"] for process in both]
    behaviors = sorted(answer["decision"]["behavior"] for answer in answers)
    assert behaviors == ["allow", "deny"], "one approval allows one call"
