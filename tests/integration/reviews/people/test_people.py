"""People in the admin: who may change whom and give what, and what deactivating ends."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.core import mail
from django.db import connection
from django.test import Client
from django.urls import reverse

from reviews.people import rights, services
from tests.integration.reviews.conftest import MakeUser
from workflows.permissions.roles import ensure_roles
from workflows.permissions.tokens import authenticate_token, create_token

pytestmark = pytest.mark.django_db

PEOPLE, ADD = reverse("admin:auth_user_changelist"), reverse("admin:auth_user_add")
PASSWORD = "a-long-way-to-tipperary"
NEW_PASSWORD = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}


def edit(person: User) -> str:
    return reverse("admin:auth_user_change", args=(person.pk,))


def password_page(person: User) -> str:
    return reverse("admin:auth_user_password_change", args=(person.pk,))


def values(person: User, **changes: Any) -> dict[str, Any]:
    """What the form of the admin posts for an account."""
    fields = {
        "username": person.username,
        "email": person.email,
        "groups": list(person.groups.values_list("pk", flat=True)),
        "user_permissions": list(person.user_permissions.values_list("pk", flat=True)),
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
        **{
            name: "on"
            for name in ("is_active", "is_staff", "is_superuser")
            if getattr(person, name)
        },
        **changes,
    }
    return {name: value for name, value in fields.items() if value != ""}


def act(client: Client, action: str, *people: User) -> str:
    """Run an action of the list for these people, and return the page that follows."""
    sent = {"action": action, "_selected_action": [each.pk for each in people]}
    return client.post(PEOPLE, sent, follow=True).content.decode()


def new_person(**fields: Any) -> dict[str, Any]:
    return {"username": "pear", **NEW_PASSWORD, **fields}


def log() -> list[str]:
    return [each.get_change_message() for each in LogEntry.objects.order_by("pk")]


def test_a_person_is_added_and_gets_groups(staff: Any) -> None:
    client = staff("root")
    made = client.post(ADD, new_person())
    person = User.objects.get(username="pear")
    assert (made.status_code, made["Location"]) == (302, edit(person))
    groups = [Group.objects.get(name="reviewer").pk]
    sent = values(person, groups=groups, is_staff="on", email="pear@example.com")
    assert client.post(edit(person), sent).status_code == 302
    person.refresh_from_db()
    assert list(person.groups.values_list("name", flat=True)) == ["reviewer"]
    assert (person.is_staff, person.is_superuser) == (True, False)
    assert person.email == "pear@example.com"
    assert Client().login(username="pear", password=PASSWORD)
    assert len(log()) == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"username": "root"}, "already exists"),
        ({"password2": "another"}, "match"),
        ({"password1": "1", "password2": "1"}, "too short"),
        ({"password1": "", "password2": ""}, "required"),
    ],
)
def test_an_invalid_person_is_not_added(staff: Any, fields: dict[str, Any], words: str) -> None:
    client = staff("root", name="root")
    response = client.post(ADD, new_person(**fields))
    assert words in response.content.decode()
    assert User.objects.count() == 1


def test_a_person_without_a_password_signs_in_elsewhere(staff: Any) -> None:
    sent = new_person(usable_password="false", password1="", password2="")
    assert staff("root").post(ADD, sent).status_code == 302
    assert not User.objects.get(username="pear").has_usable_password()


def test_groups_are_changed_and_logged(staff: Any, make_user: Any) -> None:
    person = make_user("pear", "reviewer")
    client = staff("root")
    sent = values(person, groups=[Group.objects.get(name="auditor").pk])
    assert client.post(edit(person), sent).status_code == 302
    assert list(person.groups.values_list("name", flat=True)) == ["auditor"]
    assert log() == ["Changed Groups."]


def test_deactivating_ends_sessions_and_tokens(staff: Any, make_user: Any) -> None:
    person = make_user("pear", "reviewer")
    _, text = create_token(user=person, name="t", scopes=["read"])
    session = Client()
    session.force_login(person)
    client = staff("root")
    assert "Deactivated: pear." in act(client, "deactivate", person)
    assert session.get("/review/").status_code == 302
    assert authenticate_token(text) is None
    act(client, "deactivate", person)
    assert "Activated: pear." in act(client, "activate", person)
    assert authenticate_token(text) is None
    assert session.get("/review/").status_code == 302
    assert log() == ["Changed Active.", "Changed Active."]


def test_nobody_deactivates_themselves(staff: Any, make_user: MakeUser) -> None:
    client = staff("root", name="root")
    me = User.objects.get(username="root")
    make_user("second", is_staff=True, is_superuser=True)
    refused = "cannot deactivate your own account"
    assert refused in act(client, "deactivate", me)
    assert refused in client.post(edit(me), values(me, is_active="")).content.decode()
    me.refresh_from_db()
    assert me.is_active


def test_a_new_password_ends_other_sessions(staff: Any, make_user: Any) -> None:
    person = make_user("pear", "reviewer")
    session = Client()
    session.force_login(person)
    client = staff("root", name="root")
    wrong = client.post(password_page(person), {**NEW_PASSWORD, "password2": "x"})
    assert "match" in wrong.content.decode()
    assert client.post(password_page(person), NEW_PASSWORD).status_code == 302
    assert session.get("/review/").status_code == 302
    assert Client().login(username="pear", password=PASSWORD)
    # One's own new password keeps the session that set it.
    me = User.objects.get(username="root")
    assert client.post(password_page(me), NEW_PASSWORD).status_code == 302
    assert client.get(PEOPLE).status_code == 200
    assert log() == ["Changed password.", "Changed password."]


def test_the_list_is_searched(staff: Any, make_user: Any) -> None:
    make_user("pear", "reviewer", first_name="Ann")
    make_user("plum", "auditor", is_active=False)
    client = staff("auditor")

    def shown(query: str) -> set[str]:
        rows = client.get(f"{PEOPLE}?{query}").context["cl"].result_list
        return {person.username for person in rows}

    assert shown("") == {"pear", "plum", "staff-auditor"}
    assert shown("q=ann+PEAR") == {"pear"}
    group = Group.objects.get(name="auditor").pk
    assert shown(f"groups__id__exact={group}&is_active__exact=0") == {"plum"}


@pytest.mark.parametrize("role", ["admin", "auditor", "operator", "reviewer", "integrator"])
def test_no_role_changes_people(staff: Any, make_user: Any, role: str) -> None:
    person = make_user("pear", "reviewer")
    client = staff(role)
    reads = 200 if role in ("admin", "auditor") else 403
    assert client.get(PEOPLE).status_code == reads
    page = client.get(edit(person))
    assert page.status_code == reads
    assert b'name="groups"' not in page.content
    assert b"md5" not in page.content
    assert client.get(ADD).status_code == 403
    assert client.post(ADD, new_person(username="x")).status_code == 403
    assert client.post(edit(person), values(person, is_active="")).status_code == 403
    assert client.post(password_page(person), NEW_PASSWORD).status_code == 403
    for action in ("deactivate", "send_password_link"):
        act(client, action, person)
    assert User.objects.get(pk=person.pk).is_active
    assert mail.outbox == []


def test_people_who_are_not_staff_are_refused(make_user: Any) -> None:
    client = Client()
    assert client.get(PEOPLE).status_code == 302
    client.force_login(make_user("root", is_superuser=True))
    assert client.get(PEOPLE, follow=True).status_code == 403


# --- who may change whom --------------------------------------------------------------------------

LAST = "This is the last administrator"


@pytest.fixture
def help_desk(make_user: MakeUser) -> User:
    """Staff with every permission for accounts, and no other."""
    user = make_user("desk", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__endswith="_user"))
    ensure_roles()
    return user


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("kind", ["superuser", "admin"])
def test_the_help_desk_changes_no_administrator(
    help_desk: User, make_user: MakeUser, kind: str
) -> None:
    groups = ["admin"] if kind == "admin" else []
    boss = make_user("boss", *groups, is_staff=True, is_superuser=kind == "superuser")
    make_user("other", is_staff=True, is_superuser=True)
    client = signed_in(help_desk)
    assert b'name="groups"' not in client.get(edit(boss)).content
    assert client.post(edit(boss), values(boss, is_active="")).status_code == 403
    assert client.post(password_page(boss), NEW_PASSWORD).status_code == 403
    for action in ("deactivate", "send_password_link"):
        assert "Only an administrator may change" in act(client, action, boss)
    deletion = reverse("admin:auth_user_delete", args=(boss.pk,))
    assert client.post(deletion, {"post": "yes"}).status_code == 403
    boss.refresh_from_db()
    assert boss.is_active
    assert boss.check_password("secret")
    assert mail.outbox == []


@pytest.mark.parametrize("role", ["admin", "reviewer", "integrator"])
def test_nobody_gives_a_group_above_their_own_rights(help_desk: User, role: str) -> None:
    client = signed_in(help_desk)
    group = Group.objects.get(name=role)
    in_admin = client.post(edit(help_desk), values(help_desk, groups=[group.pk]))
    assert "You cannot add the group" in in_admin.content.decode()
    client.post(ADD, new_person(groups=[group.pk]))
    assert not User.objects.filter(groups__isnull=False).exists()


def test_a_reviewer_makes_no_second_reviewer(help_desk: User, make_user: MakeUser) -> None:
    """With accounts of their own making, or that they sign in to, their vote would count twice."""
    reviewer = Group.objects.get(name="reviewer")
    help_desk.groups.add(reviewer)
    person, client = make_user("pear"), signed_in(help_desk)
    refused = client.post(edit(person), values(person, groups=[reviewer.pk]))
    assert "You cannot add the group reviewer" in refused.content.decode()
    client.post(ADD, new_person(groups=[reviewer.pk]))
    assert [*User.objects.filter(groups=reviewer)] == [help_desk]


def test_nobody_gives_permissions_above_their_own(help_desk: User) -> None:
    client = signed_in(help_desk)
    permission = Permission.objects.get(codename="decide_hold")
    given = client.post(edit(help_desk), values(help_desk, user_permissions=[permission.pk]))
    assert "permissions that you do not have" in given.content.decode()
    made = client.post(edit(help_desk), values(help_desk, is_superuser="on"))
    assert "Only a superuser" in made.content.decode()
    help_desk.refresh_from_db()
    assert not help_desk.is_superuser
    assert not help_desk.has_perm("workflows.decide_hold")


def test_the_help_desk_helps(help_desk: User, make_user: MakeUser) -> None:
    """It sets no password of a reviewer: it could then approve as that person."""
    person = make_user("pear", "reviewer", email="pear@example.com")
    client = signed_in(help_desk)
    assert client.post(edit(person), values(person, first_name="Ann")).status_code == 302
    assert client.post(password_page(person), NEW_PASSWORD).status_code == 403
    assert client.get(password_page(person)).status_code == 403
    person.refresh_from_db()
    assert (person.first_name, person.check_password("secret")) == ("Ann", True)
    assert "Sent a link to: pear." in act(client, "send_password_link", person)
    assert "Deactivated: pear." in act(client, "deactivate", person)
    inactive = User.objects.get(pk=person.pk)
    assert client.post(edit(person), values(inactive, last_name="Pear")).status_code == 302
    assert client.post(password_page(person), NEW_PASSWORD).status_code == 403
    person.refresh_from_db()
    assert (person.first_name, person.last_name) == ("", "Pear")
    assert not person.has_usable_password()


@pytest.mark.parametrize("kind", ["reviewer", "payments", "integrator", "permission"])
def test_nobody_takes_over_an_account_with_other_rights(
    help_desk: User, make_user: MakeUser, kind: str
) -> None:
    person = make_user("pear", email="pear@example.com")
    if kind == "permission":
        person.user_permissions.add(Permission.objects.get(codename="loosen_policy"))
    else:
        person.groups.add(Group.objects.get_or_create(name=kind)[0])
    client = signed_in(help_desk)
    page = client.get(edit(person)).content.decode()
    assert 'name="email"' not in page
    assert password_page(person) not in page
    assert client.post(edit(person), values(person, email="desk@example.com")).status_code == 302
    assert client.post(password_page(person), NEW_PASSWORD).status_code == 403
    person.refresh_from_db()
    assert person.email == "pear@example.com"
    assert person.check_password("secret")


def test_who_may_take_over_whom(help_desk: User, make_user: MakeUser) -> None:
    root = make_user("root", is_superuser=True)
    admin, other_admin = make_user("admin", "admin"), make_user("admin2", "admin")
    reviewer, colleague = make_user("pear", "reviewer"), make_user("plum", "reviewer")
    operator, auditor = make_user("operator", "operator"), make_user("auditor", "auditor")
    nobody, away = make_user("nobody"), make_user("away", is_active=False)
    away.user_permissions.add(Permission.objects.get(codename="loosen_policy"))
    people = (root, admin, other_admin, reviewer, colleague, operator, auditor, nobody, away)
    expected = {
        root: set(people),
        admin: set(people) - {root},
        # Votes of the same group are those of different people.
        reviewer: {reviewer, nobody},
        operator: {operator, nobody, away},
        auditor: {auditor},
        help_desk: {nobody},
    }
    fresh = {each.pk: User.objects.get(pk=each.pk) for each in (*people, help_desk)}
    for actor, taken in expected.items():
        allowed = {each for each in people if rights.may_take_over(fresh[actor.pk], fresh[each.pk])}
        assert {each.username for each in allowed} == {each.username for each in taken}, actor


def test_an_account_without_rights_gets_a_password(help_desk: User, make_user: MakeUser) -> None:
    person = make_user("pear")
    client = signed_in(help_desk)
    assert client.post(password_page(person), NEW_PASSWORD).status_code == 302
    assert client.post(edit(person), values(person, email="new@example.com")).status_code == 302
    person.refresh_from_db()
    assert (person.check_password(PASSWORD), person.email) == (True, "new@example.com")


def test_a_link_sets_a_password_once(help_desk: User, make_user: MakeUser, settings: Any) -> None:
    person = make_user("pear", "reviewer", email="pear@example.com")
    session = Client()
    session.force_login(person)
    client = signed_in(help_desk)
    act(client, "send_password_link", person)
    [message] = mail.outbox
    assert message.to == ["pear@example.com"]
    [path] = re.findall(r"/new-password/\S+", message.body)
    token = path.rstrip("/").rpartition("/")[2]
    assert token not in client.get(PEOPLE).content.decode()
    visitor = Client()
    form = visitor.get(path, follow=True)
    sent = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert visitor.post(form.redirect_chain[-1][0], sent)["Location"] == reverse("home")
    assert visitor.login(username="pear", password=PASSWORD)
    assert session.get("/review/").status_code == 302
    assert "no longer works" in Client().get(path).content.decode()
    assert log() == ["Sent a link to set a new password."]
    settings.PASSWORD_LOGIN = False
    assert Client().get(path).status_code == 404
    assert "sign-in provider" in act(client, "send_password_link", person)


def test_a_link_ends_with_the_account(help_desk: User, make_user: MakeUser) -> None:
    person, silent = make_user("pear", email="pear@example.com"), make_user("plum")
    client = signed_in(help_desk)
    act(client, "send_password_link", person)
    [path] = re.findall(r"/new-password/\S+", mail.outbox[0].body)
    act(client, "deactivate", person)
    act(client, "activate", person)
    assert "no longer works" in Client().get(path).content.decode()
    assert "e-mail address" in act(client, "send_password_link", silent)
    assert len(mail.outbox) == 1


def test_tokens_are_revoked_by_those_who_may_change_tokens(staff: Any, make_user: MakeUser) -> None:
    person = make_user("pear", "reviewer")
    _, text = create_token(user=person, name="ci", scopes=["read"])
    act(staff("auditor"), "revoke_tokens", person)
    assert authenticate_token(text) is not None
    page = act(staff("admin"), "revoke_tokens", person)
    assert "Revoked the API tokens of: pear." in page
    assert authenticate_token(text) is None
    assert log() == ["Revoked the API tokens."]


def test_the_last_administrator_stays(staff: Any, make_user: MakeUser) -> None:
    client = staff("root", name="root")
    root = User.objects.get(username="root")
    make_user("no-staff", is_superuser=True)
    make_user("away", is_staff=True, is_superuser=True, is_active=False)
    make_user("admin", "admin", is_staff=True)
    for field in ("is_staff", "is_superuser"):
        assert LAST in client.post(edit(root), values(root, **{field: ""})).content.decode()
    assert (
        "your own account" in client.post(edit(root), values(root, is_active="")).content.decode()
    )
    deletion = reverse("admin:auth_user_delete", args=(root.pk,))
    assert client.post(deletion, {"post": "yes"}).status_code == 403
    root.refresh_from_db()
    assert (root.is_active, root.is_staff, root.is_superuser) == (True, True, True)
    make_user("second", is_staff=True, is_superuser=True)
    assert client.post(edit(root), values(root, is_superuser="")).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_two_administrators_cannot_deactivate_each_other_at_once(make_user: MakeUser) -> None:
    people = [make_user(name, is_staff=True, is_superuser=True) for name in ("ann", "bob")]
    together = Barrier(2)

    def deactivate(actor: User, person: User) -> None:
        together.wait()
        try:
            with suppress(rights.ChangeRefused):
                services.set_active(actor=actor, person=person, active=False)
        finally:
            connection.close()

    for _ in range(5):
        User.objects.update(is_active=True)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(deactivate, people, reversed(people)))
        assert User.objects.filter(is_active=True).count() == 1
