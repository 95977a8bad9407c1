"""The policy of an action's name binds the request."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import connection
from django.http import Http404
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from tests.integration.workflows.approvals.conftest import PAY, Agent, hold_of, row_of
from tests.support.groups import group_of
from workflows.admin.approvals import ApprovalPolicyAdmin, ApprovalPolicyForm
from workflows.approvals import policy_services
from workflows.approvals.policies import ActionPolicy
from workflows.models import ApprovalPolicy

pytestmark = pytest.mark.django_db


def policy(pattern: str = "payments.*", **fields: Any) -> ApprovalPolicy:
    fields.setdefault("groups", ["reviewer", "admin"])
    made = ApprovalPolicy(pattern=pattern, **fields)
    made.full_clean()
    made.save()
    return made


def test_the_longest_match_applies(db: None) -> None:
    for pattern in ("*", "payments.*", "payments.transfer", "payments.t*", "Payments.*"):
        policy(pattern)
    policy("payments.transfer*", enabled=False)
    found = {
        name: ActionPolicy.of(name).pattern
        for name in ("payments.transfer", "payments.test", "payments.x", "mail", "payments")
    }
    assert found == {
        "payments.transfer": "payments.transfer",
        "payments.test": "payments.t*",
        "payments.x": "payments.*",
        "mail": "*",
        "payments": "*",
    }


def test_the_policy_is_the_default(agent: Agent, reviewer: User) -> None:
    group_of("admin")
    policy(quorum=2, timeout_seconds=600, minimum_risk="medium", instructions="Check the IBAN.")
    body = agent.asked(risk="low", instructions="Please hurry.")
    hold = hold_of(body)
    assert (hold.groups, hold.quorum, hold.on_timeout) == (["reviewer", "admin"], 2, "reject")
    assert hold.expires_at is not None
    assert (body["risk"], body["policy"]) == ("medium", "payments.*")
    assert hold.instructions == "Check the IBAN.\n\nPlease hurry."


@pytest.mark.parametrize(
    ("fields", "looser"),
    [
        ({"groups": ["reviewer"]}, ""),
        ({"groups": ["reviewer", "team"]}, "groups"),
        ({"groups": ["team"]}, "groups"),
        ({"quorum": 3}, ""),
        ({"quorum": 1}, "quorum"),
        ({"timeout_seconds": 30}, ""),
        ({"timeout_seconds": 7200}, ""),
        ({"on_timeout": "approve"}, "on_timeout"),
        ({"on_timeout": "keep_waiting"}, ""),
    ],
)
def test_a_request_is_never_looser(agent: Agent, fields: dict[str, Any], looser: str) -> None:
    Group.objects.create(name="team")
    policy(quorum=2, timeout_seconds=600)
    if looser:
        assert agent.refused(**fields) == {looser: "policy_loosened"}
    else:
        agent.asked(**fields)


def test_a_timeout_that_approves_is_never_sooner(agent: Agent) -> None:
    policy(timeout_seconds=600, on_timeout="approve")
    assert agent.refused(timeout_seconds=60) == {"timeout_seconds": "policy_loosened"}
    # The remaining group might have nobody who could object in time.
    assert agent.refused(groups=["reviewer"]) == {"groups": "policy_loosened"}
    assert hold_of(agent.asked(timeout_seconds=900)).on_timeout == "approve"
    assert hold_of(agent.asked(on_timeout="reject")).on_timeout == "reject"


def test_without_a_policy_the_installation_decides_about_timeouts(
    agent: Agent, settings: Any
) -> None:
    fields = {"on_timeout": "approve", "timeout_seconds": 60}
    assert agent.refused(**fields) == {"on_timeout": "policy_loosened"}
    settings.HOLDPOINT = {**settings.HOLDPOINT, "approve_by_timeout": True}
    assert hold_of(agent.asked(**fields)).on_timeout == "approve"


def test_a_rule_approves_at_once_and_never_what_is_risky(agent: Agent) -> None:
    policy(skip_when="inputs.amount < `100`")
    small = {"arguments": {**PAY, "amount": 5}}
    body = agent.asked(risk="low", action=small)
    assert (body["status"], body["hold_id"]) == ("approved", None)
    assert (body["arguments"], body["decided_by"]) == (small["arguments"], None)
    assert "condition" in body["comment"]
    assert agent.asked(risk="low")["status"] == "pending"
    assert agent.asked(risk="high", action=small)["status"] == "pending"
    assert agent.asked(action=small)["status"] == "pending"
    # The agent chooses the phase.
    executed = {"phase": "AFTER_EXECUTION", "action": {**small, "output": None}}
    assert agent.asked(risk="low", **executed)["status"] == "approved"
    assert agent.asked(risk="high", **executed)["status"] == "pending"


def test_the_floor_of_risk_keeps_a_rule_from_skipping(agent: Agent) -> None:
    policy(skip_when="inputs.amount < `100`", minimum_risk="high")
    body = agent.asked(risk="low", action={"arguments": {"amount": 1}})
    assert (body["status"], body["risk"]) == ("pending", "high")


def test_the_first_of_several_rules_decides(agent: Agent) -> None:
    made = policy(
        skip_when="inputs.amount < `10`",
        rules=[
            {"name": "known", "skip_when": "inputs.to == 'DE89'", "sample": 0},
            {"name": "small", "skip_when": "inputs.amount < `100`"},
        ],
    )
    policy_services.save_policy(actor=agent.user, fields={"instructions": "x"}, policy=made)
    fields = {"rules": [*made.rules, {"name": "refund", "skip_when": "inputs.refund == `true`"}]}
    policy_services.save_policy(actor=agent.user, fields=fields, policy=made)
    assert made.rules_version == 1

    def spared(risk: str = "low", **arguments: Any) -> tuple[str, str, int] | None:
        body = agent.asked(risk=risk, action={"arguments": arguments})
        rows = row_of(body).execution.events.filter(kind="review_spared")
        events = [(each.payload["rule"], each.payload["rules_version"]) for each in rows]
        return (body["status"], *events[0]) if events else None

    assert spared(amount=5, to="x") == ("approved", "", 0)  # the policy's own condition
    assert spared(amount=500, to="DE89") == ("approved", "known", 1)
    assert spared(amount=50, to="DE89") == ("approved", "known", 1)
    assert spared(amount=50, to="x") == ("approved", "small", 1)
    assert spared(amount=500, to="x", refund=True) == ("approved", "refund", 1)
    assert spared(amount=500, to="x") is None
    assert spared(risk="high", amount=5, to="DE89") is None


def test_a_rule_for_an_action_skips_no_action_of_a_similar_name(agent: Agent) -> None:
    """The task of an action has its name with other characters replaced, and so a shorter one."""
    policy(pattern="*", rules=[{"name": "rm", "tasks": ["fs_rm"], "sample": 0}])

    def status(name: str) -> str:
        return str(agent.asked(risk="low", action={"name": name})["status"])

    assert [status(name) for name in ("fs_rm", "fs/rm", "fs:rm")] == [
        "approved",
        "pending",
        "pending",
    ]
    ApprovalPolicy.objects.update(rules=[{"name": "rm", "tasks": ["fs/rm"], "sample": 0}])
    assert status("fs/rm") == "approved"


def test_two_editors_give_no_version_twice(agent: Agent) -> None:
    first = policy()
    second = ApprovalPolicy.objects.get()

    def save(read: ApprovalPolicy, **fields: Any) -> ApprovalPolicy:
        return policy_services.save_policy(actor=agent.user, fields=fields, policy=read)

    assert save(first, rules=[{"name": "one", "sample": 0}], enabled=False).rules_version == 1
    assert save(second, rules=[{"name": "two", "sample": 0}]).rules_version == 2
    assert second.enabled is False, "the first editor's change stays"
    first.delete()
    with pytest.raises(Http404):
        save(second, instructions="x")


def test_a_form_locks_the_policy(rf: RequestFactory) -> None:
    made = policy()
    with CaptureQueriesContext(connection) as queries:
        ApprovalPolicyAdmin(ApprovalPolicy, site).get_object(rf.post("/"), str(made.pk))
    assert "FOR NO KEY UPDATE" in queries.captured_queries[-1]["sql"]


def test_a_sample_is_reviewed_anyway(agent: Agent) -> None:
    policy(skip_when="inputs.amount < `100`", sample=1)
    action = {"arguments": {"amount": 1}}
    assert agent.asked(risk="low", action=action)["status"] == "pending"


def test_asking_again_draws_no_other_sample(agent: Agent, people: Any) -> None:
    policy(skip_when="inputs.amount < `100`", sample=0.5)

    def outcomes(asking: Agent, amount: int) -> set[str]:
        action = {"arguments": {"amount": amount}}
        return {asking.asked(risk="low", action=action)["status"] for _ in range(2)}

    drawn = [outcomes(agent, amount) for amount in range(20)]
    assert all(len(each) == 1 for each in drawn), drawn
    assert set.union(*drawn) == {"approved", "pending"}, "other arguments draw for themselves"
    other = [outcomes(Agent(people("other", "integrator")), amount) for amount in range(20)]
    assert other != drawn, "and other people"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"pattern": "a b"}, "pattern"),
        ({"pattern": "a*b"}, "pattern"),
        ({"pattern": ""}, "pattern"),
        ({"quorum": 0}, "quorum"),
        ({"skip_when": "inputs.["}, "skip_when"),
        ({"sample": 2}, "sample"),
        ({"timeout_seconds": -1}, "timeout_seconds"),
    ],
)
def test_an_invalid_policy_is_refused(db: None, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError) as invalid:
        policy(**fields)
    assert named in invalid.value.message_dict


def test_the_form_refuses_groups_that_cannot_decide(db: None) -> None:
    data = {
        "pattern": "a",
        "quorum": 1,
        "on_timeout": "reject",
        "minimum_risk": "low",
        "max_change_requests": 3,
        "standing_max_hours": 8,
    }
    for groups in ("nobody-knows", "operator"):
        form = ApprovalPolicyForm({**data, "groups": groups})
        assert list(form.errors) == ["groups"], groups
    assert ApprovalPolicyForm({**data, "groups": "reviewer,admin"}).is_valid()


def test_an_approval_keeps_the_policy_it_was_asked_under(agent: Agent) -> None:
    made = policy(quorum=2)
    body = agent.asked()
    made.delete()
    assert hold_of(body).quorum == 2
    assert row_of(body).policy == "payments.*"
