"""REST API of approval policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.support.groups import group_of
from workflows.models import ApprovalPolicy
from workflows.permissions.tokens import create_token

from .conftest import Agent

URL = "/api/v1/approval-policies/"


@pytest.fixture
def admin(people: Callable[..., User]) -> APIClient:
    _, text = create_token(user=people("root", "admin"), name="t", scopes=["read", "admin"])
    group_of("reviewer")
    return APIClient(headers={"Authorization": f"Bearer {text}"})


def logged() -> list[tuple[str, str]]:
    """Who changed which policy, oldest first."""
    rows = LogEntry.objects.order_by("pk").select_related("user")
    return [(each.user.get_username(), each.get_change_message()) for each in rows]


def test_a_policy_is_written_read_and_deleted(admin: APIClient, agent: Agent) -> None:
    fields = {"pattern": "payments.*", "groups": ["reviewer"], "minimum_risk": "medium"}
    made = admin.post(URL, fields, format="json")
    assert made.status_code == 201, made.content
    assert made["Location"] == f"{URL}{made.json()['id']}/"
    assert agent.asked(risk="low")["risk"] == "medium"

    changed = admin.patch(made["Location"], {"minimum_risk": "high"}, format="json")
    assert changed.json() == {**made.json(), "minimum_risk": "high"}
    assert agent.asked(risk="low")["risk"] == "high"
    assert admin.get(made["Location"]).json() == changed.json()
    assert [each["pattern"] for each in admin.get(URL).json()["results"]] == ["payments.*"]

    assert admin.delete(made["Location"]).status_code == 204
    assert admin.get(made["Location"]).status_code == 404
    assert agent.asked(risk="low")["policy"] is None
    assert logged() == [("root", "Added."), ("root", "Changed minimum_risk."), ("root", "")]


def test_a_change_that_changes_nothing_is_not_logged(admin: APIClient) -> None:
    made = admin.post(URL, {"pattern": "a", "groups": ["reviewer"]}, format="json")
    again = {name: made.json()[name] for name in ("pattern", "groups", "quorum")}
    assert admin.patch(made["Location"], again, format="json").status_code == 200
    assert len(logged()) == 1


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"pattern": "taken.*"}, "pattern"),
        ({"groups": ["reviewer", "nobody-here"]}, "groups"),
        ({"groups": ["auditor"]}, "groups"),
        ({"groups": []}, "groups"),
        ({"quorum": 21}, "quorum"),
        ({"on_timeout": "perhaps"}, "on_timeout"),
        ({"skip_when": "inputs.["}, "skip_when"),
        ({"sample": 2}, "sample"),
        ({"rules": [{"name": "all"}]}, "rules"),
        ({"rules": [{"name": "a", "sample": 0}, {"name": "a", "sample": 0}]}, "rules"),
        ({"rules": [{"name": "a", "skip_when": "inputs.["}]}, "rules"),
        ({"rules": {"name": "a", "sample": 0}}, "rules"),
        ({"whom": "me"}, "whom"),
    ],
)
def test_invalid_policies_are_refused(admin: APIClient, fields: dict[str, Any], path: str) -> None:
    group_of("auditor")
    ApprovalPolicy.objects.create(pattern="taken.*", groups=["reviewer"])
    policy = ApprovalPolicy.objects.create(pattern="free", groups=["reviewer"])
    for response in (
        admin.post(URL, {"pattern": "new", "groups": ["reviewer"], **fields}, format="json"),
        admin.patch(f"{URL}{policy.pk}/", fields, format="json"),
    ):
        assert response.status_code == 422, response.content
        assert response.json()["errors"][0]["path"].startswith(path)
    assert logged() == []
    policy.refresh_from_db()
    assert (policy.pattern, policy.groups, policy.quorum) == ("free", ["reviewer"], 1)


def test_two_policies_with_one_pattern_at_the_same_time(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both pass the check of the pattern before either is stored."""
    monkeypatch.setattr("rest_framework.validators.qs_exists", lambda rows: False)
    monkeypatch.setattr(ApprovalPolicy, "validate_unique", lambda *args, **more: None)
    admin.raise_request_exception = False
    fields = {"pattern": "payments.*", "groups": ["reviewer"]}
    first, second = (admin.post(URL, fields, format="json") for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 409), second.content
    assert (second.json()["code"], second.json()["reason"]) == ("refused", "concurrent_change")
    assert ApprovalPolicy.objects.count() == 1
