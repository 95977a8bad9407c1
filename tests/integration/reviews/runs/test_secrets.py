"""Secrets beside the payload: changed plans, the timeline, the list of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from graphrag.models import Tool
from reviews.decisions.masking import mark
from tests.integration.reviews.conftest import Start, decide, echo, only_hold
from tests.integration.reviews.queue.test_queue import api
from tests.support.actors import actor_named
from tests.support.pages import Page, browser, open_page
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import parse_command, start_execution, submit_command
from workflows.models import Execution, Hold, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
CITY = {"type": "object", "properties": {"city": {"type": "string", "format": "password"}}}


def test_secret_workflow_inputs_are_masked(start: Start, operator: User, reviewer: User) -> None:
    plan = {"tasks": [echo("a", phase=BEFORE)]}
    workflow = Workflow.objects.create(name="w", title="W", plan=plan, inputs_schema=CITY)
    first, second = (
        run_to_rest(
            start_execution(actor=operator, workflow=workflow, plan=None, inputs={"city": city}).pk
        )
        for city in ("Graz", "Linz")
    )
    for run in (first, second):
        page = open_page(operator, f"/runs/{run.pk}/")
        assert "Graz" not in page.html
        assert "Linz" not in page.html
    told = api(reviewer).get(f"/api/v1/reviews/pending/{first.pk}/").json()
    assert told["inputs"] == {"city": mark(1)}


# --- plans that change ----------------------------------------------------------------------------


def test_a_changed_plan_is_shown_without_its_secrets(start: Start, operator: User) -> None:
    later = {**echo("later", {"password": "was-secret"}), "depends_on": ["first"]}
    hold = only_hold(start(echo("first", phase=BEFORE), later))
    command = parse_command(
        {
            "kind": "modify_args",
            "task_id": "later",
            "arguments": {"value": {"password": "is-secret", "n": 1}},
        }
    )
    submit_command(
        execution_id=hold.execution_id,
        command=command,
        actor=actor_named("operator"),
        source="test",
    )
    run_to_rest(hold.execution_id)
    page = open_page(operator, f"/runs/{hold.execution_id}/plan/2/")
    assert "arguments.value.password" in page.text
    assert "was-secret" not in page.html
    assert "is-secret" not in page.html


# --- the run --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["policy", "schema"])
def test_an_edit_in_the_timeline_is_masked_like_its_payload(
    start: Start, reviewer: User, how: str
) -> None:
    policy = {"secrets": ["value.city"]} if how == "policy" else {}
    hold = only_hold(start(echo("a", {"city": "Graz"}, phase=BEFORE), policy=policy))
    if how == "schema":
        schema = {"type": "object", "properties": {"value": CITY}}
        Tool.objects.filter(name="builtin.echo").update(input_schema=schema, output_schema=CITY)
    decide(hold, reviewer, edits={"value": {"city": "Linz"}})
    page = open_page(reviewer, f"/runs/{hold.execution_id}/")
    assert "hold_decided" in page.text
    assert "Linz" not in page.html


def test_the_list_of_runs_masks_errors(start: Start, operator: User) -> None:
    run = start(echo("a", phase=BEFORE))
    Hold.objects.filter(execution=run).update(status="CLOSED")
    Execution.objects.filter(pk=run.pk).update(
        status="FAILED", version=F("version") + 1, error="no use: password=hunter22"
    )
    page = open_page(operator, "/runs/")
    assert "no use: password=" in page.text
    assert "hunter22" not in page.html


# --- how it is read -------------------------------------------------------------------------------


def test_upstream_values_are_read_in_one_query(start: Start, reviewer: User) -> None:
    def asked(number: int) -> int:
        before = [echo(f"b{each}") for each in range(number)]
        last = {**echo("last", phase=BEFORE), "depends_on": [each["id"] for each in before]}
        hold: Hold = only_hold(start(*before, last))
        client = browser(reviewer)
        with CaptureQueriesContext(connection) as seen:
            page: Any = client.get(f"/review/{hold.execution_id}/{hold.id}/")
        summaries = Page(page).texts("summary")
        assert sum(each.startswith("b") for each in summaries) >= number
        return len(seen)

    asked(1)
    assert asked(2) == asked(6)
