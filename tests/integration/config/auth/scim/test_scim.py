"""SCIM: requests as Okta and Entra send them, and what a client may not do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from oauth2_provider.models import Application
from oauth2_provider.models import Grant as Code

from config.auth.scim import users
from reviews.answer_links import services as answer_links
from reviews.models import (
    ChatHook,
    ReviewClaim,
    SlackAccount,
    SlackWorkspace,
    TeamsAccount,
    TeamsBot,
)
from reviews.queue.claims import claim
from tests.integration.reviews.conftest import echo, make_user, operator, start
from tests.support.groups import group_of
from workflows.executions.validation import InvalidRequest
from workflows.models import Absence, ApiToken, Gate, Grant, WebhookEndpoint
from workflows.permissions.tokens import authenticate_token, create_token

__all__ = ["make_user", "operator", "start"]

pytestmark = pytest.mark.django_db

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"

#: As Okta creates a user.
OKTA = {
    "schemas": [USER],
    "userName": "ann@example.com",
    "name": {"givenName": "Ann", "familyName": "Lee"},
    "emails": [{"primary": True, "value": "ann@example.com", "type": "work"}],
    "displayName": "Ann Lee",
    "locale": "en-US",
    "externalId": "00ujl29u0le5T6Aj10h7",
    "groups": [],
    "password": "1mz050nq",
    "active": True,
}
#: As Entra creates a user.
ENTRA = {
    "schemas": [USER, "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
    "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
    "userName": "bob@example.com",
    "active": True,
    "emails": [{"primary": True, "type": "work", "value": "bob@example.com"}],
    "meta": {"resourceType": "User"},
    "name": {"formatted": "Bob May", "familyName": "May", "givenName": "Bob"},
    "roles": [],
}


class Scim:
    """A client with a token."""

    def __init__(self, text: str) -> None:
        self._headers = {"Authorization": f"Bearer {text}"}
        self._client = Client()

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        data = {} if body is None else {"data": json.dumps(body)}
        return self._client.generic(
            method,
            f"/scim/v2/{path}",
            **data,
            content_type="application/scim+json",
            headers=self._headers,
        )

    def ok(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = self(method, path, body)
        assert answer.status_code in (200, 201), answer.content
        found: dict[str, Any] = answer.json()
        return found

    def patch(self, path: str, *operations: Mapping[str, Any]) -> Any:
        return self("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})


@pytest.fixture
def owner(make_user: Any) -> User:
    person: User = make_user("provisioning", "admin")
    return person


@pytest.fixture
def scim(owner: User) -> Scim:
    _, text = create_token(user=owner, name="idp", scopes=["scim"])
    return Scim(text)


@pytest.fixture
def spare(make_user: Any) -> User:
    """Another administrator who can sign in, so that the one of a test is not the last."""
    person: User = make_user("spare", is_superuser=True, is_staff=True)
    return person


def log() -> list[str]:
    return [each.get_change_message() for each in LogEntry.objects.order_by("pk")]


def groups_of(person: User) -> set[str]:
    return set(person.groups.values_list("name", flat=True))


# --- users ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [OKTA, ENTRA], ids=["okta", "entra"])
def test_an_account_is_created_found_and_read(scim: Scim, body: dict[str, Any]) -> None:
    query = f'Users?filter=userName eq "{body["userName"]}"&startIndex=1&count=100'
    assert scim.ok("GET", query)["totalResults"] == 0
    answer = scim("POST", "Users", body)
    assert (answer.status_code, answer["Content-Type"]) == (201, "application/scim+json")
    made = answer.json()
    assert answer["Location"] == made["meta"]["location"]
    person = User.objects.get(pk=made["id"])
    assert (person.first_name, person.email) == (body["name"]["givenName"], body["userName"])
    assert not person.has_usable_password()
    assert not person.is_staff
    assert not person.is_superuser
    (found,) = scim.ok("GET", query)["Resources"]
    assert found == scim.ok("GET", f"Users/{person.pk}") == made
    assert found["externalId"] == body["externalId"]
    by_id = scim.ok("GET", f'Users?filter=externalId eq "{body["externalId"]}"')
    assert by_id["totalResults"] == 1
    assert log() == ["Added."]


def test_a_name_that_is_taken_is_refused(scim: Scim) -> None:
    scim.ok("POST", "Users", OKTA)
    answer = scim("POST", "Users", {**OKTA, "userName": "ANN@example.com"})
    assert (answer.status_code, answer.json()["scimType"]) == (409, "uniqueness")


@pytest.mark.parametrize("name", ["", "system", "a b", "x" * 151, None, 7, "\uff41\uff4e\uff4e"])
def test_an_impossible_name_is_refused(scim: Scim, name: Any) -> None:
    answer = scim("POST", "Users", {**OKTA, "userName": name})
    assert (answer.status_code, answer.json()["scimType"]) == (400, "invalidValue")


def test_okta_updates_by_put_and_deactivates_by_patch(scim: Scim) -> None:
    made = scim.ok("POST", "Users", OKTA)
    path = f"Users/{made['id']}"
    changed = scim.ok("PUT", path, {**made, "name": {"givenName": "Anna", "familyName": "Lee"}})
    assert changed["name"]["givenName"] == "Anna"
    scim.patch(path, {"op": "replace", "value": {"active": False}})
    assert scim.ok("GET", path)["active"] is False
    scim.patch(path, {"op": "replace", "value": {"active": True}})
    assert scim.ok("GET", path)["active"] is True
    assert log() == [
        "Added.", "Changed First name.", "Changed Active.", "Changed Active.",
    ]  # fmt: skip


def test_entra_updates_by_patch(scim: Scim) -> None:
    path = f"Users/{scim.ok('POST', 'Users', ENTRA)['id']}"
    answer = scim.patch(
        path,
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "b@example.com"},
        {"op": "Add", "path": "name.givenName", "value": "Robert"},
        {"op": "Add", "path": 'phoneNumbers[type eq "work"].value', "value": "1"},
        {"op": "Replace", "path": f"{USER}:externalId", "value": "new"},
        {"op": "Replace", "value": {"name.familyName": "Mayer"}},
    )
    shown = answer.json()
    assert shown["emails"][0]["value"] == "b@example.com"
    assert (shown["name"]["formatted"], shown["externalId"]) == ("Robert Mayer", "new")
    scim.patch(path, {"op": "Replace", "path": "active", "value": "False"})
    assert scim.ok("GET", path)["active"] is False


def test_a_name_does_not_change(scim: Scim) -> None:
    """Records, grants and four eyes name people by it."""
    path = f"Users/{scim.ok('POST', 'Users', OKTA)['id']}"
    answer = scim.patch(path, {"op": "replace", "path": "userName", "value": "eve"})
    assert (answer.status_code, answer.json()["scimType"]) == (400, "mutability")


def test_a_deleted_account_is_hidden_and_comes_back(scim: Scim) -> None:
    made = scim.ok("POST", "Users", OKTA)
    path = f"Users/{made['id']}"
    assert scim("DELETE", path).status_code == 204
    assert [scim(each, path, {}).status_code for each in ("GET", "PUT", "DELETE")] == [404] * 3
    assert not User.objects.get(pk=made["id"]).is_active
    again = scim.ok("POST", "Users", OKTA)
    assert (again["id"], again["active"]) == (made["id"], True)


def test_a_deleted_account_has_nothing_left_for_the_next_person(scim: Scim) -> None:
    made = scim.ok("POST", "Users", OKTA)
    person = User.objects.get(pk=made["id"])
    person.groups.add(group_of("legal"))
    person.user_permissions.add(Permission.objects.get(codename="view_user"))
    person.is_staff = True
    person.set_password("a-long-way-to-tipperary")
    person.save()
    scim("DELETE", f"Users/{person.pk}")
    another = scim("POST", "Users", {**OKTA, "externalId": "another"})
    assert (another.status_code, another.json()["scimType"]) == (409, "uniqueness")
    scim.ok("POST", "Users", {"userName": OKTA["userName"]})
    person = User.objects.get(pk=person.pk)
    assert (person.is_active, person.is_staff, person.has_usable_password()) == (True, False, False)
    assert (person.email, person.get_full_name()) == ("", "")
    assert (groups_of(person), person.user_permissions.count()) == (set(), 0)
    assert "Changed Groups, User permissions and Staff status." in log()


def test_lists_have_pages(scim: Scim) -> None:
    for number in range(3):
        scim.ok("POST", "Users", {**OKTA, "userName": f"p{number}", "externalId": str(number)})
    page = scim.ok("GET", "Users?startIndex=3&count=2")
    assert (page["totalResults"], page["itemsPerPage"]) == (4, 2)
    assert [each["userName"] for each in page["Resources"]] == ["p1", "p2"]
    assert scim.ok("GET", "Users?count=0")["Resources"] == []


@pytest.mark.parametrize(
    "query",
    [
        'filter=userName sw "a"',
        'filter=password eq "a"',
        'filter=userName eq "a" or userName eq "b"',
        "filter=userName eq",
        "startIndex=x",
        r'filter=userName eq "\q"',
        r'filter=userName eq "\u0000"',
        r'filter=userName eq "\ud800"',
    ],
)
def test_other_queries_are_refused(scim: Scim, query: str) -> None:
    assert scim("GET", f"Users?{query}").status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"Operations": {}},
        {"Operations": [7]},
        {"Operations": [{"op": "move", "path": "active"}]},
        {"Operations": [{"op": "replace", "value": 7}]},
        {"Operations": [{"op": "replace", "path": "active", "value": "maybe"}]},
        {"Operations": [{"op": "remove", "path": "active"}]},
        {"Operations": [{"op": "replace", "path": "emails", "value": [{"value": "no"}]}]},
        {"Operations": [{"op": "replace", "path": "emails", "value": 7}]},
        {"Operations": [{"op": "replace", "path": "name", "value": {"givenName": 7}}]},
        {"Operations": [{"op": "replace", "path": "name", "value": "Ann"}]},
        {"Operations": [{"op": "replace", "path": "emails", "value": ["ann@example.com"]}]},
        {"Operations": [{"op": "replace", "path": ["active"], "value": False}]},
        {
            "Operations": [
                {"op": "replace", "path": r'emails[type eq "\q"].value', "value": "a@b.c"}
            ]
        },
    ],
)
def test_malformed_patches_are_refused(scim: Scim, body: Any) -> None:
    path = f"Users/{scim.ok('POST', 'Users', OKTA)['id']}"
    answer = scim("PATCH", path, body)
    assert (answer.status_code, answer.json()["schemas"]) == (
        400, ["urn:ietf:params:scim:api:messages:2.0:Error"],
    )  # fmt: skip


# --- what deactivation ends -----------------------------------------------------------------------


@pytest.fixture
def leaver(make_user: Any) -> User:
    person: User = make_user("ann", "reviewer")
    return person


@pytest.fixture
def access_of_leaver(
    leaver: User, operator: User, start: Any, settings: Any
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
    bot = TeamsBot.objects.create(name="t", app_id="a", tenant_id="t")
    TeamsAccount.objects.create(bot=bot, teams_user="29:1", user=leaver)
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
            "teams": TeamsAccount.objects.filter(user=leaver).exists(),
            "absences": Absence.objects.filter(cancelled_at=None).exists(),
            "code": Code.objects.filter(user=leaver).exists(),
            "link": Client().post("/answer/review/", {"token": link}).status_code == 200,
            "chat hook": ChatHook.objects.filter(user=leaver).exists(),
            "webhook": WebhookEndpoint.objects.filter(owner=leaver, enabled=True).exists(),
            "password": User.objects.get(pk=leaver.pk).check_password("a-long-way-to-tipperary"),
        }

    return works


@pytest.mark.parametrize("how", ["patch", "delete", "admin", "action"])
def test_deactivation_ends_all_access_for_good(
    scim: Scim,
    spare: User,
    leaver: User,
    access_of_leaver: Callable[[], dict[str, bool]],
    how: str,
) -> None:
    assert set(access_of_leaver().values()) == {True}
    boss = Client()
    boss.force_login(spare)
    if how == "patch":
        scim.patch(f"Users/{leaver.pk}", {"op": "replace", "value": {"active": False}})
    elif how == "delete":
        scim("DELETE", f"Users/{leaver.pk}")
    elif how == "action":
        sent = {"action": "deactivate", "_selected_action": leaver.pk}
        boss.post(reverse("admin:auth_user_changelist"), sent)
    else:
        boss.post(
            f"/admin/auth/user/{leaver.pk}/change/",
            {"username": "ann", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"},
        )
    leaver.refresh_from_db()
    assert not leaver.is_active
    assert set(access_of_leaver().values()) == {False}
    User.objects.filter(pk=leaver.pk).update(is_active=True)
    assert set(access_of_leaver().values()) == {False}
    assert Session.objects.count() == 2  # of other people
    revoked_by = Grant.objects.get(granted_by="ann").revoked_by
    assert revoked_by == ("provisioning" if how in ("patch", "delete") else "spare")


# --- groups ---------------------------------------------------------------------------------------


def test_okta_pushes_a_group(scim: Scim) -> None:
    ann = scim.ok("POST", "Users", OKTA)["id"]
    bob = scim.ok("POST", "Users", ENTRA)["id"]
    made = scim.ok("POST", "Groups", {"schemas": [GROUP], "displayName": "legal", "members": []})
    path = f"Groups/{made['id']}"
    scim.patch(
        path,
        {"op": "replace", "value": {"id": made["id"], "displayName": "legal"}},
        {"op": "add", "path": "members", "value": [{"value": ann, "display": "ann"}]},
    )
    assert [each["value"] for each in scim.ok("GET", path)["members"]] == [ann]
    scim.patch(path, {"op": "replace", "path": "members", "value": [{"value": bob}]})
    assert [each["value"] for each in scim.ok("GET", path)["members"]] == [bob]
    scim.patch(path, {"op": "remove", "path": f'members[value eq "{bob}"]'})
    assert scim.ok("GET", path)["members"] == []
    assert groups_of(User.objects.get(pk=bob)) == set()


def test_entra_assigns_a_group(scim: Scim) -> None:
    bob = scim.ok("POST", "Users", ENTRA)["id"]
    body = {"schemas": [GROUP], "externalId": "8aa1a0c0", "displayName": "legal"}
    made = scim.ok("POST", "Groups", body)
    query = 'Groups?excludedAttributes=members&filter=displayName eq "legal"'
    (found,) = scim.ok("GET", query)["Resources"]
    assert (found["externalId"], "members" in found) == ("8aa1a0c0", False)
    path = f"Groups/{made['id']}"
    scim.patch(path, {"op": "Add", "path": "members", "value": [{"value": bob}]})
    has = f'Groups?filter=id eq "{made["id"]}" and members eq "{bob}"'
    assert scim.ok("GET", has)["totalResults"] == 1
    assert groups_of(User.objects.get(pk=bob)) == {"legal"}
    assert scim.ok("GET", f"Users/{bob}")["groups"] == [{"value": made["id"], "display": "legal"}]
    scim.patch(path, {"op": "Remove", "path": "members", "value": [{"value": bob}]})
    assert scim.ok("GET", has)["totalResults"] == 0
    changed = ["Changed Groups."] * 2
    assert log() == ["Added.", "Added.", "Members are managed over SCIM.", *changed]


def test_a_group_that_is_given_up_stays_without_members(scim: Scim) -> None:
    """Policies name it."""
    ann = scim.ok("POST", "Users", OKTA)["id"]
    made = scim.ok("POST", "Groups", {"displayName": "legal", "members": [{"value": ann}]})
    path = f"Groups/{made['id']}"
    rename = scim.patch(path, {"op": "replace", "path": "displayName", "value": "board"})
    assert (rename.status_code, rename.json()["scimType"]) == (400, "mutability")
    assert scim("POST", "Groups", {"displayName": "legal"}).status_code == 409
    assert scim("DELETE", path).status_code == 204
    assert scim("GET", path).status_code == 404
    assert Group.objects.get(name="legal").user_set.count() == 0


def test_ids_of_any_length_are_looked_up(scim: Scim) -> None:
    for path in ("Users", "Groups"):
        query = f'{path}?filter=id eq "{"9" * 5000}"'
        assert scim.ok("GET", query)["totalResults"] == 0


def test_members_are_selected_by_value_only(scim: Scim) -> None:
    member = scim.ok("POST", "Users", OKTA)["id"]
    body = {"displayName": "legal", "members": [{"value": member}]}
    path = f"Groups/{scim.ok('POST', 'Groups', body)['id']}"
    answer = scim.patch(path, {"op": "remove", "path": f'members[display eq "{member}"]'})
    assert (answer.status_code, answer.json()["scimType"]) == (400, "invalidPath")
    assert Group.objects.get(name="legal").user_set.count() == 1


@pytest.mark.parametrize("value", [[{"value": "999999"}], [{"value": "x"}], ["7"], 7])
def test_impossible_members_are_refused(scim: Scim, value: Any) -> None:
    path = f"Groups/{scim.ok('POST', 'Groups', {'displayName': 'legal'})['id']}"
    answer = scim.patch(path, {"op": "add", "path": "members", "value": value})
    assert answer.status_code == 400


# --- attacks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["admin", "reviewer", "auditor", "strong"])
def test_roles_and_groups_with_permissions_are_refused(scim: Scim, name: str) -> None:
    group, _ = Group.objects.get_or_create(name=name)
    if name == "strong":
        group.permissions.add(Permission.objects.get(codename="change_user"))
    ann = scim.ok("POST", "Users", OKTA)["id"]
    answer = scim("POST", "Groups", {"displayName": name, "members": [{"value": ann}]})
    assert answer.status_code == 403
    assert groups_of(User.objects.get(pk=ann)) == set()


@pytest.mark.parametrize("by", ["grant_ceilings", "start_ceilings", "gate"])
def test_groups_with_rights_by_a_setting_or_a_gate_are_refused(
    scim: Scim, settings: Any, by: str
) -> None:
    group = Group.objects.create(name="strong")
    if by == "gate":
        Gate.objects.create(name="files").groups.add(group)
    else:
        table = {**settings.HOLDPOINT[by], "strong": "trusted"}
        settings.HOLDPOINT = {**settings.HOLDPOINT, by: table}
    assert scim("POST", "Groups", {"displayName": "strong"}).status_code == 403
    settings.HOLDPOINT = {**settings.HOLDPOINT, "scim_groups": ["strong"]}
    assert scim("POST", "Groups", {"displayName": "strong"}).status_code == 201


def test_the_setting_allows_a_role(scim: Scim, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "scim_groups": ["reviewer"]}
    Group.objects.get_or_create(name="reviewer")
    ann = scim.ok("POST", "Users", OKTA)["id"]
    scim.ok("POST", "Groups", {"displayName": "reviewer", "members": [{"value": ann}]})
    person = User.objects.get(pk=ann)
    assert (groups_of(person), person.is_staff) == ({"reviewer"}, False)


def test_a_group_that_got_permissions_later_is_refused(scim: Scim) -> None:
    ann = scim.ok("POST", "Users", OKTA)["id"]
    made = scim.ok("POST", "Groups", {"displayName": "legal"})
    Group.objects.get(name="legal").permissions.add(Permission.objects.get(codename="change_user"))
    add = {"op": "add", "path": "members", "value": [{"value": ann}]}
    assert scim.patch(f"Groups/{made['id']}", add).status_code == 403


@pytest.mark.parametrize("kind", ["superuser", "admin"])
@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "emails", "value": [{"value": "eve@example.com"}]},
        {"op": "replace", "path": "name.givenName", "value": "Eve"},
        {"op": "replace", "path": "externalId", "value": "eve"},
    ],
    ids=["email", "name", "external id"],
)
def test_an_administrator_is_not_changed(
    scim: Scim, make_user: Any, kind: str, operation: dict[str, Any]
) -> None:
    boss = make_user("boss", *(["admin"] if kind == "admin" else []),
                     is_superuser=kind == "superuser")  # fmt: skip
    assert scim.patch(f"Users/{boss.pk}", operation).status_code == 403
    boss.refresh_from_db()
    assert (boss.email, boss.first_name, boss.is_active) == ("", "", True)
    made = scim.ok("POST", "Groups", {"displayName": "legal"})
    add = {"op": "add", "path": "members", "value": [{"value": str(boss.pk)}]}
    assert scim.patch(f"Groups/{made['id']}", add).status_code == 403


def test_staff_and_superuser_cannot_be_set(scim: Scim) -> None:
    extra = {"is_staff": True, "isStaff": True, "is_superuser": True, "roles": ["admin"]}
    made = scim.ok("POST", "Users", {**OKTA, **extra})
    for name, value in extra.items():
        scim.patch(f"Users/{made['id']}", {"op": "add", "path": name, "value": value})
    person = User.objects.get(pk=made["id"])
    assert (person.is_staff, person.is_superuser, groups_of(person)) == (False, False, set())


def test_an_administrator_is_deactivated_and_not_activated(
    scim: Scim, spare: User, make_user: Any
) -> None:
    boss = make_user("boss", "admin")
    active = {"op": "replace", "path": "active"}
    assert scim.patch(f"Users/{boss.pk}", {**active, "value": False}).status_code == 200
    boss.refresh_from_db()
    assert not boss.is_active
    assert scim.patch(f"Users/{boss.pk}", {**active, "value": True}).status_code == 403
    scim("DELETE", f"Users/{boss.pk}")
    body = {**OKTA, "userName": "boss"}
    assert scim("POST", "Users", body).status_code == 403
    boss.refresh_from_db()
    assert not boss.is_active
    # The token of an admin who is no superuser does not deactivate one.
    assert scim("DELETE", f"Users/{spare.pk}").status_code == 403


def test_the_owner_of_the_token_stays(scim: Scim, spare: User, owner: User) -> None:
    assert scim("DELETE", f"Users/{owner.pk}").status_code == 403
    owner.refresh_from_db()
    assert owner.is_active


def test_the_token_ends_with_the_role_of_its_owner(scim: Scim, owner: User) -> None:
    owner.groups.clear()
    assert scim("GET", "Users").status_code == 403


def test_other_credentials_are_refused(owner: User) -> None:
    session = Client()
    session.force_login(owner)
    assert session.get("/scim/v2/Users").status_code == 401
    _, text = create_token(user=owner, name="x", scopes=["read", "admin"])
    answer = Scim(text)("GET", "Users")
    assert answer.status_code == 403
    assert Scim("hp_wrong")("GET", "Users")["WWW-Authenticate"].startswith("Bearer")


def test_a_scim_token_has_no_other_use(owner: User) -> None:
    token, text = create_token(user=owner, name="idp", scopes=["scim"])
    client = Client(headers={"Authorization": f"Bearer {text}"})
    for address in ("/api/v1/executions/", "/api/v1/reviews/pending/", "/api/v1/tokens/"):
        assert client.get(address).status_code == 403, address
    assert token.scopes == ["scim"]


def test_only_an_admins_token_has_the_scope_and_no_other(owner: User, make_user: Any) -> None:
    with pytest.raises(InvalidRequest):
        create_token(user=make_user("ann", "operator"), name="x", scopes=["scim"])
    with pytest.raises(InvalidRequest):
        create_token(user=owner, name="x", scopes=["scim", "read"])
    assert not ApiToken.objects.exists()


def test_a_new_account_is_linked_to_the_sign_in_and_an_existing_one_is_not(
    scim: Scim, monkeypatch: pytest.MonkeyPatch, make_user: Any
) -> None:
    linked: list[tuple[str, str | None]] = []
    monkeypatch.setattr(users, "_link", lambda person, sub: linked.append((str(person), sub)))
    ann = make_user("ann")
    scim.patch(f"Users/{ann.pk}", {"op": "replace", "path": "externalId", "value": "eve"})
    assert linked == []
    scim.ok("POST", "Users", OKTA)
    assert linked == [("ann@example.com", "00ujl29u0le5T6Aj10h7")]


# --- discovery ------------------------------------------------------------------------------------


def test_discovery(scim: Scim) -> None:
    configuration = scim.ok("GET", "ServiceProviderConfig")
    assert configuration["patch"] == {"supported": True}
    assert scim.ok("GET", "Schemas")["totalResults"] == 2
    assert scim.ok("GET", f"Schemas/{USER}")["name"] == "User"
    kinds = scim.ok("GET", "ResourceTypes")["Resources"]
    assert [each["endpoint"] for each in kinds] == ["/Users", "/Groups"]
    assert scim("GET", "ResourceTypes/Nothing").status_code == 404
