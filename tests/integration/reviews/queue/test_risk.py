"""One measure of risk: a write is as risky in a layer, a plan change or an outside approval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rest_framework.test import APIClient

from graphrag.models import Tool
from reviews.queue import bulk, selectors
from reviews.queue.filters import parse_queue_filters, risk_of
from reviews.queue.key_arguments import payload_schemas_by_target, task_arguments
from reviews.slack.messages import fact_texts
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.integration.reviews.queue.test_queue import chosen
from tests.support.pages import browser
from workflows.approvals import services as approvals
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Hold
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
LAYERS = {"hil": {"enabled": True, "approval_required": "always"}}


def call(tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "call", "type": "tool", "tool": tool, "arguments": arguments, **more}


def api(user: User, scope: str) -> APIClient:
    _, text = create_token(user=user, name="desk", scopes=["read", scope])
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {text}")


def in_layer(start: Start, task: dict[str, Any], *others: dict[str, Any]) -> Hold:
    return only_hold(start(task, *others, policy=LAYERS))


def in_plan_change(start: Start, operator: User, task: dict[str, Any]) -> Hold:
    execution = start(
        echo("first"),
        echo("second", {"$from": "first"}),
        policy={"per_layer_validation": True, "replan_review": True},
    )
    for body in ({"kind": "inject_task", "task": task}, {"kind": "continue"}):
        path = f"/api/v1/executions/{execution.pk}/commands/"
        answer = api(operator, "run").post(path, body, format="json")
        assert answer.status_code in (200, 202), answer.content
    execution = run_to_rest(execution.pk)
    return execution.holds.select_related("execution").get(reason="replan_review")


def outside(operator: User, tool: str, arguments: dict[str, Any], **fields: Any) -> Hold:
    action = {"name": tool, "arguments": arguments}
    fields = {"action": action, "phase": BEFORE, "risk": "low", **fields}
    approval = approvals.ask(actor=operator, fields=fields)
    run_to_rest(approval.execution_id)
    return only_hold(Execution.objects.get(pk=approval.execution_id))


def everywhere(
    start: Start, operator: User, tool: str, arguments: dict[str, Any]
) -> dict[str, Hold]:
    """The holds of one call: in a task review, a layer, a plan change and an outside approval."""
    task = call(tool, arguments)
    reviewed = {**task, "human_review": {"trigger_phase": BEFORE}}
    return {
        "task review": only_hold(start(reviewed)),
        "layer": in_layer(start, task, echo("harmless")),
        "plan change": in_plan_change(start, operator, task),
        "outside approval": outside(operator, tool, arguments),
    }


def test_a_write_has_the_same_risk_everywhere(start: Start, operator: User, reviewer: User) -> None:
    holds = everywhere(start, operator, "builtin.write_file", {"path": "a.txt", "content": "text"})
    assert {name: risk_of(hold) for name, hold in holds.items()} == dict.fromkeys(holds, "high")
    ids = {hold.id for hold in holds.values()}
    viewer = selectors.Viewer(reviewer)
    listed = selectors.queue(viewer, "open", parse_queue_filters({"risk": "high"}))
    assert {hold.id for hold in listed} == ids
    rows = browser(reviewer).get("/review/?tab=open").context["rows"]
    shown = {row["hold_id"]: (row["risk"], row["risk_word"]) for row in rows}
    assert shown == dict.fromkeys(ids, ("high", "High risk"))
    found = api(reviewer, "decide").get("/api/v1/reviews/pending/?risk=high").json()["results"]
    assert {each["hold_id"] for each in found} == ids

    assert {fact_texts(hold)[0] for hold in holds.values()} == {"High risk"}

    approve = bulk.Request(action="approve")
    outcomes = bulk.apply_to_all(chosen=chosen(*holds.values()), request=approve, user=reviewer)
    assert [outcome.code for outcome in outcomes] == ["high_risk"] * len(holds)
    assert {hold.status for hold in Hold.objects.filter(pk__in=ids)} == {"OPEN"}


def test_reading_has_the_same_risk_everywhere(start: Start, operator: User) -> None:
    holds = everywhere(start, operator, "builtin.echo", {"value": "text"})
    assert {name: risk_of(hold) for name, hold in holds.items()} == dict.fromkeys(holds, "low")


def test_the_marks_of_the_catalogue_count(start: Start, operator: User) -> None:
    """A tool that can destroy data is of high risk with the permissions of one that reads."""
    start(echo("a"))
    Tool.objects.filter(name="builtin.echo").update(destructive=True, read_only=False)
    task = call("builtin.echo", {"value": "text"})
    holds = {
        "task review": only_hold(start({**task, "human_review": {"trigger_phase": BEFORE}})),
        "layer": in_layer(start, task),
        "outside approval": outside(operator, "builtin.echo", {"value": "text"}),
    }
    assert {name: risk_of(hold) for name, hold in holds.items()} == dict.fromkeys(holds, "high")


def test_bulk_shows_the_arguments_of_each_task(
    start: Start, operator: User, reviewer: User
) -> None:
    secret = {"value": {"recipient": "Pear", "password": "hunter2hunter2"}}
    layer = in_layer(
        start,
        call("builtin.echo", secret),
        {**echo("later", {"amount": 12.5, "to": {"$from": "call"}}), "depends_on": []},
    )
    change = in_plan_change(start, operator, call("builtin.echo", {"value": {"path": "b.txt"}}))
    holds = [layer, change]
    assert {risk_of(hold) for hold in holds} == {"low"}
    schemas = payload_schemas_by_target(holds)
    assert [(t.title, dict(t.arguments)) for t in task_arguments(layer, schemas)] == [
        ("call: echo", {"recipient": "Pear"})
    ]
    assert [(t.title, dict(t.arguments)) for t in task_arguments(change, schemas)] == [
        ("call: echo", {"path": "b.txt"})
    ]
    page = browser(reviewer).get("/review/?tab=open").content.decode()
    assert page.count("data-tasks") == len(holds)
    assert "Pear" in page
    assert "b.txt" in page
    assert "hunter2" not in page


def test_many_tasks_and_long_values_are_cut(start: Start) -> None:
    tasks = [{**echo(f"t{n}", {"path": "p" * 250}), "depends_on": []} for n in range(15)]
    layer = in_layer(start, *tasks)
    lines = task_arguments(layer, payload_schemas_by_target([layer]))
    assert len(lines) == 13
    assert lines[-1].title == "3 more tasks"
    assert all(len(text) <= 60 for line in lines for _name, text in line.arguments)
