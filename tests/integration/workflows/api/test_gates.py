"""Reviews over REST: responses to commands that would bypass one, and its deciders."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now

from reviews.decisions.services import expire_due
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Hold

pytestmark = pytest.mark.django_db


def echo(name: str, value: Any, **more: Any) -> dict[str, Any]:
    arguments = {"value": value}
    return {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": arguments, **more}


def plan(**review: Any) -> dict[str, Any]:
    """Three layers; two people review the one in the middle before it runs."""
    review = {"quorum": 2, "on_reject": "abort", **review}
    return {
        "tasks": [
            echo("first", 1, human_review={"quorum": 1}),
            echo("gate", 2, depends_on=["first"], human_review=review),
            echo("last", {"$from": "gate"}),
        ]
    }


@pytest.fixture
def second_reviewer(people: dict[str, User]) -> User:
    user = User.objects.create_user("reviewer2")
    user.groups.add(Group.objects.get(name="reviewer"))
    people["reviewer2"] = user
    return user


def url(execution: Execution, what: str = "commands") -> str:
    return f"/api/v1/executions/{execution.pk}/{what}/"


def approve(bearer: Any, execution: Execution, role: str) -> int:
    execution.refresh_from_db()
    hold = execution.holds.get(status="OPEN")
    body = {"kind": "approval_response", "hold": hold.id, "approved": True}
    answer = bearer(role).post(url(execution), {**body, "version": execution.version})
    return int(answer.status_code)


def called(execution: Execution) -> set[str]:
    rows = execution.attempts.filter(status="SUCCEEDED")
    return set(rows.values_list("task_id", flat=True))


@pytest.mark.parametrize("layer", [{}, {"layer": 1}])
def test_a_reviewed_layer_cannot_be_skipped(bearer, start, second_reviewer, layer) -> None:
    """It completed a run whose quorum of two had not seen it."""
    execution = start("operator", plan())
    answer = bearer("operator").post(url(execution), {"kind": "skip_layer", **layer})
    assert (answer.status_code, answer.json()["reason"]) == (409, "gated")
    assert "needs the review of gate" in answer.json()["detail"]
    assert approve(bearer, execution, "reviewer") == 200
    assert run_to_rest(execution.pk).status == "PAUSED_FOR_REVIEW"
    assert called(execution) == {"first"}
    assert approve(bearer, execution, "operator") == 403
    assert approve(bearer, execution, "reviewer") == 200
    assert approve(bearer, execution, "reviewer") == 409
    assert run_to_rest(execution.pk).status == "PAUSED_FOR_REVIEW"
    assert approve(bearer, execution, "reviewer2") == 200
    assert run_to_rest(execution.pk).status == "COMPLETED"
    records = execution.review_records.filter(node_id="gate", decision="APPROVE")
    assert set(records.values_list("reviewer__username", flat=True)) == {"reviewer", "reviewer2"}


@pytest.mark.parametrize("state", ["open", "aborted"])
def test_a_fork_repeats_the_reviews(bearer, start, second_reviewer, state) -> None:
    execution = start("operator", plan())
    assert approve(bearer, execution, "reviewer") == 200
    run_to_rest(execution.pk)
    if state == "aborted":
        bearer("operator").post(url(execution), {"kind": "abort", "reason": "try another way"})
    point = execution.checkpoints.earliest("layer").pk
    body = {"checkpoint": str(point), "edits": {"context": {"gate": "open"}}}
    answer = bearer("operator").post(url(execution, "fork"), body)
    assert answer.status_code == 201, answer.content
    fork = run_to_rest(int(answer.json()["id"]))
    assert (fork.status, called(fork)) == ("PAUSED_FOR_REVIEW", {"first"})
    hold = fork.holds.get(status="OPEN")
    assert (hold.task_id, hold.quorum, hold.approvals) == ("gate", 2, [])
    assert fork.review_records.count() == 0


@pytest.mark.parametrize(
    ("on_timeout", "status"), [("reject", "ABORTED"), ("approve", "COMPLETED")]
)
def test_a_timeout_decision_has_its_own_record(
    bearer, start, second_reviewer, on_timeout, status
) -> None:
    execution = start("operator", plan(on_timeout=on_timeout, timeout_seconds=60))
    assert approve(bearer, execution, "reviewer") == 200
    run_to_rest(execution.pk)
    Hold.objects.filter(execution=execution, status="OPEN").update(expires_at=Now())
    assert expire_due() == 1
    assert run_to_rest(execution.pk).status == status
    record = execution.review_records.get(node_id="gate")
    assert (record.reviewer, record.actor, record.source) == (None, "system", "time")


@pytest.mark.parametrize("approved", [True, False])
def test_a_task_that_is_injected_under_plan_review_waits_for_a_person(
    bearer, people, catalogue, approved
) -> None:
    body = {
        "plan": {"tasks": [echo("first", 1), echo("last", {"$from": "first"})]},
        "policy": {"replan_review": True, "per_layer_validation": True},
    }
    client = bearer("operator")
    execution = run_to_rest(int(client.post("/api/v1/executions/", body).json()["id"]))
    task = echo("more", 3, depends_on=["first"])
    assert client.post(url(execution), {"kind": "inject_task", "task": task}).status_code == 200
    twice = client.post(url(execution), {"kind": "modify_args", "task_id": "last", "arguments": {}})
    assert (twice.status_code, twice.json()["reason"]) == (409, "replan_open")
    client.post(url(execution), {"kind": "continue"})
    execution = run_to_rest(execution.pk)
    hold = execution.holds.get(status="OPEN")
    assert (hold.reason, list(hold.payload["added"])) == ("replan_review", ["more"])
    answer = {"kind": "approval_response", "hold": hold.id, "approved": approved}
    assert bearer("reviewer").post(url(execution), answer).status_code == 200
    assert execution.review_records.get().reviewer == people["reviewer"]
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert ("more" in called(execution)) == approved
