"""Runs that need permissions: a local server to reach, and deciders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from reviews.decisions.services import DecisionRequest, DecisionResult, decide
from tests.support.catalogue import stock_catalogue
from tests.support.http_server import Server, running
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.models import Capability, Execution, Hold, Workflow
from workflows.permissions.capabilities import make_capability

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: One request each; the answer's text is the output.
FETCH = {
    "python": 'answer = fetch(url)\nprint("asked")\nanswer["text"]',
    "typescript": 'const answer = await fetch(url);\nconsole.log("asked");\nreturn answer.text();',
}
LANGUAGES = sorted(FETCH)


def address(web: Server) -> str:
    """What the local server is called in a permission."""
    return f"127.0.0.1:{web.port}"


def page(web: Server) -> str:
    return f"http://{address(web)}/large?bytes=5"


#: What the page says.
ANSWER = "xxxxx"


@pytest.fixture(scope="session")
def web() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def desk(transactional_db: None, settings: Any, tmp_path: Path) -> Desk:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "sandbox_root": tmp_path / "sandbox"}
    stock_catalogue()
    return Desk()


class Desk:
    """What tests say about runs and people."""

    def __init__(self) -> None:
        self.operator = self.person("operator", "operator")
        self.reviewer = self.person("reviewer", "reviewer")

    def person(self, name: str, *groups: str) -> User:
        user = get_user_model().objects.create_user(name, password="secret")
        user.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
        return user

    def run(self, *tasks: dict[str, Any], **more: Any) -> Execution:
        more.setdefault("actor", self.operator)
        if "workflow" not in more:
            more["plan"] = {"tasks": list(tasks)}
        return run_to_rest(start_execution(**more).pk)

    def drive(self, execution: Execution) -> Execution:
        return run_to_rest(execution.pk)

    def workflow(self, name: str, *tasks: dict[str, Any], **fields: Any) -> Workflow:
        plan = {"tasks": list(tasks)}
        return Workflow.objects.create(name=name, title=name, plan=plan, **fields)

    def hold(self, execution: Execution, task_id: str | None = None) -> Hold:
        holds = execution.holds.filter(status="OPEN")
        return holds.get(task_id=task_id) if task_id else holds.get()

    def decide(
        self, hold: Hold, decision: str = "APPROVE", *, user: User | None = None, **more: Any
    ) -> DecisionResult:
        version = Execution.objects.get(pk=hold.execution_id).version
        return decide(
            DecisionRequest(
                hold_id=hold.pk,
                user=user or self.reviewer,
                decision=decision,
                version=version,
                source="test",
                **more,
            )
        )

    def approve(self, execution: Execution, task_id: str | None = None, **more: Any) -> Execution:
        """Approve the open hold and go on until the run rests again."""
        self.decide(self.hold(execution, task_id), **more)
        return self.drive(execution)

    def reject(self, execution: Execution, task_id: str | None = None, **more: Any) -> Execution:
        self.decide(self.hold(execution, task_id), "REJECT", **more)
        return self.drive(execution)

    def output(self, execution: Execution, task_id: str) -> Any:
        return execution.attempts.get(task_id=task_id, settled=True).output

    def error(self, execution: Execution, task_id: str) -> str:
        return str(execution.attempts.get(task_id=task_id, settled=True).error)

    def statuses(self, execution: Execution) -> dict[str, str]:
        rows = execution.attempts.filter(settled=True)
        return dict(rows.values_list("task_id", "status"))

    def capability(self, name: str, language: str, web: Server, **more: Any) -> Capability:
        """A capability that fetches a page, made from a task to which that was granted."""
        made = self.run(fetch("first", web, language))
        made = self.approve(made)
        more.setdefault("approval_mode", "auto")
        return make_capability(
            actor=self.operator, execution=made, task_id="first", name=name, **more
        )


def code(name: str, source: str, language: str = "python", **more: Any) -> dict[str, Any]:
    task = {"id": name, "type": "code_execution", "language": language, "code": source}
    return {**task, **more}


def fetch(name: str, web: Server, language: str = "python", **more: Any) -> dict[str, Any]:
    """A task that asks the local server for a page."""
    more.setdefault("inputs", {"url": page(web)})
    return code(name, FETCH[language], language, **more)


def use(name: str, capability: str, **inputs: Any) -> dict[str, Any]:
    return {"id": name, "type": "capability", "capability": capability, "inputs": inputs}


def echo(name: str, value: Any = "text", **more: Any) -> dict[str, Any]:
    arguments = {"value": value}
    return {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": arguments, **more}
