"""Standing answers: an approval that covers later, similar actions of the same agent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.audit.verification import verify_audit
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import DecisionResult, expire_due
from reviews.decisions.withdrawal import settle_due, withdraw
from reviews.models import Notice
from reviews.notifications.notice_text import sentence
from tests.integration.reviews.notifications.conftest import consume_journal
from tests.integration.workflows.approvals.conftest import PAY, Agent, decided, hold_of
from tests.support.groups import group_of
from workflows.approvals import services
from workflows.engine.policy.standing_terms import USES, StandingTerms
from workflows.executions.jobs import run_to_rest
from workflows.models import Absence, ApiToken, ApprovalPolicy, ExecutionEvent, Grant, Hold
from workflows.permissions.grants import in_force, revoke
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db

#: Up to 500, any memo, exactly the same receiver.
TERMS = StandingTerms.model_validate(
    {"seconds": 3600, "arguments": {"amount": {"up_to": 500}, "memo": "any"}}
)
BOT = {"agent": "billing-bot"}


@pytest.fixture
def policy(db: None) -> ApprovalPolicy:
    return ApprovalPolicy.objects.create(
        pattern="payments.*", groups=["reviewer"], allows_standing_answers=True
    )


def ask(agent: Agent, **fields: Any) -> dict[str, Any]:
    return agent.asked(**{"risk": "medium", "requested_by": BOT, **fields})


def give(
    agent: Agent, reviewer: User, terms: StandingTerms = TERMS, **fields: Any
) -> DecisionResult:
    return decided(ask(agent), reviewer, standing=terms, **fields)


def paying(**arguments: Any) -> dict[str, Any]:
    return {"action": {"arguments": {**PAY, **arguments}}}


def errors_of(call: Callable[[], Any]) -> dict[str, str]:
    with pytest.raises(ReviewInvalid) as caught:
        call()
    return {each.path: each.message for each in caught.value.errors}


# --- use ------------------------------------------------------------------------------------------


def test_a_delegate_gives_none(
    agent: Agent, reviewer: User, people: Any, policy: ApprovalPolicy
) -> None:
    delegate = people("delegate", "legal")
    Absence.objects.create(
        user=reviewer,
        delegate=delegate,
        begins_at=timezone.now(),
        ends_at=timezone.now() + timedelta(days=1),
        created_by="reviewer",
    )
    assert "absent person" in errors_of(lambda: give(agent, delegate))["standing"]
    assert decided(ask(agent), delegate).record.on_behalf_of == "reviewer"
    assert not Grant.objects.exists()


def test_a_later_action_is_approved_without_a_review(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    give(agent, reviewer)
    body = ask(agent, **paying(amount=499.5, memo="Invoice 4712"))
    grant = Grant.objects.get()
    assert (body["status"], body["hold_id"], body["decided_by"]) == ("approved", None, None)
    assert body["arguments"] == {**PAY, "amount": 499.5, "memo": "Invoice 4712"}
    used = agent.get(body["id"])["grant"]
    assert (used["id"], used["given_by"]) == (str(grant.pk), "reviewer")
    assert grant.expires_at is not None
    assert used["expires_at"] == grant.expires_at.isoformat().replace("+00:00", "Z")
    assert (grant.scope, grant.resource, grant.uses) == ("standing", "payments.transfer", 1)
    assert grant.arguments == {"amount": {"up_to": 500.0}, "memo": "any"}


def test_each_use_is_recorded(agent: Agent, reviewer: User, policy: ApprovalPolicy) -> None:
    give(agent, reviewer)
    bodies = [ask(agent, **paying(amount=amount)) for amount in (1, 2)]
    grant = Grant.objects.get()
    events = ExecutionEvent.objects.filter(kind="review_spared").order_by("id")
    assert [str(each.execution_id) for each in events] == [each["execution_id"] for each in bodies]
    assert {each.payload["grant"] for each in events} == {str(grant.pk)}
    assert events[0].payload["why"] == f"standing answer {grant.pk} of reviewer covers it"
    assert bodies[0]["comment"] == events[0].payload["why"]
    assert (grant.uses, grant.last_used_at is not None) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"to": "Another", "amount": 1, "memo": ""},
        {"to": "ACME", "amount": 500.01, "memo": ""},
        {"to": "ACME", "amount": -1, "memo": ""},
        {"to": "ACME", "amount": True, "memo": ""},
        {"to": "ACME", "amount": "1", "memo": ""},
        {"to": "ACME", "amount": 1},
        {"to": "ACME", "amount": 1, "memo": "", "urgent": True},
    ],
)
def test_other_arguments_are_reviewed(
    agent: Agent, reviewer: User, policy: ApprovalPolicy, arguments: dict[str, Any]
) -> None:
    give(agent, reviewer)
    body = ask(agent, action={"arguments": arguments})
    assert (body["status"], body["grant"]) == ("pending", None)


def test_what_people_have_to_fill_in_is_not_answered_beforehand(
    agent: Agent, reviewer: User, policy: ApprovalPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(agent, reviewer)
    monkeypatch.setattr(services, "ask", partial(services.ask, incomplete=True))
    body = ask(agent, **paying(amount=1))
    assert (body["status"], body["grant"]) == ("pending", None)


def test_an_edited_approval_covers_what_was_approved(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    give(agent, reviewer, StandingTerms(seconds=60), edits={"amount": 90})
    assert ask(agent)["status"] == "pending"
    assert ask(agent, **paying(amount=90))["status"] == "approved"


def test_another_agent_person_or_token_is_reviewed(
    agent: Agent, reviewer: User, policy: ApprovalPolicy, people: Callable[..., User]
) -> None:
    give(agent, reviewer)
    others = [
        ask(agent, requested_by={"agent": "another-bot"}),
        ask(Agent(agent.user)),
        ask(Agent(people("stranger", "integrator"))),
        ask(agent, action={"name": "payments.refund"}),
    ]
    assert {each["status"] for each in others} == {"pending"}
    assert in_session(agent.user)["status"] == "pending"


def in_session(user: User) -> dict[str, Any]:
    """Ask for the same payment without a token."""
    client = APIClient()
    client.force_login(user)
    action = {"name": "payments.transfer", "arguments": PAY}
    fields = {"action": action, "risk": "medium", "requested_by": BOT}
    return dict(client.post("/api/v1/approvals/", fields, format="json").json())


def test_the_answers_of_a_deleted_token_cover_no_session(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    give(agent, reviewer)
    assert ask(agent)["status"] == "approved"
    ApiToken.objects.filter(user=agent.user).delete()
    assert in_session(agent.user)["status"] == "pending"


def test_a_session_takes_none(agent: Agent, reviewer: User, policy: ApprovalPolicy) -> None:
    body = in_session(agent.user)
    errors = errors_of(lambda: decided(body, reviewer, standing=TERMS))
    assert "token" in errors["standing"]


def test_a_stricter_request_is_reviewed(
    agent: Agent, reviewer: User, policy: ApprovalPolicy, people: Callable[..., User]
) -> None:
    group_of("team")
    people("other", "reviewer", "team")
    give(agent, reviewer)
    stricter: list[dict[str, Any]] = [
        {"quorum": 2},
        {"risk": "high"},
        {"phase": "AFTER_EXECUTION", "action": {"output": 1}},
    ]
    assert {ask(agent, **each)["status"] for each in stricter} == {"pending"}


def test_a_later_round_is_reviewed(agent: Agent, reviewer: User, policy: ApprovalPolicy) -> None:
    body = ask(agent)
    decided(body, reviewer, "REQUEST_CHANGES", comment="Less, please")
    give(agent, reviewer)
    agent.post(f"{body['id']}/resubmit/", {"arguments": PAY})
    assert agent.get(body["id"])["status"] == "pending"


def test_the_giver_is_notified_of_other_arguments(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    give(agent, reviewer)
    body = ask(agent, **paying(amount=1))
    report = {"ok": True, "arguments": {**PAY, "amount": 999}}
    assert agent.post(f"{body['id']}/result/", report).json()["result"]["mismatch"] is True
    consume_journal()
    notice = Notice.objects.get(kind="mismatch")
    assert (notice.user, notice.hold_id) == (reviewer, Grant.objects.get().hold_id)
    said = sentence(notice.kind, notice.hold, notice.actor, notice.detail)
    assert f"used your standing answer in run {body['execution_id']}" in said
    assert verify_audit().problems == ()


# --- end ------------------------------------------------------------------------------------------


def test_a_revoked_answer_covers_nothing(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    give(agent, reviewer)
    assert in_force(reviewer).get() == Grant.objects.get()
    client = APIClient()
    client.force_login(reviewer)
    grant = client.get("/api/v1/grants/").json()["results"][0]
    assert (grant["scope"], grant["agent"]) == ("standing", "billing-bot")
    assert grant["arguments"] == {"amount": {"up_to": 500.0}, "memo": "any"}
    assert client.post(f"/api/v1/grants/{grant['id']}/revoke/").status_code == 200
    assert ask(agent)["status"] == "pending"


def test_it_ends_by_itself(agent: Agent, reviewer: User, policy: ApprovalPolicy) -> None:
    give(agent, reviewer, StandingTerms(seconds=0.001))
    assert ask(agent)["status"] == "pending"


@pytest.mark.parametrize(
    "changes",
    [
        {"allows_standing_answers": False},
        {"enabled": False},
        {"quorum": 2},
        {"groups": ["admin"]},
        {"minimum_risk": "high"},
    ],
)
def test_a_stricter_policy_stops_it(
    agent: Agent,
    reviewer: User,
    policy: ApprovalPolicy,
    people: Callable[..., User],
    changes: dict[str, Any],
) -> None:
    people("boss", "admin", "reviewer")
    give(agent, reviewer)
    ApprovalPolicy.objects.filter(pk=policy.pk).update(**changes)
    assert ask(agent)["status"] == "pending"


def test_a_shorter_limit_of_the_policy_ends_it(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    ApprovalPolicy.objects.update(standing_max_hours=48)
    give(agent, reviewer, StandingTerms(seconds=48 * 3600))
    with connection.cursor() as cursor:
        # The ledger cannot be rewritten, so the test moves the time of the grant as the owner.
        cursor.execute("SET LOCAL session_replication_role = 'replica'")
        cursor.execute("UPDATE workflows_grant SET granted_at = now() - interval '2 hours'")
        cursor.execute("SET LOCAL session_replication_role = 'origin'")
    assert ask(agent)["status"] == "approved"
    ApprovalPolicy.objects.update(standing_max_hours=1)
    assert ask(agent)["status"] == "pending"


def test_it_ends_with_the_rights_of_its_giver(
    agent: Agent, reviewer: User, policy: ApprovalPolicy, people: Callable[..., User]
) -> None:
    people("other", "reviewer")
    give(agent, reviewer)
    reviewer.groups.clear()
    assert ask(agent)["status"] == "pending"
    reviewer.groups.add(group_of("reviewer"))
    assert ask(agent)["status"] == "approved"
    User.objects.filter(pk=reviewer.pk).update(is_active=False)
    assert ask(agent)["status"] == "pending"


@pytest.mark.django_db(transaction=True)
def test_a_revocation_waits_for_a_use_and_stops_the_next(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    give(agent, reviewer)
    grant = Grant.objects.get()
    errors: list[Exception] = []
    started, ended = threading.Event(), threading.Event()

    def revoking() -> None:
        try:
            started.set()
            revoke(grant=Grant.objects.get(), user=reviewer)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()
            ended.set()

    thread = threading.Thread(target=revoking)
    with transaction.atomic():
        Grant.objects.select_for_update().get()
        thread.start()
        assert started.wait(30)
        assert not ended.wait(0.5)
        assert ask(agent)["status"] == "approved"
    thread.join(30)
    assert errors == []
    grant.refresh_from_db()
    assert (grant.uses, grant.revoked_by) == (1, "reviewer")
    assert grant.last_used_at is not None
    assert grant.revoked_at is not None
    assert grant.last_used_at < grant.revoked_at
    assert ask(agent)["status"] == "pending"


def limited(max_uses: int, in_all: float | None = None) -> StandingTerms:
    amount = {"up_to": 500} | ({"in_all": in_all} if in_all else {})
    return StandingTerms.model_validate(
        {"seconds": 3600, "max_uses": max_uses, "arguments": {"amount": amount, "memo": "any"}}
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("terms", [limited(3), limited(100, 300.0)], ids=["number", "sum"])
def test_uses_at_the_same_time_stay_below_the_limits(
    agent: Agent, reviewer: User, policy: ApprovalPolicy, terms: StandingTerms
) -> None:
    give(agent, reviewer, terms)
    together = threading.Barrier(8)

    def pay(_: int) -> str:
        client = Agent.__new__(Agent)
        client.client = APIClient(headers=agent.headers)
        together.wait(30)
        try:
            return str(ask(client, **paying(amount=100))["status"])
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(pay, range(8)))
    assert statuses == ["approved"] * 3 + ["pending"] * 5
    grant = Grant.objects.get()
    assert grant.uses == 3
    assert grant.sums == ({"amount": "300"} if terms.max_uses == 100 else {})


def test_a_sum_adds_up_exactly(agent: Agent, reviewer: User, policy: ApprovalPolicy) -> None:
    give(agent, reviewer, limited(100, 0.3))
    answers = [ask(agent, **paying(amount=0.1))["status"] for _ in range(4)]
    assert answers == ["approved"] * 3 + ["pending"]
    # What costs nothing is still covered.
    assert ask(agent, **paying(amount=0))["status"] == "approved"


def test_an_answer_without_a_number_covers_a_few(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    give(agent, reviewer)
    assert Grant.objects.get().max_uses == USES
    with connection.cursor() as cursor:
        # As an earlier release wrote it, and nearly used up.
        cursor.execute("SET LOCAL session_replication_role = 'replica'")
        cursor.execute("UPDATE workflows_grant SET max_uses = NULL, uses = %s", [USES - 1])
        cursor.execute("SET LOCAL session_replication_role = 'origin'")
    assert [ask(agent)["status"] for _ in range(2)] == ["approved", "pending"]


# --- giving ---------------------------------------------------------------------------------------


def test_without_a_policy_that_allows_it_there_is_none(agent: Agent, reviewer: User) -> None:
    assert errors_of(lambda: give(agent, reviewer)) == {
        "standing": "No approval policy of this action allows standing answers."
    }
    ApprovalPolicy.objects.create(pattern="*", groups=["reviewer"])
    assert "standing" in errors_of(lambda: give(agent, reviewer))
    assert not Grant.objects.exists()


def test_the_terms_are_checked(agent: Agent, reviewer: User, policy: ApprovalPolicy) -> None:
    rules = {"to": {"up_to": 1}, "other": "any"}
    terms = StandingTerms.model_validate({"seconds": 8 * 3600 + 1, "arguments": rules})
    assert errors_of(lambda: give(agent, reviewer, terms)) == {
        "standing.seconds": "the policy allows at most 8 hours",
        "standing.arguments.to": "only a number can be limited",
        "standing.arguments.other": "the action has no such argument",
    }


def test_high_risk_needs_a_policy_that_says_so(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    body = ask(agent, risk="high")
    assert errors_of(lambda: decided(body, reviewer, standing=TERMS)) == {
        "standing": "The policy payments.* allows no standing answers for actions of high risk."
    }
    ApprovalPolicy.objects.update(standing_high_risk=True)
    decided(body, reviewer, standing=TERMS)
    assert ask(agent, risk="high")["status"] == "approved"
    ApprovalPolicy.objects.update(standing_high_risk=False)
    assert ask(agent, risk="high")["status"] == "pending"


def test_no_single_person_answers_for_a_quorum(
    agent: Agent, reviewer: User, policy: ApprovalPolicy, people: Callable[..., User]
) -> None:
    people("second", "reviewer")
    body = ask(agent, quorum=2)
    assert errors_of(lambda: decided(body, reviewer, standing=TERMS)) == {
        "standing": "Several people approve this action, so one of them cannot approve later ones."
    }


def test_only_an_approval_before_the_action_covers_others(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    body = ask(agent, phase="AFTER_EXECUTION", action={"output": 1})
    refused = errors_of(lambda: decided(body, reviewer, standing=TERMS))
    assert refused["standing"].startswith("Only an action that an agent asks about before")
    rejects = ask(agent)
    assert "standing" in errors_of(
        lambda: decided(rejects, reviewer, "REJECT", comment="No", standing=TERMS)
    )


def test_four_eyes_covers_standing_answers(
    agent: Agent, policy: ApprovalPolicy, people: Callable[..., User]
) -> None:
    people("owner", "reviewer")
    with pytest.raises(NotAllowed):
        give(agent, agent.user)


def test_it_needs_the_code_that_a_grant_needs(
    agent: Agent, reviewer: User, policy: ApprovalPolicy, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": "high_risk"}
    body = ask(agent)
    with pytest.raises(NotAllowed) as caught:
        decided(body, reviewer, standing=TERMS)
    assert caught.value.code == "step_up"
    decided(body, reviewer, standing=TERMS, confirmed_at=timezone.now())
    assert Grant.objects.count() == 1


def test_a_withdrawn_decision_gives_nothing(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    body = ask(agent)
    decided(body, reviewer, standing=TERMS, undo_seconds=600)
    assert not Grant.objects.exists()
    withdraw(hold_id=body["hold_id"], user=reviewer, source="web")
    decided(body, reviewer)
    assert not Grant.objects.exists()


def test_the_end_of_the_undo_period_gives_it(
    agent: Agent, reviewer: User, policy: ApprovalPolicy
) -> None:
    body = ask(agent)
    decided(body, reviewer, standing=TERMS, undo_seconds=600)
    Hold.objects.filter(pk=body["hold_id"]).update(undo_until=timezone.now() - timedelta(seconds=1))
    settle_due()
    run_to_rest(int(body["execution_id"]))
    assert Grant.objects.get().granted_by == "reviewer"
    assert ask(agent)["status"] == "approved"


def test_rest_takes_the_terms(agent: Agent, reviewer: User, policy: ApprovalPolicy) -> None:
    _, text = create_token(user=reviewer, name="desk", scopes=["decide"])
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    body = ask(agent)
    decision = {
        "execution_id": body["execution_id"],
        "hold_id": body["hold_id"],
        "version": hold_of(body).execution.version,
        "decision": "APPROVE",
    }
    wrong = {"seconds": 60, "arguments": {"amount": {"up_to": -1}}}
    url = "/api/v1/reviews/resume/"
    refused = client.post(url, {**decision, "standing": wrong}, format="json")
    assert refused.status_code == 422
    assert [each["path"] for each in refused.json()["errors"]] == ["standing.arguments.amount"]
    terms = TERMS.model_dump(mode="json")
    answer = client.post(url, {**decision, "standing": terms}, format="json")
    assert answer.status_code == 200, answer.content
    run_to_rest(int(body["execution_id"]))
    assert ask(agent, **paying(amount=1))["status"] == "approved"


def test_nothing_is_given_by_time(agent: Agent, reviewer: User, policy: ApprovalPolicy) -> None:
    ApprovalPolicy.objects.update(on_timeout="approve", timeout_seconds=1)
    body = ask(agent)
    Hold.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_due() == 1
    run_to_rest(int(body["execution_id"]))
    assert agent.get(body["id"])["status"] == "approved"
    assert not Grant.objects.exists()


# --- on pages -------------------------------------------------------------------------------------


@pytest.fixture
def desk(reviewer: User) -> Client:
    client = Client()
    client.force_login(reviewer)
    return client


def form_of(body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    version = hold_of(body).execution.version
    chosen = {"standing": "yes", "standing_hours": 8}
    return {"decision": "APPROVE", "version": version, "mode": "json", **chosen, **fields}


def address_of(body: dict[str, Any]) -> str:
    return reverse("reviews:decision", args=(body["execution_id"], body["hold_id"]))


def test_the_page_offers_what_the_policy_allows(
    agent: Agent, reviewer: User, desk: Client, policy: ApprovalPolicy
) -> None:
    body = ask(agent)
    text = desk.get(address_of(body)).content.decode()
    assert "Also approve similar actions of “billing-bot”" in text
    assert text.count("a number up to") == 1
    assert "7 days" not in text
    ApprovalPolicy.objects.update(allows_standing_answers=False)
    assert "standing_hours" not in desk.get(address_of(body)).content.decode()


def test_the_form_gives_an_answer(
    agent: Agent, reviewer: User, desk: Client, policy: ApprovalPolicy
) -> None:
    body = ask(agent)
    names = list(hold_of(body).payload)
    assert sorted(names) == ["amount", "memo", "to"]
    place = {name: names.index(name) for name in names}
    fields = {
        f"standing_kind_{place['to']}": "exact",
        f"standing_kind_{place['amount']}": "up_to",
        f"standing_limit_{place['amount']}": "many",
        f"standing_kind_{place['memo']}": "any",
    }
    refused = desk.post(address_of(body), form_of(body, **fields))
    assert refused.status_code == 422
    assert "enter a number from 0" in refused.content.decode()
    fields[f"standing_limit_{place['amount']}"] = "500"
    assert desk.post(address_of(body), form_of(body, **fields)).status_code == 303
    run_to_rest(int(body["execution_id"]))
    assert ask(agent, **paying(amount=3))["status"] == "approved"
    grants = desk.get(reverse("reviews:grants")).content.decode()
    words = "any memo, amount up to 500, the rest as approved"
    assert f"Approve payments.transfer: {words}." in grants
    assert "for the agent billing-bot of owner" in grants
    assert words in desk.get(address_of(body)).content.decode()
    grant = Grant.objects.get()
    assert desk.post(reverse("reviews:revoke_grant", args=(grant.pk,))).status_code == 303
    assert ask(agent, **paying(amount=3))["status"] == "pending"


def test_the_admin_form_gives_one_too(
    agent: Agent, policy: ApprovalPolicy, people: Callable[..., User]
) -> None:
    boss = people("boss", "admin", "reviewer")
    User.objects.filter(pk=boss.pk).update(is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(User.objects.get(pk=boss.pk))
    body = ask(agent)
    url = reverse("admin:workflows_hold_change", args=(quote(body["hold_id"]),))
    assert "standing_hours" in client.get(url).content.decode()
    fields = {f"standing_kind_{number}": "exact" for number in range(3)}
    assert client.post(url, form_of(body, **fields)).status_code == 303
    run_to_rest(int(body["execution_id"]))
    assert Grant.objects.get().arguments == {}
    assert ask(agent)["status"] == "approved"
