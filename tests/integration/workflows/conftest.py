"""Runs driven in this process, with the toolkit's tools in the catalogue."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import toolkit  # importing it declares its tools
from tests.support.actors import actor_named
from tests.support.catalogue import stock_catalogue
from workflows.engine.protocol.actors import Actor
from workflows.engine.protocol.commands import ApprovalResponse
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import (
    CommandResult,
    parse_command,
    start_execution,
    submit_command,
)
from workflows.models import Execution, Hold


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the toolkit notes its calls."""
    path = tmp_path / "ledger.jsonl"
    monkeypatch.setenv("HOLDPOINT_TEST_LEDGER", str(path))
    return path


@pytest.fixture
def engine(transactional_db: None, ledger: Path) -> "Engine":
    """A database with tools in its catalogue, and short words for driving runs."""
    stock_catalogue()
    return Engine()


class Engine:
    """What tests say about runs."""

    def start(self, *tasks: dict[str, Any], **more: Any) -> Execution:
        return start_execution(actor=None, plan={"tasks": list(tasks)}, **more)

    def run(self, *tasks: dict[str, Any], **more: Any) -> Execution:
        return self.drive(self.start(*tasks, **more))

    def drive(self, execution: Execution) -> Execution:
        return run_to_rest(execution.pk)

    def command(self, execution: Execution, data: dict[str, Any], **more: Any) -> CommandResult:
        return submit_command(
            execution_id=execution.pk,
            command=parse_command(data),
            actor=Actor(more.pop("actor", "somebody")),
            source="test",
            **more,
        )

    def decide(
        self, hold: Hold, *, approved: bool = True, actor: str = "somebody", **edits: Any
    ) -> CommandResult:
        command = ApprovalResponse(hold=hold.pk, approved=approved, **edits)
        return submit_command(
            execution_id=hold.execution_id, command=command, actor=actor_named(actor), source="test"
        )

    def holds(self, execution: Execution) -> list[Hold]:
        return list(execution.holds.filter(status="OPEN").order_by("opened_seq"))

    def kinds(self, execution: Execution) -> list[str]:
        return list(execution.events.order_by("seq").values_list("kind", flat=True))

    def statuses(self, execution: Execution) -> dict[str, str]:
        rows = execution.attempts.filter(settled=True)
        return dict(rows.values_list("task_id", "status"))

    def called(self, execution: Execution, what: str = "call") -> list[str]:
        return [each["task"] for each in toolkit.calls(execution.pk) if each["what"] == what]


def value(name: str, value: Any = None, **more: Any) -> dict[str, Any]:
    """A task that gives a value back."""
    arguments = {"value": value}
    return {"id": name, "type": "tool", "tool": "testkit.value", "arguments": arguments, **more}


def review(phase: str, **more: Any) -> dict[str, Any]:
    """A task's human_review."""
    return {"human_review": {"trigger_phase": f"{phase}_EXECUTION", **more}}


def source(name: str, select: str | None = None) -> dict[str, Any]:
    return {"$from": name} if select is None else {"$from": name, "select": select}
