"""Who reviews a tool that can destroy data: the author of a plan chooses no group of their own."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from graphrag.models import Tool
from tests.integration.workflows.api.conftest import BearerFor, plain_plan
from workflows.models import Execution, Workflow

URL = "/api/v1/executions/"
ESCALATION = [{"after_seconds": 1, "groups": ["own"]}]


@pytest.fixture(autouse=True)
def destructive(catalogue: None) -> None:
    Tool.objects.filter(name="builtin.write_file").update(destructive=True)


def wipe(**review: Any) -> dict[str, Any]:
    task: dict[str, Any] = {"id": "wipe", "type": "tool", "tool": "builtin.write_file"}
    task["arguments"] = {"path": "a", "content": "b"}
    return {**task, "human_review": review} if review else task


def errors_of(answer: Any) -> set[tuple[str, str]]:
    assert answer.status_code == 422, answer.content
    return {(each["path"], each["code"]) for each in answer.json()["errors"]}


def start_plan(client: APIClient, policy: dict[str, Any] | None = None, **review: Any) -> Any:
    body = {"plan": {"tasks": [wipe(**review)]}, "policy": policy or {}}
    return client.post(URL, body, format="json")


def test_an_author_chooses_no_other_group(bearer: BearerFor) -> None:
    review = "plan.tasks[0].human_review"
    attempts: list[tuple[str, dict[str, Any]]] = [
        (f"{review}.groups[0]", {"groups": ["own"]}),
        (f"{review}.groups[1]", {"groups": ["reviewer", "own"]}),
        (f"{review}.escalation[0].groups[0]", {"escalation": ESCALATION}),
        ("policy.escalation[0].groups[0]", {"policy": {"escalation": ESCALATION}}),
        (
            f"{review}.groups[0]",
            {"groups": ["own"], "policy": {"hil": {"enabled": True, "groups": ["own"]}}},
        ),
    ]
    clients = {
        "integrator": bearer("integrator"),
        "an operator's token without loosen": bearer("operator", ["read", "run"]),
    }
    for who, client in clients.items():
        for path, fields in attempts:
            assert errors_of(start_plan(client, **fields)) == {(path, "other_reviewers")}, who
    assert not Execution.objects.exists()


def test_the_groups_of_the_policy_and_of_the_floor_are_allowed(
    bearer: BearerFor, settings: Any
) -> None:
    client = bearer("integrator")
    allowed: list[dict[str, Any]] = [
        {},
        {"groups": ["reviewer"]},
        {"enabled": False, "groups": ["own"]},  # which the required review replaces
    ]
    for fields in allowed:
        answer = start_plan(client, **fields)
        assert answer.status_code == 201, (fields, answer.content)
    # Who may loosen a policy may choose the group.
    assert start_plan(bearer("operator"), groups=["own"]).status_code == 201
    floor = {"replan_review": {"enabled": True, "groups": ["own"]}}
    settings.HOLDPOINT = {**settings.HOLDPOINT, "policy_floor": floor}
    assert start_plan(client, groups=["own"]).status_code == 201


def test_an_injected_task_goes_to_groups_of_the_workflow(
    bearer: BearerFor, workflow: Workflow
) -> None:
    """`workflow` has an open review; its plan names `reviewer` at first."""
    client = bearer("integrator")
    run = client.post(URL, {"workflow": "echo"}, format="json").json()["id"]
    adhoc = client.post(URL, {"plan": plain_plan()}, format="json").json()["id"]
    command = {"kind": "inject_task", "task": wipe(groups=["own"])}
    for execution in (run, adhoc):
        refused = client.post(f"{URL}{execution}/commands/", command, format="json")
        assert errors_of(refused) == {("task.human_review.groups[0]", "other_reviewers")}
    workflow.plan["tasks"][0]["human_review"]["groups"] = ["own"]
    workflow.save()
    taken = client.post(f"{URL}{run}/commands/", command, format="json")
    assert taken.status_code in (200, 202), taken.content
