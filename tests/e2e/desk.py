"""What several browser tests of the desk do: start a run of a plan, and wait until it stops."""

from __future__ import annotations

import time
from typing import Any

from tests.e2e.test_review import Api

SECONDS = 60


def echo(name: str, value: Any, phase: str = "", **review: Any) -> dict[str, Any]:
    """A `builtin.echo` task; with a phase it waits for the reviewers."""
    task = {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": {"value": value}}
    if phase:
        review = {"trigger_phase": phase, "on_timeout": "keep_waiting", **review}
        task["human_review"] = review
    return task


def started(api: Api, *tasks: dict[str, Any], **more: Any) -> str:
    """A new run of these tasks; its number, once it waits for somebody."""
    status, run = api("executions/", {"plan": {"tasks": list(tasks)}, **more})
    assert status == 201, run
    until(api, run["id"], "PAUSED_FOR_REVIEW")
    return str(run["id"])


def until(api: Api, run: str, *statuses: str) -> dict[str, Any]:
    """The run once it has one of these statuses."""
    deadline = time.monotonic() + SECONDS
    while True:
        code, found = api(f"executions/{run}/")
        assert code == 200, found
        if found["status"] in statuses:
            return dict(found)
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
