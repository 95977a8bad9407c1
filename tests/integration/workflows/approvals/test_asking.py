"""An agent asks before it acts, and gets exactly what people decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import expire_due
from reviews.models import HumanReviewRecord
from reviews.queue.filters import RISKS, risk_condition, risk_of
from tests.integration.workflows.approvals.conftest import (
    PAY,
    URL,
    Agent,
    decided,
    hold_of,
    row_of,
)
from workflows.engine.values.bounded_json import digest
from workflows.executions.jobs import run_to_rest
from workflows.journal.writer import replayed
from workflows.models import ApiToken, Approval, Execution, Hold, IdempotencyKey
from workflows.permissions.tokens import SCOPES, create_token

pytestmark = pytest.mark.django_db
People = Callable[..., User]


def test_the_response_has_an_open_hold(agent: Agent, reviewer: User) -> None:
    body = agent.asked(
        action={"title": "Pay invoice 4711"},
        requested_by={"agent": "billing-bot", "session": "s1", "url": "https://bot.example/1"},
        timeout_seconds=3600,
    )
    hold = hold_of(body)
    assert body["status"] == "pending"
    assert (body["hold_id"], body["version"]) == (hold.pk, hold.execution.version)
    assert body["review_url"].endswith(f"/{hold.execution_id}/{hold.pk}/")
    assert body["arguments_digest"] == digest(PAY)
    assert body["expires_at"] is not None
    assert (hold.target, hold.task_title, hold.payload) == (
        "payments.transfer",
        "Pay invoice 4711",
        PAY,
    )
    assert (hold.critical, hold.groups, hold.execution.title) == (
        True,
        ["reviewer"],
        "Pay invoice 4711",
    )
    assert (row_of(body).agent, row_of(body).session) == ("billing-bot", "s1")
    assert replayed(hold.execution_id).version == hold.execution.version


def test_an_approval_reaches_the_caller(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    decided(body, reviewer, comment="fine")
    answer = agent.get(body["id"])
    assert answer["status"] == "approved"
    assert (answer["arguments"], answer["edited"]) == (PAY, False)
    assert (answer["decided_by"], answer["comment"]) == ("reviewer", "fine")
    assert answer["arguments_digest"] == digest(PAY)


def test_edits_reach_the_caller(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    decided(body, reviewer, edits={"amount": 100})
    answer = agent.get(body["id"])
    assert (answer["arguments"], answer["edited"]) == ({**PAY, "amount": 100}, True)
    assert answer["arguments_digest"] == digest({**PAY, "amount": 100})


def test_a_rejection_has_a_reason_over_every_source(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    _, text = create_token(user=reviewer, name="r", scopes=["read", "decide"])
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    reject = {
        "execution_id": body["execution_id"],
        "hold_id": body["hold_id"],
        "version": body["version"],
        "decision": "REJECT",
    }
    assert client.post("/api/v1/reviews/resume/", reject, format="json").status_code == 422
    said = {**reject, "comment": "not this year"}
    assert client.post("/api/v1/reviews/resume/", said, format="json").status_code == 200
    answer = agent.get(body["id"])
    assert (answer["status"], answer["comment"]) == ("rejected", "not this year")
    assert answer["decided_by"] == "reviewer"


def test_a_quorum_needs_two_people(agent: Agent, people: People) -> None:
    ann, ben = people("ann", "reviewer"), people("ben", "reviewer")
    body = agent.asked(quorum=2)
    decided(body, ann)
    assert agent.get(body["id"])["status"] == "pending"
    decided(body, ben)
    assert agent.get(body["id"])["status"] == "approved"


def test_a_timeout_rejects(agent: Agent) -> None:
    body = agent.asked(timeout_seconds=60)
    Hold.objects.filter(pk=body["hold_id"]).update(expires_at=timezone.now())
    expire_due()
    answer = agent.get(body["id"])
    assert (answer["status"], answer["decided_by"]) == ("expired", None)
    assert answer["comment"] == "nobody decided in time"


def test_who_asked_may_not_decide(people: People) -> None:
    owner = people("owner", "reviewer")
    agent = Agent(owner)
    body = agent.asked()
    with pytest.raises(NotAllowed):
        decided(body, owner)
    assert agent.get(body["id"])["status"] == "pending"


def test_only_the_groups_of_the_request_decide(agent: Agent, people: People) -> None:
    body = agent.asked(groups=["admin"])
    with pytest.raises(NotAllowed):
        decided(body, people("ann", "reviewer", "operator"))
    decided(body, people("root", "admin"))
    assert agent.get(body["id"])["status"] == "approved"


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({"groups": ["nobody-knows"]}, {"groups[0]": "unknown_group"}),
        ({"groups": ["operator"]}, {"groups": "no_deciding_group"}),
        ({"groups": []}, {"groups": "min_length"}),
        ({"quorum": 0}, {"quorum": "min_value"}),
        ({"on_timeout": "approve", "timeout_seconds": 1}, {"on_timeout": "policy_loosened"}),
        ({"risk": "none"}, {"risk": "invalid_choice"}),
        ({"editable": ["amount"]}, {"editable": "invalid"}),
        ({"action": {"name": "a b"}}, {"action.name": "invalid"}),
        ({"action": {"name": "<b>"}}, {"action.name": "invalid"}),
        ({"action": {"name": "x\n"}}, {"action.name": "invalid"}),
        ({"action": {"output": 1}}, {"action.output": "not_executed"}),
        ({"phase": "AFTER_EXECUTION"}, {"action.output": "required"}),
        ({"requested_by": {"url": "javascript:alert(1)"}}, {"requested_by.url": "address"}),
        ({"requested_by": {"url": "https://u:p@x.example"}}, {"requested_by.url": "address"}),
        ({"callback": {"url": "http://169.254.169.254/"}}, {"callback.url": "address"}),
        ({"callback": {"url": "https://10.0.0.1/"}}, {"callback.url": "address"}),
        ({"callback": {"url": "file:///etc/passwd"}}, {"callback.url": "address"}),
        ({"more": 1}, {"more": "unknown"}),
    ],
)
def test_a_bad_field_is_named(agent: Agent, fields: dict[str, Any], errors: dict[str, str]) -> None:
    assert agent.refused(**fields) == errors
    assert not Approval.objects.exists()
    assert not Execution.objects.exists()


SCHEMA = {"type": "object", "properties": {"amount": {"type": "number", "maximum": 300}}}


@pytest.mark.parametrize(
    ("schema", "amount", "errors"),
    [
        (SCHEMA, 301, {"action.arguments.amount": "schema_mismatch"}),
        ({"type": 7}, 1, {"action.schema": "invalid_schema"}),
        ({"$ref": "#"}, 1, {"action.arguments": "schema_mismatch"}),
        (
            {"properties": {"amount": {"$ref": "https://example.com/s.json"}}},
            1,
            {"action.arguments": "schema_mismatch"},
        ),
        ({"properties": {"amount": {"pattern": "^(a+)+$"}}}, "a" * 5000 + "!", None),
    ],
)
def test_a_hostile_schema_is_refused_quickly(
    agent: Agent, schema: Any, amount: Any, errors: dict[str, str] | None
) -> None:
    action = {"schema": schema, "arguments": {"amount": amount}}
    expected = errors or {"action.arguments.amount": "schema_mismatch"}
    assert agent.refused(action=action) == expected


def test_the_schema_binds_the_reviewer_too(agent: Agent, reviewer: User) -> None:
    body = agent.asked(action={"schema": SCHEMA})
    with pytest.raises(ReviewInvalid) as invalid:
        decided(body, reviewer, edits={"amount": 301})
    assert [each.path for each in invalid.value.errors] == ["edits.amount"]


def test_only_editable_values_can_be_edited(agent: Agent, reviewer: User) -> None:
    arguments = {"to": "ACME", "items": [{"n": 1}, {"n": 2}], "a/b": 1}
    body = agent.asked(action={"arguments": arguments}, editable=["/items/1", "/a~1b"])
    for edits in ({"to": "EVIL"}, {"items": [{"n": 0}, {"n": 2}]}, {"items": []}, {"new": 1}):
        with pytest.raises(ReviewInvalid):
            decided(body, reviewer, edits=edits)
    decided(body, reviewer, edits={"items": [{"n": 1}, {"n": 5}], "a/b": 2})
    assert agent.get(body["id"])["arguments"] == {
        "to": "ACME",
        "items": [{"n": 1}, {"n": 5}],
        "a/b": 2,
    }


def test_nothing_is_editable_with_false(agent: Agent, reviewer: User) -> None:
    body = agent.asked(editable=False)
    with pytest.raises(ReviewInvalid):
        decided(body, reviewer, edits={"amount": 1})


def test_a_known_tool_keeps_its_risk(agent: Agent) -> None:
    body = agent.asked(action={"name": "builtin.write_file", "arguments": {}}, risk="low")
    assert (body["risk"], hold_of(body).critical) == ("high", True)
    assert agent.asked(risk="low")["risk"] == "low"
    assert agent.asked()["risk"] == "high"


def test_secrets_are_masked_for_people_and_not_for_the_caller(agent: Agent, reviewer: User) -> None:
    schema = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}
    arguments = {"pin": "4711-4711", "password": "hunter2hunter2", "amount": 5}
    body = agent.asked(action={"schema": schema, "arguments": arguments})
    _, text = create_token(user=reviewer, name="r", scopes=["read", "decide"])
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    shown = client.get(f"/api/v1/reviews/pending/{body['execution_id']}/").json()["holds"][0]
    assert "4711-4711" not in str(shown)
    assert "hunter2" not in str(shown)
    assert "4711-4711" not in client.get(f"/api/v1/executions/{body['execution_id']}/").text
    decided(body, reviewer, edits={**shown["payload"], "amount": 6})
    assert agent.get(body["id"])["arguments"] == {**arguments, "amount": 6}
    record = HumanReviewRecord.objects.get()
    assert "4711-4711" not in client.get(f"/api/v1/reviews/history/{record.pk}/").text


def test_approvals_of_others_do_not_exist(agent: Agent, people: People, reviewer: User) -> None:
    body = agent.asked()
    for other in (Agent(people("other", "integrator")), Agent(people("root", "admin"))):
        assert other.client.get(f"{URL}{body['id']}/").status_code == 404
        assert other.client.get(URL).json()["results"] == []
    other = Agent(people("other", "admin"))
    for path, data in (
        ("cancel", {}),
        ("resubmit", {"arguments": {}}),
        ("result", {"ok": True}),
    ):
        assert other.post(f"{body['id']}/{path}/", data).status_code == 404
    assert agent.get(body["id"])["status"] == "pending"


def test_a_token_continues_only_what_it_asked_for(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    blind, reader = Agent(agent.user), Agent(agent.user, "ask", "read")
    assert blind.client.get(f"{URL}{body['id']}/").status_code == 404
    assert blind.client.get(URL).json()["results"] == []
    assert reader.get(body["id"])["arguments"] == PAY
    assert [each["id"] for each in reader.client.get(URL).json()["results"]] == [body["id"]]

    def attempts(path: str, data: dict[str, Any]) -> list[int]:
        path = f"{body['id']}/{path}/"
        return [each.post(path, data).status_code for each in (blind, reader)]

    assert attempts("cancel", {}) == [404, 403]
    decided(body, reviewer, "REQUEST_CHANGES", comment="less")
    assert attempts("resubmit", {"arguments": PAY}) == [404, 403]
    assert agent.post(f"{body['id']}/resubmit/", {"arguments": PAY}).status_code == 200
    decided(body, reviewer)
    assert attempts("result", {"ok": True}) == [404, 403]
    session = APIClient()
    session.force_login(agent.user)
    assert (
        session.post(f"{URL}{body['id']}/result/", {"ok": True}, format="json").status_code == 200
    )


def test_the_scope_ask_allows_nothing_else(agent: Agent) -> None:
    body = agent.asked()
    execution = f"/api/v1/executions/{body['execution_id']}/"
    for path in (execution, f"{execution}events/", "/api/v1/reviews/pending/", "/api/v1/tokens/"):
        assert agent.client.get(path).status_code == 403, path
    abort = {"kind": "abort"}
    assert agent.client.post(f"{execution}commands/", abort, format="json").status_code == 403
    assert agent.client.post("/api/v1/executions/", {}, format="json").status_code == 403


@pytest.mark.parametrize("scope", [each for each in SCOPES if each in ("read", "decide")])
def test_other_scopes_do_not_ask(people: People, scope: str) -> None:
    assert Agent(people("owner", "integrator"), scope).ask().status_code == 403


def test_a_token_limited_to_workflows_does_not_ask(people: People) -> None:
    owner = people("owner", "integrator")
    agent = Agent(owner)
    ApiToken.objects.filter(user=owner).update(only_workflows=[1])
    assert agent.ask().status_code == 403


def test_cancelling_closes_the_hold(agent: Agent) -> None:
    body = agent.asked()
    answer = agent.post(f"{body['id']}/cancel/", {"reason": "the user changed his mind"}).json()
    assert (answer["status"], answer["comment"]) == ("cancelled", "the user changed his mind")
    assert Hold.objects.get(pk=body["hold_id"]).status == Hold.Status.CLOSED
    again = agent.post(f"{body['id']}/cancel/", {})
    assert (again.status_code, again.json()["reason"]) == (409, "final")


def test_a_cancelled_approval_cannot_be_approved_and_an_approved_one_not_cancelled(
    agent: Agent, reviewer: User
) -> None:
    first, second = agent.asked(), agent.asked()
    hold = hold_of(first)
    agent.post(f"{first['id']}/cancel/", {})
    hold.refresh_from_db()
    assert hold.status == Hold.Status.CLOSED
    with pytest.raises(Hold.DoesNotExist):
        decided(first, reviewer)
    decided(second, reviewer)
    assert agent.post(f"{second['id']}/cancel/", {}).status_code == 409
    assert agent.get(second["id"])["status"] == "approved"


def test_the_list_has_my_approvals_by_status(agent: Agent, reviewer: User) -> None:
    bodies = [agent.asked(requested_by={"session": str(number)}) for number in range(4)]
    decided(bodies[0], reviewer)
    decided(bodies[1], reviewer, "REJECT", comment="no")
    agent.post(f"{bodies[2]['id']}/cancel/", {})
    for body, status in zip(bodies, ("approved", "rejected", "cancelled", "pending"), strict=True):
        rows = agent.client.get(f"{URL}?status={status}").json()["results"]
        assert [row["id"] for row in rows] == [body["id"]], status
        assert rows[0]["status"] == status
    assert len(agent.client.get(URL).json()["results"]) == 4
    assert len(agent.client.get(f"{URL}?session=2").json()["results"]) == 1


def test_a_wait_of_a_minute_is_refused(agent: Agent) -> None:
    number = agent.asked()["id"]
    assert agent.client.get(f"{URL}{number}/?wait=56").status_code == 422


# --- the same request twice -----------------------------------------------------------------------


def test_the_same_key_gives_the_same_approval(agent: Agent, reviewer: User) -> None:
    first = agent.ask(key="job-1")
    again = agent.ask(key="job-1")
    assert again.json() == first.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert agent.ask(key="job-1", quorum=2).status_code == 422
    assert Approval.objects.count() == 1


def test_the_stored_response_is_encrypted(agent: Agent, reviewer: User) -> None:
    secret = {"to": "ACME", "password": "hunter2-and-more"}
    asked = agent.ask(key="job-1", action={"arguments": secret})
    decided(asked.json(), reviewer, "REQUEST_CHANGES", comment="less")
    again = {**secret, "to": "Another"}
    sent = agent.post(f"{asked.json()['id']}/resubmit/", {"arguments": again}, key="job-2")
    for row in IdempotencyKey.objects.all():
        assert "hunter2" not in str(row.answer)
        assert "ACME" not in str(row.answer)
    assert agent.ask(key="job-1", action={"arguments": secret}).json() == asked.json()
    path = f"{asked.json()['id']}/resubmit/"
    assert agent.post(path, {"arguments": again}, key="job-2").json() == sent.json()
    assert sent.json()["arguments"] == again


def test_a_key_outlives_the_stored_response(agent: Agent, reviewer: User) -> None:
    first = agent.ask(key="job-1").json()
    decided(first, reviewer)
    IdempotencyKey.objects.all().delete()
    again = agent.ask(key="job-1").json()
    assert (again["id"], again["status"]) == (first["id"], "approved")
    IdempotencyKey.objects.all().delete()
    assert agent.ask(key="job-1", quorum=2).json()["code"] == "idempotency_mismatch"


def test_the_key_of_another_token_is_another_key(agent: Agent) -> None:
    other = Agent(agent.user)
    assert agent.ask(key="job-1").json()["id"] != other.ask(key="job-1").json()["id"]


def test_nothing_is_left_of_a_request_that_dies_before_its_hold_opens(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerFailure(BaseException):
        pass

    def die(point: str) -> None:
        if point == "approval.created":
            raise PowerFailure

    monkeypatch.setattr("workflows.approvals.services.crashpoint", die)
    with pytest.raises(PowerFailure):
        agent.ask(key="job-1")
    monkeypatch.undo()
    assert not Approval.objects.exists()
    assert agent.ask(key="job-1").json()["status"] == "pending"
    assert Approval.objects.count() == 1
    assert Hold.objects.count() == 1


def test_the_worker_that_comes_too_late_changes_nothing(agent: Agent) -> None:
    body = agent.asked()
    version = row_of(body).execution.version
    assert run_to_rest(row_of(body).execution_id).version == version


@pytest.mark.parametrize("phase", ["BEFORE_EXECUTION", "AFTER_EXECUTION"])
@pytest.mark.parametrize("risk", ["low", "medium", "high"])
def test_the_queue_shows_the_risk_of_the_action(agent: Agent, phase: str, risk: str) -> None:
    action = {"output": "sent"} if phase == "AFTER_EXECUTION" else {}
    hold = hold_of(agent.asked(action=action, phase=phase, risk=risk))
    assert risk_of(hold) == risk
    assert [each for each in RISKS if Hold.objects.filter(risk_condition(each))] == [risk]
