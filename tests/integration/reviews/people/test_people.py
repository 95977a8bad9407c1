"""People on the desk: the rights of the admin, each change logged, and what deactivating ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.urls import reverse

from reviews.people import rights, services
from tests.integration.reviews.conftest import MakeUser
from workflows.permissions.roles import ensure_roles
from workflows.permissions.tokens import authenticate_token, create_token

pytestmark = pytest.mark.django_db

PEOPLE, ADD = reverse("reviews:people"), reverse("reviews:add_person")
PASSWORD = "a-long-way-to-tipperary"


def url(person: User) -> str:
    return reverse("reviews:person", args=(person.pk,))


def new_person(**fields: Any) -> dict[str, Any]:
    return {
        "username": "pear",
        "email": "pear@example.com",
        "groups": [Group.objects.get(name="reviewer").pk],
        "is_staff": "on",
        "usable_password": "true",
        "password1": PASSWORD,
        "password2": PASSWORD,
        **fields,
    }


def log() -> list[str]:
    return [each.get_change_message() for each in LogEntry.objects.order_by("pk")]


def test_a_person_is_added_with_groups_and_a_password(staff: Any) -> None:
    response = staff("root").post(ADD, new_person())
    made = User.objects.get(username="pear")
    assert (response.status_code, response["Location"]) == (303, url(made))
    assert list(made.groups.values_list("name", flat=True)) == ["reviewer"]
    assert (made.is_staff, made.is_superuser, made.email) == (True, False, "pear@example.com")
    assert Client().login(username="pear", password=PASSWORD)
    assert log() == ["Added."]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"username": "root"}, "already exists"),
        ({"password2": "another"}, "match"),
        ({"password1": "1", "password2": "1"}, "too short"),
        ({"password1": "", "password2": ""}, "required"),
        ({"groups": ["999999"]}, "not one of the available choices"),
    ],
)
def test_an_invalid_person_is_not_added(staff: Any, fields: dict[str, Any], words: str) -> None:
    client = staff("root", name="root")
    response = client.post(ADD, new_person(**fields))
    assert response.status_code == 422
    assert words in response.content.decode()
    assert User.objects.count() == 1


def test_two_people_with_one_name_at_the_same_time(
    staff: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both forms pass the check of the name before either is stored."""
    client = staff("root")
    client.post(ADD, new_person())
    monkeypatch.setattr(User, "validate_unique", lambda *args, **more: None)
    monkeypatch.setattr(QuerySet, "exists", lambda rows: False)
    response = client.post(ADD, new_person())
    assert response.status_code == 422
    assert "already exists" in response.content.decode()


def test_a_person_without_a_password_signs_in_elsewhere(staff: Any) -> None:
    sent = new_person(usable_password="false", password1="", password2="")
    assert staff("root").post(ADD, sent).status_code == 303
    assert not User.objects.get(username="pear").has_usable_password()


def test_groups_are_changed_and_logged(staff: Any, make_user: Any) -> None:
    person = make_user("pear", "reviewer")
    client = staff("root")
    groups = [Group.objects.get(name="auditor").pk]
    assert client.post(url(person), {"do": "save", "groups": groups}).status_code == 303
    assert list(person.groups.values_list("name", flat=True)) == ["auditor"]
    assert client.post(url(person), {"do": "save", "groups": groups}).status_code == 303
    assert log() == ["Changed Groups."]


def test_deactivating_ends_sessions_and_tokens(staff: Any, make_user: Any) -> None:
    person = make_user("pear", "reviewer")
    _, text = create_token(user=person, name="t", scopes=["read"])
    session = Client()
    session.force_login(person)
    client = staff("root")
    assert client.post(url(person), {"do": "deactivate"}).status_code == 303
    assert session.get("/review/").status_code == 302
    assert authenticate_token(text) is None
    assert client.post(url(person), {"do": "deactivate"}).status_code == 303
    assert client.post(url(person), {"do": "activate"}).status_code == 303
    assert authenticate_token(text) is None
    assert session.get("/review/").status_code == 302
    assert log() == ["Changed Active.", "Changed Active."]


def test_nobody_deactivates_themselves(staff: Any) -> None:
    client = staff("root", name="root")
    me = User.objects.get(username="root")
    page = client.post(url(me), {"do": "deactivate"}, follow=True).content.decode()
    assert "cannot deactivate your own account" in page
    me.refresh_from_db()
    assert me.is_active


def test_a_new_password_ends_other_sessions(staff: Any, make_user: Any) -> None:
    person = make_user("pear", "reviewer")
    session = Client()
    session.force_login(person)
    client = staff("root", name="root")
    sent = {"do": "password", "password1": PASSWORD, "password2": PASSWORD}
    wrong = client.post(url(person), {**sent, "password2": "x"})
    assert wrong.status_code == 422
    assert "Repeat the password" in wrong.content.decode()
    assert client.post(url(person), sent).status_code == 303
    assert session.get("/review/").status_code == 302
    assert Client().login(username="pear", password=PASSWORD)
    # One's own new password keeps the session that set it.
    assert client.post(url(User.objects.get(username="root")), sent).status_code == 303
    assert client.get(PEOPLE).status_code == 200
    assert log() == ["Changed password.", "Changed password."]


def test_the_list_is_searched(staff: Any, make_user: Any) -> None:
    make_user("pear", "reviewer", first_name="Ann")
    make_user("plum", "auditor", is_active=False)
    client = staff("auditor")

    def shown(query: str) -> set[str]:
        return {row["username"] for row in client.get(f"{PEOPLE}?{query}").context["rows"]}

    assert shown("") == {"pear", "plum", "staff-auditor"}
    assert shown("q=ann+PEAR") == {"pear"}
    assert shown("group=auditor&status=inactive") == {"plum"}
    assert shown("status=active&page=99999999999") == {"pear", "staff-auditor"}
    assert shown("q=%00nothing") == set()


@pytest.mark.parametrize("role", ["admin", "auditor", "operator", "reviewer", "integrator"])
def test_the_desk_allows_what_the_admin_allows(staff: Any, make_user: Any, role: str) -> None:
    person = make_user("pear", "reviewer")
    client = staff(role)
    in_admin = client.get(reverse("admin:auth_user_changelist")).status_code
    assert client.get(PEOPLE).status_code == in_admin
    assert client.get(url(person)).status_code == in_admin
    assert client.get(ADD).status_code == 403
    assert client.post(ADD, new_person(username="x")).status_code == 403
    for action in ("save", "password", "deactivate", "activate"):
        assert client.post(url(person), {"do": action}).status_code == 403
    assert User.objects.get(pk=person.pk).is_active


def test_people_who_are_not_staff_are_refused(make_user: Any) -> None:
    client = Client()
    assert client.get(PEOPLE).status_code == 302
    client.force_login(make_user("root", is_superuser=True))
    assert client.get(PEOPLE).status_code == 403


def test_a_read_only_page_has_no_forms(staff: Any, make_user: Any) -> None:
    person = make_user("pear", "reviewer")
    page = staff("auditor").get(url(person)).content.decode()
    assert "Deactivate" not in page
    assert 'name="groups"' not in page
    assert reverse("admin:auth_user_change", args=(person.pk,)) in page


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


def edit(person: User) -> str:
    return reverse("admin:auth_user_change", args=(person.pk,))


def values(person: User, **changes: Any) -> dict[str, Any]:
    """What the form of the admin posts for an account."""
    fields = {
        "username": person.username,
        "groups": list(person.groups.values_list("pk", flat=True)),
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


@pytest.mark.parametrize("kind", ["superuser", "admin"])
def test_the_help_desk_changes_no_administrator(
    help_desk: User, make_user: MakeUser, kind: str
) -> None:
    groups = ["admin"] if kind == "admin" else []
    boss = make_user("boss", *groups, is_staff=True, is_superuser=kind == "superuser")
    make_user("other", is_staff=True, is_superuser=True)
    client = signed_in(help_desk)
    assert b'name="groups"' not in client.get(url(boss)).content
    password = {"password1": PASSWORD, "password2": PASSWORD}
    for form in ({"do": "save"}, {"do": "password", **password}, {"do": "deactivate"}):
        assert client.post(url(boss), form).status_code == 403
    assert client.post(edit(boss), values(boss, is_active="")).status_code == 403
    set_password = reverse("admin:auth_user_password_change", args=(boss.pk,))
    sent = {**password, "usable_password": "true"}
    assert client.post(set_password, sent).status_code == 403
    deletion = reverse("admin:auth_user_delete", args=(boss.pk,))
    assert client.post(deletion, {"post": "yes"}).status_code == 403
    boss.refresh_from_db()
    assert boss.is_active
    assert boss.check_password("secret")


@pytest.mark.parametrize("role", ["admin", "reviewer", "integrator"])
def test_nobody_gives_a_group_above_their_own_rights(help_desk: User, role: str) -> None:
    client = signed_in(help_desk)
    group = Group.objects.get(name=role)
    page = client.post(url(help_desk), {"do": "save", "groups": [group.pk], "is_staff": "on"})
    assert (page.status_code, "You cannot add the group" in page.content.decode()) == (422, True)
    assert client.post(ADD, new_person(groups=[group.pk])).status_code == 422
    in_admin = client.post(edit(help_desk), values(help_desk, groups=[group.pk]))
    assert "You cannot add the group" in in_admin.content.decode()
    assert not User.objects.filter(groups__isnull=False).exists()
    assert User.objects.get() == help_desk


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
    person = make_user("pear", "reviewer")
    client = signed_in(help_desk)
    groups = list(person.groups.values_list("pk", flat=True))
    saved = client.post(url(person), {"do": "save", "first_name": "Ann", "groups": groups})
    assert saved.status_code == 303
    sent = {"do": "password", "password1": PASSWORD, "password2": PASSWORD}
    assert client.post(url(person), sent).status_code == 303
    assert User.objects.get(pk=person.pk).check_password(PASSWORD)
    assert client.post(url(person), {"do": "deactivate"}).status_code == 303
    assert client.post(edit(person), values(person, last_name="Pear")).status_code == 302
    person.refresh_from_db()
    assert (person.first_name, person.last_name) == ("", "Pear")
    assert not person.has_usable_password()


def test_the_last_administrator_stays(staff: Any, make_user: MakeUser) -> None:
    client = staff("root", name="root")
    root = User.objects.get(username="root")
    make_user("no-staff", is_superuser=True)
    make_user("away", is_staff=True, is_superuser=True, is_active=False)
    make_user("admin", "admin", is_staff=True)
    page = client.post(url(root), {"do": "save"})
    assert (page.status_code, LAST in page.content.decode()) == (422, True)
    for field in ("is_active", "is_staff", "is_superuser"):
        assert LAST in client.post(edit(root), values(root, **{field: ""})).content.decode()
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
