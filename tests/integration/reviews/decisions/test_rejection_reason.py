"""A rejection gives its reason: on pages by default, everywhere where the policy says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rest_framework.test import APIClient

from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.support.pages import browser
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def held(start: Start, required: bool | None) -> Hold:
    policy = {} if required is None else {"require_rejection_reason": required}
    return only_hold(start(echo("a", phase="BEFORE_EXECUTION"), policy=policy))


def on_page(user: User, hold: Hold, comment: str) -> Any:
    client = browser(user)
    data = {"version": hold.execution.version, "decision": "REJECT", "comment": comment}
    return client.post(f"/review/{hold.execution_id}/{hold.id}/", data)


def over_rest(user: User, hold: Hold, comment: str) -> Any:
    client = APIClient()
    client.force_authenticate(user)
    data = {
        "execution_id": str(hold.execution_id),
        "hold_id": hold.id,
        "version": hold.execution.version,
        "decision": "REJECT",
        "comment": comment,
    }
    return client.post("/api/v1/reviews/resume/", data, format="json")


@pytest.mark.parametrize("required", [None, True])
def test_a_page_asks_for_the_reason(start: Start, reviewer: User, required: bool | None) -> None:
    hold = held(start, required)
    refused = on_page(reviewer, hold, " ")
    assert refused.status_code == 422
    assert refused.context["d"]["open_panel"] == "reject"
    assert refused.context["d"]["comment_error"] == "must give the reason for the rejection"
    hold.refresh_from_db()
    assert hold.status == Hold.Status.OPEN
    assert on_page(reviewer, hold, "not now").status_code == 303


def test_a_workflow_may_do_without(start: Start, reviewer: User) -> None:
    assert on_page(reviewer, held(start, required=False), "").status_code == 303


@pytest.mark.parametrize("required", [None, False])
def test_clients_of_the_api_keep_rejecting_without(
    start: Start, reviewer: User, required: bool | None
) -> None:
    assert over_rest(reviewer, held(start, required), "").status_code == 200


def test_the_policy_may_require_it_of_clients_too(start: Start, reviewer: User) -> None:
    hold = held(start, required=True)
    refused = over_rest(reviewer, hold, "")
    assert refused.status_code == 422
    assert [each["path"] for each in refused.json()["errors"]] == ["comment"]
    assert over_rest(reviewer, hold, "not now").status_code == 200
