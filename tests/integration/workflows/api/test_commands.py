"""Commands over REST: applied, queued, stale, refused, malformed; and decisions."""

import pytest

from tests.integration.workflows.api.conftest import plain_plan, reviewed_plan
from workflows.engine.protocol.ports import TaskFailed
from workflows.journal.writer import DjangoJournal
from workflows.models import CommandLog, Execution

pytestmark = pytest.mark.django_db


def url(execution: Execution) -> str:
    return f"/api/v1/executions/{execution.pk}/commands/"


def test_a_command_is_applied_at_rest(bearer, start) -> None:
    execution = start("operator")
    body = {"kind": "abort", "reason": "enough", "version": execution.version}
    response = bearer("operator").post(url(execution), body)
    assert response.status_code == 200
    assert response.json() == {
        "outcome": "applied",
        "version": execution.version + 1,
        "status": "ABORTED",
    }
    log = CommandLog.objects.get(execution=execution)
    assert (log.kind, log.actor, log.source, log.outcome) == (
        "abort", "operator", "rest", "applied",
    )  # fmt: skip
    assert Execution.objects.get(pk=execution.pk).error == "enough"


def test_a_stale_version_is_409_with_the_current_state(bearer, start) -> None:
    execution = start("operator")
    body = {"kind": "abort", "version": execution.version - 1}
    response = bearer("operator").post(url(execution), body)
    assert response.status_code == 409
    problem = response.json()
    assert problem["code"] == "stale_version"
    (hold,) = execution.holds.all()
    assert problem["state"] == {
        "id": str(execution.pk),
        "status": "PAUSED_FOR_REVIEW",
        "version": execution.version,
        "holds": [{"id": hold.id, "node_id": "draft", "phase": "AFTER_EXECUTION"}],
    }
    assert CommandLog.objects.get().outcome == "refused"


def test_if_match_carries_the_version(bearer, start) -> None:
    execution = start("operator")
    client = bearer("operator")
    body = {"kind": "update_state", "updates": {"a": 1}}

    def send(etag: str) -> int:
        return int(client.post(url(execution), body, headers={"If-Match": etag}).status_code)

    assert send(f'"{execution.version - 1}"') == 409
    assert send("nonsense") == 422
    assert send(f'"{execution.version}"') == 200
    assert send(f'"{execution.version}"') == 409
    assert send("*") == 200


def test_a_command_is_queued_while_a_worker_runs_a_layer(bearer, start) -> None:
    execution = start("operator", plain_plan(), run=False)
    with DjangoJournal("worker").claim(str(execution.pk)) as run:
        assert run is not None
        response = bearer("operator").post(url(execution), {"kind": "abort", "reason": "stop"})
        assert response.status_code == 202
        assert response.json()["outcome"] == "queued"
        waiting = Execution.objects.get(pk=execution.pk)
        assert waiting.queued_commands == 1
        assert waiting.abort_requested


def test_an_inapplicable_command_is_refused_with_a_reason(bearer, start) -> None:
    execution = start("operator", plain_plan())
    response = bearer("operator").post(url(execution), {"kind": "abort"})
    assert response.status_code == 409
    assert (response.json()["code"], response.json()["reason"]) == ("refused", "final")
    assert "has ended" in response.json()["detail"]


def test_a_plan_that_would_not_run_is_422(bearer, start) -> None:
    execution = start("operator")
    task = {
        "id": "more",
        "type": "tool",
        "tool": "builtin.echo",
        "arguments": {"value": {"$from": "nowhere"}},
    }
    response = bearer("operator").post(url(execution), {"kind": "inject_task", "task": task})
    assert response.status_code == 422
    assert response.json()["errors"][0]["code"] == "bad_reference"


def test_a_malformed_command_is_logged_and_harms_nothing(bearer, start) -> None:
    execution = start("operator")
    client = bearer("operator")
    body = {"kind": "replan", "new_requirement": ""}
    response = client.post(url(execution), body, headers={"Idempotency-Key": "k"})
    assert response.status_code == 422
    assert client.post(url(execution), {"kind": "dance"}).status_code == 422
    logged = CommandLog.objects.order_by("id").values_list("kind", "outcome")
    assert list(logged) == [("replan", "invalid"), ("unknown", "invalid")]
    assert Execution.objects.get(pk=execution.pk).version == execution.version


@pytest.mark.parametrize("kind", ["approval_response", "checkpoint_response"])
def test_a_decision_goes_through_the_decision_service(bearer, start, kind) -> None:
    execution = start("operator")
    hold = execution.holds.get()
    body = {
        "kind": kind,
        "hold": hold.id,
        "approved": True,
        "edits": {"text": "better"},
        "feedback": "ok",
        "version": execution.version,
    }
    response = bearer("reviewer", ["decide"]).post(url(execution), body)
    assert response.status_code == 200, response.content
    assert response.json()["version"] > execution.version
    record = execution.review_records.get()
    assert (record.reviewer.username, record.decision, record.source) == (
        "reviewer", "APPROVE", "rest",
    )  # fmt: skip
    assert record.modified_data == {"text": "better"}
    again = bearer("reviewer", ["decide"]).post(url(execution), body)
    assert again.status_code == 409


def test_the_starter_does_not_approve(bearer, start) -> None:
    execution = start("reviewer")
    body = {"kind": "approval_response", "hold": execution.holds.get().id, "approved": True}
    response = bearer("reviewer").post(url(execution), body)
    assert response.status_code == 403
    assert response.json()["reason"] == "four_eyes"
    assert execution.review_records.count() == 0


def test_the_decision_service_is_called_by_keyword(bearer, start, settings) -> None:
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "decision_service": "tests.integration.workflows.api.test_commands.note_decision",
    }
    execution = start("operator")
    body = {"kind": "approval_response", "hold": "h", "approved": False, "version": 3}
    response = bearer("reviewer").post(url(execution), body)
    answer = {"outcome": "applied", "version": 99, "status": "RUNNING", "warnings": []}
    assert response.json() == answer
    (called,) = CALLS
    assert called["execution"] == execution
    assert (called["user"].username, called["source"], called["version"]) == ("reviewer", "rest", 3)
    assert called["token"].user == called["user"]
    assert (called["command"].hold, called["command"].approved) == ("h", False)


CALLS: list[dict] = []


def note_decision(**arguments):
    CALLS.append(arguments)
    return Noted


class Noted:
    version = 99
    status = "RUNNING"
    warnings = ()


def test_an_approval_lets_the_rest_run(bearer, start) -> None:
    execution = start("operator", reviewed_plan(phase="BEFORE_EXECUTION"))
    hold = execution.holds.get()
    body = {"kind": "approval_response", "hold": hold.id, "approved": True}
    assert bearer("reviewer").post(url(execution), body).json()["status"] == "RUNNING"


@pytest.mark.parametrize("keyed", [True, False])
def test_a_replan_that_finds_nothing_is_409_and_counts(
    bearer, start, monkeypatch, settings, keyed
) -> None:
    def nothing(*args: object, **kwargs: object) -> None:
        raise TaskFailed("No tool fits the requirement.")

    monkeypatch.setattr("workflows.planning.planner.CataloguePlanner.replan", nothing)
    settings.HOLDPOINT = {**settings.HOLDPOINT, "max_failed_replans": 2}
    execution = start("operator", plain_plan(), run=False)
    client = bearer("operator")
    answers = []
    for number in range(3):
        headers = {"Idempotency-Key": f"k{number}"} if keyed else {}
        body = {"kind": "replan", "new_requirement": "parse XML"}
        response = client.post(url(execution), body, headers=headers)
        answers.append((response.status_code, response.json()["reason"]))
    assert answers == [(409, "replan_failed")] * 2 + [(409, "replan_limit")]
    assert "found no plan 2 times" in response.json()["detail"]
    kinds = execution.events.values_list("kind", flat=True)
    assert list(kinds).count("replan_failed") == 2
