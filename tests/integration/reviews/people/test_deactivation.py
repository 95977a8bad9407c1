"""What the deactivation of an account ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from oauth2_provider.models import Application
from oauth2_provider.models import Grant as Code

from reviews.answer_links import services as answer_links
from reviews.models import ChatHook, ReviewClaim, SlackAccount, SlackWorkspace
from reviews.people.services import set_active
from reviews.queue.claims import claim
from tests.integration.reviews.conftest import MakeUser, Start, echo
from workflows.models import Absence, Grant, WebhookEndpoint
from workflows.permissions.tokens import authenticate_token, create_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def leaver(make_user: MakeUser) -> User:
    person: User = make_user("ann", "reviewer")
    return person


@pytest.fixture
def access_of_leaver(
    leaver: User, operator: User, start: Start, settings: Any
) -> Callable[[], dict[str, bool]]:
    """One of everything by which the person acts; the function says what still works."""
    session = Client()
    session.force_login(leaver)
    other = Client()
    other.force_login(User.objects.create_user("other"))
    _, text = create_token(user=leaver, name="t", scopes=["read"])
    run = start(echo("a", phase="BEFORE_EXECUTION"))
    hold = run.holds.get()
    claim(hold_id=hold.pk, user=leaver)
    Grant.objects.create(hold=hold, execution=run, operation="read", resource="/srv",
        scope="until", granted_by="ann", granted_by_id=leaver.pk, permissions={},
        expires_at=timezone.now() + timedelta(days=1))  # fmt: skip
    slack = SlackWorkspace.objects.create(name="s", team_id="T1")
    SlackAccount.objects.create(workspace=slack, slack_user="U1", user=leaver)
    ChatHook.objects.create(name="c", user=leaver, url="encrypted")
    WebhookEndpoint.objects.create(owner=leaver, name="w", url="https://w.example/", secret="s")
    leaver.set_password("a-long-way-to-tipperary")
    leaver.save()
    session.force_login(leaver)
    now = timezone.now()
    for user, delegate in ((leaver, operator), (operator, leaver)):
        Absence.objects.create(
            user=user, delegate=delegate, begins_at=now, ends_at=now + timedelta(days=1)
        )
    settings.HOLDPOINT = {**settings.HOLDPOINT, "answer_link_hours": 24}
    _, _, link = answer_links.path_for(leaver, hold).partition("#")
    client = Application.objects.create(name="agent", redirect_uris="https://agent.example/")
    Code.objects.create(
        user=leaver, application=client, code="c", expires=timezone.now() + timedelta(minutes=1)
    )

    def works() -> dict[str, bool]:
        assert other.get("/review/").status_code == 200
        return {
            "session": session.get("/review/").status_code == 200,
            "token": authenticate_token(text) is not None,
            "claim": ReviewClaim.objects.filter(user=leaver).exists(),
            "grant": Grant.objects.filter(granted_by="ann", revoked_at=None).exists(),
            "chat": SlackAccount.objects.filter(user=leaver).exists(),
            "absences": Absence.objects.filter(cancelled_at=None).exists(),
            "code": Code.objects.filter(user=leaver).exists(),
            "link": Client().post("/answer/review/", {"token": link}).status_code == 200,
            "chat hook": ChatHook.objects.filter(user=leaver).exists(),
            "webhook": WebhookEndpoint.objects.filter(owner=leaver, enabled=True).exists(),
            "password": User.objects.get(pk=leaver.pk).check_password("a-long-way-to-tipperary"),
        }

    return works


@pytest.mark.parametrize("how", ["admin", "service"])
def test_deactivation_ends_all_access_for_good(
    make_user: MakeUser, leaver: User, access_of_leaver: Callable[[], dict[str, bool]], how: str
) -> None:
    boss = make_user("boss", is_superuser=True, is_staff=True)
    assert set(access_of_leaver().values()) == {True}
    if how == "service":
        set_active(actor=boss, person=leaver, active=False)
    else:
        client = Client()
        client.force_login(boss)
        client.post(
            f"/admin/auth/user/{leaver.pk}/change/",
            {"username": "ann", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"},
        )
    leaver.refresh_from_db()
    assert not leaver.is_active
    assert set(access_of_leaver().values()) == {False}
    User.objects.filter(pk=leaver.pk).update(is_active=True)
    assert set(access_of_leaver().values()) == {False}
    others = 2 if how == "admin" else 1
    assert Session.objects.count() == others
    assert Grant.objects.get(granted_by="ann").revoked_by == "boss"
