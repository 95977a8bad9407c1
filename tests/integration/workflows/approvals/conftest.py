"""Agents that ask, and people who decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from reviews.decisions.services import DecisionRequest, DecisionResult, decide
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from workflows.executions.jobs import run_to_rest
from workflows.models import Approval, Hold
from workflows.permissions.tokens import create_token

URL = "/api/v1/approvals/"
PAY: dict[str, Any] = {"to": "ACME", "amount": 250, "memo": None}


class Agent:
    """A program with a token of one person."""

    def __init__(self, user: User, *scopes: str) -> None:
        self.user = user
        _, text = create_token(user=user, name="bot", scopes=scopes or ("ask",))
        self.headers = {"Authorization": f"Bearer {text}"}
        self.client = APIClient(headers=self.headers)

    def post(self, path: str, body: Any, key: str = "") -> Any:
        headers = {"Idempotency-Key": key} if key else {}
        return self.client.post(f"{URL}{path}", body, format="json", headers=headers)

    def ask(self, key: str = "", **fields: Any) -> Any:
        """The response to a request; `action` is merged into a payment."""
        action = {"name": "payments.transfer", "arguments": PAY, **fields.pop("action", {})}
        return self.post("", {"action": action, **fields}, key)

    def asked(self, **fields: Any) -> dict[str, Any]:
        response = self.ask(**fields)
        assert response.status_code == 201, response.content
        return dict(response.json())

    def get(self, number: str, query: str = "") -> dict[str, Any]:
        response = self.client.get(f"{URL}{number}/{query}")
        assert response.status_code == 200, response.content
        return dict(response.json())

    def refused(self, **fields: Any) -> dict[str, str]:
        """The errors of a refused request: field -> code."""
        response = self.ask(**fields)
        assert response.status_code in (400, 422), response.content
        return {each["path"]: each["code"] for each in response.json()["errors"]}


@pytest.fixture
def people(db: None) -> Callable[..., User]:
    """`people("ann", "reviewer")`: an active user in these groups."""

    def make(name: str, *groups: str) -> User:
        user, _ = User.objects.get_or_create(username=name)
        for group in groups:
            user.groups.add(group_of(group))
        return user

    return make


@pytest.fixture
def agent(people: Callable[..., User]) -> Agent:
    stock_catalogue()
    return Agent(people("owner", "integrator"))


@pytest.fixture
def reviewer(people: Callable[..., User]) -> User:
    return people("reviewer", "reviewer")


def hold_of(body: dict[str, Any]) -> Hold:
    """The open hold of an approval."""
    return Hold.objects.select_related("execution").get(
        execution=body["execution_id"], status=Hold.Status.OPEN
    )


def decided(
    body: dict[str, Any], user: User, decision: str = "APPROVE", **fields: Any
) -> DecisionResult:
    """Decide as a person on a page, without an undo period, and let a worker go on."""
    hold = hold_of(body)
    request = DecisionRequest(
        hold_id=hold.pk,
        user=user,
        decision=decision,
        version=hold.execution.version,
        source="web",
        **fields,
    )
    result = decide(request)
    run_to_rest(hold.execution_id)
    return result


def row_of(body: dict[str, Any]) -> Approval:
    return Approval.objects.select_related("execution").get(pk=body["id"])
