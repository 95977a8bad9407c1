"""Pages that said something wrong: policy, tools, comparison, record and tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from reviews.decisions.edits import payload_schema, shown_payload
from reviews.decisions.masking import mark
from reviews.insights import statistics
from reviews.insights.statistics import Period, Scope
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, decide, echo, only_hold
from tests.support.pages import open_page
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Workflow
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"


WRITE = {
    "id": "write",
    "type": "tool",
    "tool": "builtin.write_file",
    "arguments": {"path": "x.md", "content": {"$from": "a", "select": "value"}},
}


@pytest.mark.parametrize(
    ("required", "tasks", "sentence"),
    [
        (
            "critical_only",
            [echo("a"), WRITE],
            "Before each layer that can modify data (here 2): the reviewer group approves it."
            " Other layers need no approval. If nobody decides within 5 min, the run is aborted.",
        ),
        (
            "critical_only",
            [echo("a")],
            "Before each layer that can modify data: the reviewer group approves it."
            " This plan has no such layer.",
        ),
        ("always", [echo("a"), WRITE], "Before each layer: the reviewer group approves it."),
        ("never", [echo("a"), WRITE], "None: the workflow runs without reviews."),
    ],
)
def test_a_workflow_names_the_layers_that_need_approval(
    start: Start, operator: User, required: str, tasks: list[Any], sentence: str
) -> None:
    start(echo("warm"))
    hil = {"enabled": True, "approval_required": required}
    workflow = Workflow.objects.create(
        name="signed", title="Signed", plan={"tasks": tasks}, policy={"hil": hil}
    )
    assert sentence in open_page(operator, f"/workflows/{workflow.pk}/").text


def approve(user: User, execution: Execution, **answer: Any) -> None:
    hold = only_hold(execution)
    decide(hold, user, source="web", **{"decision": "APPROVE", **answer})


def test_a_secret_has_the_number_in_its_card_that_reveals_it(start: Start, reviewer: User) -> None:
    """The payload of the approval has other secrets besides, such as in its summary."""
    first = echo("a", {"password": "hunter2hunter2"})
    second = {**echo("b", {"password": "other2other2"}), "depends_on": ["a"]}
    run = start(first, second, policy={"hil": {"enabled": True, "approval_required": "always"}})
    approve(reviewer, run)
    run_to_rest(run.pk)
    hold = only_hold(run)
    view = shown_payload(hold, payload_schema(hold))
    number = next(each.number for each in view.secrets if each.value == "other2other2")
    text = open_page(reviewer, f"/review/{run.pk}/{hold.pk}/").text
    card = text[text.index("Next tasks") :]
    assert mark(number) in card


def test_a_layer_is_no_tool(start: Start, reviewer: User, auditor: User) -> None:
    approve(reviewer, start(echo("a"), policy={"hil": {"enabled": True}}))
    approve(reviewer, start(echo("a", phase=BEFORE)))
    scope = Scope(auditor, Period.of(7, today=timezone.now().date()))
    assert {name for name, _ in statistics.tally_by(scope, "reason")} == {
        "layer_approval",
        "node_review",
    }
    assert [name for name, _ in statistics.tally_by(scope, "tool")] == ["builtin.echo"]


def test_a_record_marks_only_what_the_edit_changed(
    start: Start, auditor: User, reviewer: User
) -> None:
    execution = start(echo("a", {"keep": "alpha", "change": "beta"}, phase=BEFORE))
    approve(reviewer, execution, edits={"value": {"keep": "alpha", "change": "gamma"}})
    run_to_rest(execution.pk)
    record = HumanReviewRecord.objects.get()
    page = open_page(auditor, f"/history/{record.pk}/")
    # Executed as edited: the executed data marks no difference.
    assert page.names("mark") == ["beta", "gamma"]
    assert f"{timezone.localtime(record.reviewed_at):%B %Y}, " in page.text


def test_a_token_of_ninety_days_has_ninety_days_left(operator: User) -> None:
    ends = timezone.now() + timedelta(days=90)
    create_token(user=operator, name="trial", scopes=["read"], expires_at=ends)
    assert "90 days left" in open_page(operator, "/tokens/").text


def test_a_layer_has_a_summary_of_the_one_before(start: Start, reviewer: User) -> None:
    policy = {"hil": {"enabled": True}}
    execution = start(echo("a"), echo("b", {"$from": "a"}), policy=policy)
    summaries = []
    for _ in range(2):
        hold = execution.holds.get(status="OPEN")
        page = open_page(reviewer, f"/review/{execution.pk}/{hold.pk}/")
        summaries.append("Summary of the layer before" in page.text)
        approve(reviewer, execution)
        run_to_rest(execution.pk)
    assert summaries == [False, True]
