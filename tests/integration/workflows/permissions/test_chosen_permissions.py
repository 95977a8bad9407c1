"""Permission sets in plans: limited by the role of the starter, over every interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rest_framework.test import APIClient

from graphrag.models import Tool
from tests.support.actors import actor_named
from workflows.engine.policy.permissions import NAMED
from workflows.engine.protocol.commands import InjectTask
from workflows.executions.access import actor_of
from workflows.executions.definitions import save_workflow
from workflows.executions.services import start_execution, submit_command
from workflows.executions.validation import InvalidRequest
from workflows.models import CommandLog, Execution, Workflow
from workflows.sandbox.checks import check_sandbox

from .conftest import Desk, code, echo

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SETS = sorted(NAMED)
#: The documented table (docs/howto/use-the-sandbox.md), by role.
UP_TO = {
    "reviewer": "mcp-standard",
    "integrator": "mcp-standard",
    "operator": "trusted",
    "admin": "trusted",
}


def problems(caught: pytest.ExceptionInfo[InvalidRequest]) -> list[tuple[str, str]]:
    return [(each.path, each.code) for each in caught.value.problems]


def may(role: str, name: str) -> bool:
    return NAMED[UP_TO[role]].covers(NAMED[name])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("role", sorted(UP_TO))
def test_a_role_chooses_up_to_its_ceiling(desk: Desk, role: str, name: str) -> None:
    person = desk.person("somebody", role)
    plan = {"tasks": [code("zero", "0"), code("one", "1", permission_set=name)]}
    fields = {"name": "kept", "title": "Kept", "plan": plan}
    if may(role, name):
        assert start_execution(actor=person, plan=plan).pk
        assert save_workflow(actor=person, fields=fields).pk
        return
    with pytest.raises(InvalidRequest) as started:
        start_execution(actor=person, plan=plan)
    assert problems(started) == [("plan.tasks[1].permission_set", "above_ceiling")]
    with pytest.raises(InvalidRequest) as saved:
        save_workflow(actor=person, fields=fields)
    assert problems(saved) == [("plan.tasks[1].permission_set", "above_ceiling")]
    assert not Execution.objects.exists()
    assert not Workflow.objects.exists()


def test_a_workflow_that_an_operator_saved_is_started_by_others(desk: Desk) -> None:
    plan = {"tasks": [code("one", "1", permission_set="trusted")]}
    fields = {"name": "kept", "title": "Kept", "plan": plan}
    workflow = save_workflow(actor=desk.operator, fields=fields)
    assert desk.run(workflow=workflow, actor=desk.reviewer).status == "COMPLETED"
    with pytest.raises(InvalidRequest, match="your role"):
        save_workflow(actor=desk.reviewer, fields={"plan": plan}, workflow=workflow)


def test_the_catalogues_permission_set_is_not_limited_by_the_role(desk: Desk) -> None:
    Tool.objects.filter(name="builtin.echo").update(permission_set="trusted")
    assert desk.run(echo("one"), actor=desk.reviewer).status == "COMPLETED"
    named = echo("two", permission_set="trusted")
    assert desk.run(named, actor=desk.reviewer).status == "COMPLETED"
    Tool.objects.filter(name="builtin.echo").update(permission_set="minimal")
    with pytest.raises(InvalidRequest, match="your role"):
        desk.run(named, actor=desk.reviewer)


@pytest.mark.parametrize(("role", "allowed"), [("operator", True), ("integrator", False)])
def test_an_injected_task_is_limited_by_the_role(desk: Desk, role: str, *, allowed: bool) -> None:
    execution = desk.run(echo("one", human_review={"on_timeout": "keep_waiting"}))
    person = desk.person("somebody", role)
    task = code("late", "1", permission_set="trusted")
    command = InjectTask.model_validate({"kind": "inject_task", "task": task})
    version = Execution.objects.get(pk=execution.pk).version
    give = {"execution_id": execution.pk, "command": command, "source": "test", "version": version}
    if allowed:
        assert submit_command(actor=actor_of(person), **give).outcome == "applied"
        return
    for actor in (actor_of(person), actor_named("agent:helper")):
        with pytest.raises(InvalidRequest) as caught:
            submit_command(actor=actor, **give)
        assert problems(caught) == [("task.permission_set", "above_ceiling")]
    assert CommandLog.objects.filter(execution=execution, outcome="invalid").count() == 2


def api(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def test_rest_answers_422_with_the_path(desk: Desk) -> None:
    plan = {"tasks": [code("one", "1", permission_set="trusted")]}
    answer = api(desk.reviewer).post("/api/v1/executions/", {"plan": plan})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {
            "path": "plan.tasks[0].permission_set",
            "code": "above_ceiling",
            "message": "your role does not let you choose 'trusted' for a task",
        }
    ]
    assert api(desk.operator).post("/api/v1/executions/", {"plan": plan}).status_code == 201


def test_an_unknown_ceiling_allows_no_set(desk: Desk, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "start_ceilings": {"*": "trustd"}}
    with pytest.raises(InvalidRequest):
        desk.run(code("one", "1", permission_set="readonly"))
    assert desk.run(code("one", "1")).status == "COMPLETED"
    told = [each.msg for each in check_sandbox(None) if each.id == "workflows.E104"]
    assert told
    assert "start ceiling" in told[0]
