"""Approvals that HOLDPOINT_STEP_UP asks a code for: the shared service refuses the others."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import DecisionRequest, decide, decide_command
from reviews.models import HumanReviewRecord
from reviews.queue.bulk import Request, SelectedHold, apply_to_all
from tests.integration.reviews.conftest import Start, echo, only_hold
from workflows.engine.protocol.commands import ApprovalResponse
from workflows.executions.validation import InvalidRequest
from workflows.models import ApiToken, Hold
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

BEFORE = "BEFORE_EXECUTION"


@pytest.fixture
def mode(settings: Any) -> Any:
    def set_mode(value: str) -> None:
        settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": value, "step_up_seconds": 600}

    return set_mode


def held(start: Start, *, risky: bool) -> Hold:
    hold = only_hold(start(echo("t", phase=BEFORE, groups=["reviewer"])))
    hold.critical = risky
    hold.save(update_fields=["critical"])
    return hold


def approve(hold: Hold, user: User, **more: Any) -> None:
    version = hold.execution.version
    decide(
        DecisionRequest(
            hold_id=hold.id, user=user, decision="APPROVE", version=version, source="web", **more
        )
    )


def ago(seconds: int) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("setting", "risky", "seconds", "allowed"),
    [
        ("off", True, None, True),
        ("high_risk", False, None, True),
        ("high_risk", True, None, False),
        ("high_risk", True, 601, False),
        ("high_risk", True, 1, True),
        ("high_risk", True, -60, False),
        ("all", False, None, False),
        ("all", False, 1, True),
        ("all", True, 601, False),
    ],
)
def test_an_approval_needs_a_recent_code(
    start: Start, reviewer: User, mode: Any, setting: str, risky: bool, seconds: Any, allowed: bool
) -> None:
    hold = held(start, risky=risky)
    mode(setting)
    at = None if seconds is None else ago(seconds)
    if allowed:
        approve(hold, reviewer, confirmed_at=at)
        assert HumanReviewRecord.objects.filter(hold=hold, decision="APPROVE").exists()
        return
    with pytest.raises(NotAllowed) as refused:
        approve(hold, reviewer, confirmed_at=at)
    assert refused.value.code == "step_up"
    hold.refresh_from_db()
    assert hold.status == Hold.Status.OPEN
    assert not HumanReviewRecord.objects.exists()


def test_a_rejection_needs_no_code(start: Start, reviewer: User, mode: Any) -> None:
    hold = held(start, risky=True)
    mode("all")
    version = hold.execution.version
    decide(
        DecisionRequest(
            hold_id=hold.id,
            user=reviewer,
            decision="REJECT",
            version=version,
            source="web",
            comment="no",
        )
    )


@pytest.mark.parametrize("scopes", [["read", "decide"], ["read", "decide", "decide_high_risk"]])
@pytest.mark.parametrize("door", ["resume", "commands"])
def test_a_token_needs_the_scope(
    start: Start, reviewer: User, operator: User, mode: Any, scopes: list[str], door: str
) -> None:
    hold = held(start, risky=True)
    _, text = create_token(user=reviewer, name="t", scopes=[*scopes, "run"], confirmed=True)
    mode("high_risk")
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    if door == "resume":
        body: dict[str, Any] = {
            "execution_id": hold.execution_id,
            "hold_id": hold.id,
            "decision": "APPROVE",
            "version": hold.execution.version,
        }
        answer = client.post("/api/v1/reviews/resume/", body)
    else:
        body = {"kind": "approval_response", "hold": hold.id, "approved": True}
        answer = client.post(f"/api/v1/executions/{hold.execution_id}/commands/", body)
    if "decide_high_risk" in scopes:
        assert answer.status_code == 200, answer.json()
        return
    assert answer.status_code == 403
    assert answer.json()["reason"] == "step_up"
    assert "decide_high_risk" in answer.json()["detail"]
    assert not HumanReviewRecord.objects.exists()


def test_commands_and_bulk_pass_the_confirmation_on(
    start: Start, reviewer: User, mode: Any
) -> None:
    hold, other = held(start, risky=True), held(start, risky=False)
    mode("all")
    command = ApprovalResponse(hold=hold.id, approved=True)
    call: dict[str, Any] = {
        "execution": hold.execution, "command": command, "user": reviewer, "token": None,
        "source": "rest", "version": None,
    }  # fmt: skip
    with pytest.raises(NotAllowed):
        decide_command(**call)
    decide_command(**call, confirmed_at=ago(1))
    wanted = Request(action="approve")
    chosen = [SelectedHold(other.id, other.execution.version)]
    (left,) = apply_to_all(chosen=chosen, request=wanted, user=reviewer)
    assert (left.done, left.code) == (False, "not_allowed")
    (done,) = apply_to_all(chosen=chosen, request=wanted, user=reviewer, confirmed_at=ago(1))
    assert done.done


@pytest.mark.parametrize("setting", ["off", "high_risk", "all"])
def test_a_session_makes_the_token_only_when_it_is_confirmed(
    reviewer: User, mode: Any, setting: str
) -> None:
    """Made while codes are not asked for, the token would count once they are."""
    mode(setting)
    with pytest.raises(InvalidRequest) as refused:
        create_token(user=reviewer, name="t", scopes=["decide", "decide_high_risk"])
    (problem,) = refused.value.problems
    assert (problem.path, problem.code) == ("scopes", "step_up")
    token, _ = create_token(
        user=reviewer, name="t", scopes=["decide", "decide_high_risk"], confirmed=True
    )
    assert token.scopes == ["decide", "decide_high_risk"]


def test_rest_gives_a_session_no_such_token_while_step_up_is_off(reviewer: User, mode: Any) -> None:
    mode("off")
    client = APIClient()
    client.force_login(reviewer)
    body = {"name": "t", "scopes": ["decide", "decide_high_risk"]}
    answer = client.post("/api/v1/tokens/", body, format="json")
    assert answer.status_code == 422, answer.content
    assert "HOLDPOINT_STEP_UP is off" in answer.content.decode()
    assert not ApiToken.objects.exists()
