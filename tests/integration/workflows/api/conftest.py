"""Users of every role, their clients, and executions."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.integration.workflows.api.roles import ROLES
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from workflows.executions import services
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Workflow
from workflows.permissions.tokens import SCOPES, create_token

BearerFor = Callable[..., APIClient]


@pytest.fixture
def people(db: None) -> dict[str, User]:
    """One active user per role, named like it; `nobody` is in no group."""
    found = {}
    for role in (*ROLES, "nobody"):
        found[role] = User.objects.create_user(role, password="correct horse battery")
        if role != "nobody":
            found[role].groups.add(group_of(role))
    return found


@pytest.fixture
def catalogue(db: None) -> None:
    stock_catalogue()


def may_have(scope: str, role: str) -> bool:
    """Whether a token of the role's user may have the scope beside others."""
    holders = {"admin": ("admin",), "loosen": ("operator", "admin")}.get(scope)
    return holders is None or role in holders


@pytest.fixture
def bearer(people: dict[str, User]) -> BearerFor:
    """A client with a token of that role's user; with every scope it may have unless told."""

    def make(role: str, scopes: Iterable[str] | None = None, **fields: Any) -> APIClient:
        user = people[role]
        most = [each for each in SCOPES if may_have(each, role)]
        _, text = create_token(
            user=user, name="test", scopes=scopes or most, confirmed=True, **fields
        )
        return APIClient(headers={"Authorization": f"Bearer {text}"})

    return make


@pytest.fixture
def session(people: dict[str, User]) -> Callable[[str], APIClient]:
    """A client that has logged in."""

    def make(role: str) -> APIClient:
        client = APIClient()
        client.force_login(people[role])
        return client

    return make


def reviewed_plan(*, phase: str = "AFTER_EXECUTION", group: str = "reviewer") -> dict[str, Any]:
    """`draft` (reviewed), then `use` of what it gave."""
    review = {
        "trigger_phase": phase,
        "groups": [group],
        "on_timeout": "keep_waiting",
        "instructions": "Is it right?",
    }
    return {
        "tasks": [
            {
                "id": "draft",
                "type": "tool",
                "tool": "builtin.echo",
                "arguments": {"value": {"text": "hello"}},
                "human_review": review,
            },
            {
                "id": "use",
                "type": "tool",
                "tool": "builtin.echo",
                "arguments": {"value": {"$from": "draft"}},
            },
        ]
    }


def plain_plan(count: int = 1) -> dict[str, Any]:
    """`count` tasks one after the other."""
    return {
        "tasks": [
            {
                "id": f"t{index}",
                "type": "tool",
                "tool": "builtin.echo",
                "arguments": {"value": index},
                "depends_on": [f"t{index - 1}"] if index else [],
            }
            for index in range(count)
        ]
    }


@pytest.fixture
def start(catalogue: None, people: dict[str, User]) -> Callable[..., Execution]:
    """Start a plan as a role and run it until it rests."""

    def make(role: str = "operator", plan: Any = None, *, run: bool = True) -> Execution:
        execution = services.start_execution(actor=people[role], plan=plan or reviewed_plan())
        return run_to_rest(execution.pk) if run else execution

    return make


@pytest.fixture
def workflow(catalogue: None, people: dict[str, User]) -> Workflow:
    return Workflow.objects.create(
        name="echo",
        title="Echo",
        plan=reviewed_plan(),
        policy={"four_eyes": False},
        inputs_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
        default_inputs={"n": 1},
        created_by=people["admin"],
    )
