"""The result of a finished run: the files it wrote, and the outputs of its last tasks."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.decisions.masking import Rules, masked
from reviews.runs import results
from workflows.engine.plans.validation import parse_plan
from workflows.executions.selectors import TaskView
from workflows.models import Execution

#: The id of a task: its inputs, its permission set and its status.
TASKS: dict[str, tuple[Any, str, str]] = {
    "write": ({"path": "NOTES.md", "content": "x"}, "filesystem", "SUCCEEDED"),
    "again": ({"path": "NOTES.md", "content": "y"}, "filesystem", "SUCCEEDED"),
    "named": ({"filename": "b.csv"}, "trusted", "SUCCEEDED"),
    "read": ({"path": "read.md"}, "readonly", "SUCCEEDED"),
    "failed": ({"path": "never.md"}, "filesystem", "FAILED"),
    "odd": (["path"], "filesystem", "SUCCEEDED"),
    "unnamed": ({"path": 5}, "filesystem", "SUCCEEDED"),
}


def panel(monkeypatch: pytest.MonkeyPatch, status: str) -> dict[str, Any] | None:
    plan = parse_plan(
        {"tasks": [{"id": name, "type": "tool", "tool": "unit.value"} for name in TASKS]}
    )
    monkeypatch.setattr(results, "revision_of", lambda _execution: type("R", (), {"plan": plan}))
    views = [
        TaskView(name, name, "tool", "unit.value", 0, (), permissions, end)
        for name, (_inputs, permissions, end) in TASKS.items()
    ]
    shown = {
        (name, "inputs"): masked(inputs, Rules(None, ()))
        for name, (inputs, *_rest) in TASKS.items()
    }
    shown |= {(name, "output"): masked(f"of {name}", Rules(None, ())) for name in TASKS}
    return results.result_panel(Execution(status=status), views, shown)


def test_files_are_named_once_by_the_tasks_that_wrote_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = panel(monkeypatch, "COMPLETED")
    assert found is not None
    assert found["files"] == ("NOTES.md", "b.csv")
    assert [each["id"] for each in found["outputs"]] == [name for name in TASKS if name != "failed"]


def test_a_live_run_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    assert panel(monkeypatch, "RUNNING") is None
