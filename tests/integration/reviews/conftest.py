"""Real runs without workers: built-in tools, advanced in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model

from reviews.decisions import services
from reviews.models import HumanReviewRecord, SealedPayload
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MakeUser = Callable[..., "User"]
Start = Callable[..., Execution]


@pytest.fixture
def make_user(db: None) -> MakeUser:
    """`make_user("ann", "reviewer")`: an active user in these groups."""

    def make(name: str, *groups: str, **fields: Any) -> User:
        user = get_user_model().objects.create_user(name, password="secret", **fields)
        for group in groups:
            user.groups.add(group_of(group))
        return user

    return make


@pytest.fixture
def reviewer(make_user: MakeUser) -> User:
    return make_user("reviewer", "reviewer")


@pytest.fixture
def reviewer2(make_user: MakeUser) -> User:
    return make_user("reviewer2", "reviewer")


@pytest.fixture
def auditor(make_user: MakeUser) -> User:
    return make_user("auditor", "auditor")


@pytest.fixture
def operator(make_user: MakeUser) -> User:
    return make_user("operator", "operator")


@pytest.fixture
def start(db: None, operator: User) -> Start:
    """Start a plan as the operator and advance it until it rests."""
    stock_catalogue()

    def go(*tasks: dict[str, Any], **kwargs: Any) -> Execution:
        kwargs.setdefault("actor", operator)
        execution = start_execution(plan={"tasks": list(tasks)}, **kwargs)
        return run_to_rest(execution.pk)

    return go


def echo(name: str, value: Any = "text", *, phase: str = "", **review: Any) -> dict[str, Any]:
    """A `builtin.echo` task; `phase` BEFORE_EXECUTION or AFTER_EXECUTION asks for review."""
    task: dict[str, Any] = {
        "id": name,
        "type": "tool",
        "tool": "builtin.echo",
        "arguments": {"value": value},
    }
    if phase:
        task["human_review"] = {"trigger_phase": phase, **review}
    return task


def only_hold(execution: Execution) -> Hold:
    """The one open hold of an execution."""
    return execution.holds.get(status=Hold.Status.OPEN)


def decide(
    hold: Hold, user: User, decision: str = "APPROVE", *, source: str = "test", **fields: Any
) -> services.DecisionResult:
    """Decide a hold, by default at the version that its execution has now."""
    if "version" not in fields:
        executions = Execution.objects.filter(pk=hold.execution_id)
        fields["version"] = executions.values_list("version", flat=True).get()
    return services.decide(
        services.DecisionRequest(
            hold_id=hold.pk, user=user, decision=decision, source=source, **fields
        )
    )


@pytest.fixture
def plain_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write records as before their payloads were encrypted."""

    def plain(record: HumanReviewRecord, payload: SealedPayload, key: str) -> None:
        record.stored_original, record.stored_modified = payload.original, payload.modified
        record.stored_comment = payload.comment

    monkeypatch.setattr(HumanReviewRecord, "seal", plain)
