"""Rights are checked again when a queued command or a delayed decision takes effect."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from rest_framework.test import APIClient

from reviews.decisions.withdrawal import settle
from reviews.models import HumanReviewRecord
from reviews.people.services import set_active
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.journal.writer import DjangoJournal
from workflows.models import ApiToken, Execution, Hold
from workflows.permissions import tokens
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def root(make_user: MakeUser) -> User:
    return make_user("root", is_superuser=True, is_staff=True)


def deactivate(person: User, root: User) -> None:
    set_active(actor=root, person=person, active=False)


def take_roles(person: User, root: User) -> None:
    person.groups.clear()


def revoke_token(person: User, root: User) -> None:
    tokens.revoke(tokens=ApiToken.objects.filter(user=person))


def nothing(person: User, root: User) -> None:
    pass


LOSSES: list[tuple[Callable[[User, User], None], str]] = [
    (deactivate, "may no longer act"),
    (take_roles, "no longer has the right"),
    (revoke_token, "may no longer act"),
    (nothing, ""),
]


@pytest.mark.parametrize(("lose", "words"), LOSSES, ids=[lose.__name__ for lose, _ in LOSSES])
def test_a_queued_command_needs_the_right_when_it_is_applied(
    start: Start, make_user: MakeUser, root: User, lose: Any, words: str
) -> None:
    sender = make_user("sender", "operator")
    _, text = create_token(user=sender, name="t", scopes=["run", "read"])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    execution = start_execution(actor=root, plan={"tasks": [echo("first")]})
    with DjangoJournal(owner="worker").claim(str(execution.pk)):
        body = {"kind": "inject_task", "task": echo("injected")}
        answer = client.post(f"/api/v1/executions/{execution.pk}/commands/", body, format="json")
        assert answer.status_code == 202, answer.json()
    lose(sender, root)
    execution = run_to_rest(execution.pk)
    ran = set(execution.attempts.values_list("task_id", flat=True))
    refusals = execution.events.filter(kind="command_refused")
    errors = [row.payload["error"] for row in refusals]
    assert execution.status == "COMPLETED"
    if words:
        assert ran == {"first"}
        assert len(errors) == 1
        assert words in errors[0]
        assert refusals.get().actor_id == sender.pk
    else:
        assert (ran, errors) == ({"first", "injected"}, [])


def delayed(start: Start, reviewer: User, **policy: Any) -> Hold:
    """A hold that the reviewer has approved, with an undo time that is over."""
    hold = only_hold(start(echo("gate", phase="BEFORE_EXECUTION"), policy=policy))
    decide(hold, reviewer, undo_seconds=600)
    Hold.objects.filter(pk=hold.pk).update(undo_until="2020-01-01T00:00Z")
    hold.refresh_from_db()
    assert hold.status == "APPROVED"
    return hold


@pytest.mark.parametrize("lose", [deactivate, take_roles], ids=lambda lose: lose.__name__)
def test_a_delayed_decision_needs_the_right_when_it_takes_effect(
    start: Start, reviewer: User, reviewer2: User, root: User, lose: Any
) -> None:
    hold = delayed(start, reviewer)
    lose(reviewer, root)
    assert settle(hold.pk, hold.execution_id)
    hold.refresh_from_db()
    assert (hold.status, hold.approver_ids, hold.undo_until) == ("OPEN", [], None)
    assert Execution.objects.get(pk=hold.execution_id).status == "PAUSED_FOR_REVIEW"
    record = HumanReviewRecord.objects.latest("id")
    assert (record.decision, record.reviewer, record.actor) == ("WITHDRAW", None, "system")
    assert "reviewer" in record.comment
    decide(hold, reviewer2)
    assert run_to_rest(hold.execution_id).status == "COMPLETED"


def test_a_delayed_decision_with_a_revoked_token_does_not_take_effect(
    start: Start, reviewer: User, root: User
) -> None:
    _, text = create_token(user=reviewer, name="t", scopes=["decide", "read"])
    hold = only_hold(start(echo("gate", phase="BEFORE_EXECUTION")))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    body = {
        "kind": "approval_response",
        "hold": hold.pk,
        "approved": True,
        "undo_seconds": 600,
    }
    url = f"/api/v1/executions/{hold.execution_id}/commands/"
    assert client.post(url, body, format="json").status_code == 200
    Hold.objects.filter(pk=hold.pk).update(undo_until="2020-01-01T00:00Z")
    revoke_token(reviewer, root)
    assert settle(hold.pk, hold.execution_id)
    hold.refresh_from_db()
    assert hold.status == "OPEN"


def test_a_deactivation_meanwhile_comes_before_the_settlement(
    start: Start, reviewer: User, root: User
) -> None:
    """The settlement waits for the deactivation, and then refuses."""
    hold = delayed(start, reviewer)
    done: list[bool] = []

    def settle_in_thread() -> None:
        try:
            done.append(settle(hold.pk, hold.execution_id))
        finally:
            connection.close()

    thread = Thread(target=settle_in_thread)
    with transaction.atomic():
        get_user_model().objects.filter(pk=reviewer.pk).update(is_active=False)
        thread.start()
        while not _somebody_waits():
            thread.join(0.01)
            assert thread.is_alive(), "the settlement did not wait"
    thread.join(60)
    hold.refresh_from_db()
    assert (done, hold.status) == ([True], "OPEN")


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
        )
        return bool(cursor.fetchone()[0])
