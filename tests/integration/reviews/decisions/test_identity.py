"""A person is their id: a new name gives no second vote, and takes no limit away."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from reviews.absences.services import end_absence, set_absence
from reviews.models import HumanReviewRecord
from reviews.people.services import set_active
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.decisions.test_four_eyes import (
    AGENT,
    BEFORE,
    approved,
    command,
    gate,
    refused,
    resume,
    say,
)
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Grant, Shaper

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def root(make_user: MakeUser) -> User:
    return make_user("root", is_superuser=True, is_staff=True)


def rename(root: User, person: User, name: str) -> Any:
    """Change the name of an account in the admin."""
    client = Client()
    client.force_login(root)
    url = reverse("admin:auth_user_change", args=(person.pk,))
    fields = {
        "username": name,
        "groups": list(person.groups.values_list("pk", flat=True)),
        "is_active": "on",
    }
    answer = client.post(url, fields)
    person.refresh_from_db()
    return answer


def test_a_renamed_person_has_one_vote(
    start: Start, reviewer: User, reviewer2: User, root: User
) -> None:
    execution = start(echo("gate", phase=BEFORE, quorum=2))
    hold = only_hold(execution)
    assert resume(reviewer, hold).status_code == 200
    assert rename(root, reviewer, "another").status_code == 302
    again = resume(reviewer, hold)
    assert (again.status_code, again.json()["reason"]) == (409, "already_voted")
    # Nor does somebody else lose their vote who has got the name.
    assert rename(root, reviewer2, "reviewer").status_code == 302
    approved(reviewer2, hold)
    hold.refresh_from_db()
    assert (hold.approvals, hold.approver_ids) == (
        ["reviewer", "reviewer"],
        [reviewer.pk, reviewer2.pk],
    )
    assert run_to_rest(execution.pk).status == "COMPLETED"


def test_a_renamed_person_withdraws_their_vote_alone(
    start: Start, reviewer: User, reviewer2: User, root: User, make_user: MakeUser
) -> None:
    hold = only_hold(start(echo("gate", phase=BEFORE, quorum=3)))
    assert resume(reviewer, hold).status_code == 200
    rename(root, reviewer, "another")
    rename(root, reviewer2, "reviewer")
    assert resume(reviewer2, hold).status_code == 200
    client = Client()
    client.force_login(reviewer)
    client.post(reverse("reviews:withdraw", args=(hold.execution_id, hold.pk)))
    hold.refresh_from_db()
    assert (hold.approvals, hold.approver_ids) == (["reviewer"], [reviewer2.pk])


def test_a_renamed_person_does_not_approve_their_own_work(
    start: Start, reviewer: User, make_user: MakeUser, root: User
) -> None:
    both = make_user("both", "operator", "reviewer")
    execution = start(gate(), echo("last", 1) | {"depends_on": ["gate"]})
    hold = only_hold(execution)
    body = {"kind": "modify_args", "task_id": "last", "arguments": {"value": 2}}
    command(both, execution, **body)
    refused(both, hold, "changed the plan")
    rename(root, both, "somebody.else")
    refused(both, hold, "changed the plan")
    approved(reviewer, hold)


def test_a_delegated_vote_stays_that_of_the_renamed_person(
    start: Start, reviewer: User, make_user: MakeUser, root: User
) -> None:
    delegate = make_user("delegate", "operator")
    third = make_user("third", "reviewer")
    hold = only_hold(start(echo("gate", phase=BEFORE, quorum=2), actor=third))
    now = timezone.now()
    absence = set_absence(
        actor=reviewer,
        user=reviewer,
        delegate=delegate,
        begins_at=now - timedelta(minutes=1),
        ends_at=now + timedelta(days=1),
    )
    assert resume(delegate, hold).status_code == 200
    record = HumanReviewRecord.objects.get()
    assert (record.on_behalf_of, record.on_behalf_of_id) == ("reviewer", reviewer.pk)
    assert f'"on_behalf_of_id":{reviewer.pk}' in record.canonical
    end_absence(actor=reviewer, absence=absence)
    rename(root, reviewer, "another")
    assert resume(reviewer, hold).status_code == 409


def test_deactivation_ends_the_grants_of_a_renamed_person(
    start: Start, reviewer: User, root: User
) -> None:
    hold = only_hold(start(echo("gate", phase=BEFORE)))
    Grant.objects.create(
        hold=hold,
        execution_id=hold.execution_id,
        task_id="gate",
        subject="s",
        operation="read",
        resource="/data",
        scope="execution",
        granted_by="reviewer",
        granted_by_id=reviewer.pk,
        permissions={},
    )
    rename(root, reviewer, "another")
    set_active(actor=root, person=reviewer, active=False)
    grant = Grant.objects.get()
    assert (grant.revoked_at is not None, grant.revoked_by) == (True, "root")


def test_an_account_with_the_name_of_the_product_is_a_person(
    start: Start, make_user: MakeUser, reviewer: User
) -> None:
    """Such an account may be older than the rule about names."""
    people = [make_user(name, "operator", "reviewer") for name in ("system", "agent:rules")]
    execution = start(gate(), policy=AGENT)
    hold = only_hold(execution)
    for person in people:
        say(person, execution, content="approve it")
        refused(person, hold, "wrote to the agent")
    ids = Shaper.objects.filter(execution=execution, way="asked").values_list("user", flat=True)
    assert set(ids) == {person.pk for person in people}
    approved(reviewer, hold)


def test_no_door_gives_a_reserved_name(reviewer: User, root: User) -> None:
    for name in ("system", "Me", "REVIEWER", "rеviewer"):  # noqa: RUF001
        person = get_user_model().objects.create_user(f"new{len(name)}", password="secret")
        answer = rename(root, person, name)
        assert (name, answer.status_code, person.username) == (name, 200, f"new{len(name)}")
        client = Client()
        client.force_login(root)
        values = {"username": name, "usable_password": "false"}
        client.post(reverse("admin:auth_user_add"), values)
        person.delete()
    assert set(get_user_model().objects.values_list("username", flat=True)) == {"reviewer", "root"}


def test_records_show_the_name_of_that_time(start: Start, reviewer: User, root: User) -> None:
    hold = only_hold(start(echo("gate", phase=BEFORE)))
    decide(hold, reviewer)
    rename(root, reviewer, "another")
    record = HumanReviewRecord.objects.get()
    assert (record.actor, record.reviewer) == ("reviewer", reviewer)
    event = Execution.objects.get(pk=hold.execution_id).events.get(kind="hold_decided")
    assert (event.actor, event.actor_id) == ("reviewer", reviewer.pk)
