"""Groups: roles are fixed, names never change, and no door gives more than its user has."""

from __future__ import annotations

from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from reviews.people import services
from reviews.people.rights import ChangeRefused
from tests.integration.reviews.conftest import MakeUser
from workflows.executions.access import ROLES, roles_of
from workflows.permissions.roles import ensure_roles

pytestmark = pytest.mark.django_db

ADD = reverse("admin:auth_group_add")
#: "admin" in fullwidth letters.
WIDE = "".join(chr(ord(letter) + 0xFEE0) for letter in "admin")
#: What a holder has: permissions for groups, for accounts, or for both.
HOLDERS = {"groups": ("_group",), "accounts": ("_user",), "both": ("_group", "_user")}


def edit(row: Group | User) -> str:
    return reverse(f"admin:auth_{row._meta.model_name}_change", args=(row.pk,))


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def permissions(*ends: str) -> list[Permission]:
    return [each for end in ends for each in Permission.objects.filter(codename__endswith=end)]


def state() -> dict[str, Any]:
    """Who has which rights; people may add themselves to the group "help desk" and leave it."""
    members = User.groups.through.objects.exclude(group__name="help desk")
    return {
        "permissions": set(Group.objects.values_list("name", "permissions__codename")),
        "members": set(members.values_list("group__name", "user__username")),
        "people": set(
            User.objects.values_list("username", "is_superuser", "user_permissions__codename")
        ),
    }


def account(person: User, **changes: Any) -> dict[str, Any]:
    """What the form of the admin posts for an account, without the names that `changes` empties."""
    fields = {
        "username": person.username,
        "is_active": "on",
        "is_staff": "on",
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
        "groups": list(person.groups.values_list("pk", flat=True)),
        "user_permissions": list(person.user_permissions.values_list("pk", flat=True)),
        **changes,
    }
    return {name: value for name, value in fields.items() if value != ""}


@pytest.mark.parametrize("holder", HOLDERS)
def test_no_door_gives_a_holder_more(holder: str, make_user: MakeUser) -> None:
    """The holder posts to every form of accounts and groups, with fields that the form lacks."""
    ensure_roles()
    own = Group.objects.create(name="help desk")
    payments = Group.objects.create(name="payments")
    user = make_user("holder", "help desk", "auditor", is_staff=True)
    user.user_permissions.set(permissions(*HOLDERS[holder]))
    make_user("boss", "admin", is_staff=True)
    admin = Group.objects.get(name="admin")
    loosen = Permission.objects.get(codename="loosen_policy")
    client, before = client_of(user), state()
    list_of_groups = reverse("admin:auth_group_changelist")
    people = reverse("admin:auth_user_changelist")
    posts: list[tuple[str, dict[str, Any]]] = [
        *((edit(own), {"name": name, "permissions": [loosen.pk]}) for name in ("help desk", "x")),
        (edit(own), {"name": "help desk", "permissions": [loosen.pk], "members": [user.pk]}),
        (edit(admin), {"name": "admin_old"}),
        (edit(admin), {"name": "admin", "members": [user.pk]}),
        (edit(payments), {"name": "payments", "members": [user.pk]}),
        (edit(own), {"name": "admin"}),
        (edit(own), {"name": "help desk", "User_groups-0-user": user.pk}),
        (list_of_groups, {"action": "delete_selected", "_selected_action": admin.pk, "post": "1"}),
        (list_of_groups, {"form-0-id": own.pk, "form-0-name": "admin", "_save": "Save"}),
        (reverse("admin:auth_group_delete", args=(admin.pk,)), {"post": "yes"}),
        *((ADD, {"name": name}) for name in ("admin", "Admin", "ADMIN ", WIDE, "Payments")),
        *(
            (edit(user), account(user, **changes))
            for changes in (
                {"groups": [admin.pk]},
                {"groups": [payments.pk]},
                {"groups": [own.pk]},  # which would end the limits of an auditor
                {"user_permissions": [loosen.pk]},
                {"is_superuser": "on"},
            )
        ),
        (people, {"form-0-id": user.pk, "form-0-is_superuser": "on", "_save": "Save"}),
        (people, {"action": "activate", "_selected_action": user.pk, "is_superuser": "on"}),
    ]
    for url, form in posts:
        client.post(url, form)
        assert state() == before, (url, form)
    fresh = User.objects.get(pk=user.pk)
    assert "admin" not in roles_of(fresh)
    assert not fresh.has_perm("workflows.loosen_policy")


def test_no_code_renames_a_group_or_deletes_a_role() -> None:
    """The names are identities for the database too: of roles, and of groups in policies."""
    ensure_roles()
    own = Group.objects.create(name="own")

    attempts = {
        "rename a role": lambda: Group.objects.filter(name="admin").update(name="old"),
        "take the name of a role": lambda: Group.objects.filter(pk=own.pk).update(name="Admin"),
        "rename a group": Group(pk=own.pk, name="payments").save,
        **{f"delete {name}": Group.objects.get(name=name).delete for name in ROLES},
    }
    before = state()
    for what, attempt in attempts.items():
        with suppress(IntegrityError), transaction.atomic():
            attempt()
        assert state() == before, what
    Group.objects.get(name="own").delete()


def test_the_set_up_keeps_exactly_the_permissions_of_the_roles(make_user: MakeUser) -> None:
    ensure_roles()
    change_user = Permission.objects.get(codename="change_user")
    legal = Group.objects.create(name="legal")
    for group in (legal, *Group.objects.filter(name__in=("integrator", "admin"))):
        group.permissions.add(change_user)
    admin = make_user("boss", "admin")
    assert admin.has_perm("auth.change_user")
    said = StringIO()
    call_command("setup_roles", stdout=said)
    assert said.getvalue().count(": auth.change_user.") == 3
    assert not legal.permissions.exists()
    assert not User.objects.get(pk=admin.pk).has_perm("auth.change_user")
    assert ensure_roles() == []


def test_admins_make_and_fill_groups_of_reviewers(make_user: MakeUser) -> None:
    ensure_roles()
    boss, pear, root = (
        make_user("boss", "admin", is_staff=True),
        make_user("pear", "reviewer"),
        make_user("root", is_staff=True, is_superuser=True),
    )
    client = client_of(boss)
    assert client.post(ADD, {"name": "payments"}).status_code == 302
    group = Group.objects.get(name="payments")
    page = client.get(edit(group)).content.decode()
    assert 'name="members"' in page
    assert 'name="permissions"' not in page
    assert client.post(edit(group), {"members": [pear.pk]}).status_code == 302
    assert list(pear.groups.values_list("name", flat=True).order_by("name")) == [
        "payments",
        "reviewer",
    ]
    assert client.post(edit(group), {"members": [pear.pk, root.pk]}).status_code == 403
    assert not root.groups.exists()
    assert client.post(edit(group), {}).status_code == 302
    assert not group.user_set.exists()


def test_the_last_admin_stays_in_the_group(make_user: MakeUser) -> None:
    ensure_roles()
    boss = make_user("boss", "admin", is_staff=True)
    answer = client_of(boss).post(edit(Group.objects.get(name="admin")), {})
    assert "This is the last administrator" in answer.content.decode()
    assert "admin" in roles_of(User.objects.get(pk=boss.pk))


def test_no_group_reads_like_another(make_user: MakeUser) -> None:
    ensure_roles()
    client = client_of(make_user("boss", "admin", is_staff=True))
    alike = ("\u0430dmin", "admin\u200b", "ad\u00admin", "admin\u1160", "rev\u0131ewer")
    for name in ("Admin", "reviewer ", WIDE, *alike):
        answer = client.post(ADD, {"name": name})
        assert answer.status_code == 200, name
        assert answer.context["adminform"].errors, name
    assert Group.objects.count() == len(ROLES)


def test_the_service_refuses_without_a_form(make_user: MakeUser) -> None:
    ensure_roles()
    holder = make_user("holder", is_staff=True)
    holder.user_permissions.set(permissions("_group", "_user"))
    for name in ROLES:
        with pytest.raises(ChangeRefused, match="You cannot add the group"):
            services.change_members(actor=holder, group=Group.objects.get(name=name), add=[holder])
