"""Groups over SCIM: the resource, and its members; each change is in the log of the admin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.models import CHANGE
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet

from reviews.components.admin_rights import log
from reviews.models import ProvisionedGroup
from reviews.people.rights import ChangeRefused
from reviews.people.services import add_group, change_members

from . import rights
from .errors import ScimError, invalid
from .requests import Operation, member_ids, text

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
FILTERS: Final = {
    "displayname": "name__iexact",
    "externalid": "provisioned__external_id",
    "id": "pk",
    "members": "user__pk",
    "members.value": "user__pk",
}
_NAME_LENGTH: Final = 150


def groups() -> QuerySet[Group]:
    """Return the groups that the provider manages."""
    rows = Group.objects.filter(provisioned__isnull=False)
    return rows.select_related("provisioned").order_by("pk")


def resource(group: Group, location: str, *, members: bool = True) -> dict[str, Any]:
    """Return a group as SCIM shows it."""
    shown: dict[str, Any] = {
        "schemas": [SCHEMA],
        "id": str(group.pk),
        "displayName": group.name,
        "meta": {"resourceType": "Group", "location": location},
    }
    provisioned = getattr(group, "provisioned", None)
    if provisioned is not None and provisioned.external_id:
        shown["externalId"] = provisioned.external_id
    if members:
        people = get_user_model().objects.filter(groups=group).order_by("pk")
        shown["members"] = [
            {"value": str(pk), "display": name} for pk, name in people.values_list("pk", "username")
        ]
    return shown


def create(actor: User, body: Mapping[str, Any]) -> Group:
    """Create a group, or take over the members of one with this name; raises ScimError."""
    name = text(body.get("displayName"), "displayName", _NAME_LENGTH)
    if not name:
        raise invalid("displayName is required.")
    with transaction.atomic():
        group = Group.objects.filter(name=name).first() or _add(actor, name)
        rights.check_manageable(group)
        external_id = text(body.get("externalId"), "externalId", 255)
        _, is_new = ProvisionedGroup.objects.get_or_create(
            group=group, defaults={"external_id": external_id}
        )
        if not is_new:
            raise ScimError("There is a group with this name.", kind="uniqueness", status=409)
        log(actor, group, CHANGE, "Members are managed over SCIM.")
        if body.get("members"):
            _set_members(actor, group, add=member_ids(body["members"]), remove=set())
    return groups().get(pk=group.pk)


def _add(actor: User, name: str) -> Group:
    try:
        return add_group(actor=actor, name=name)
    except ChangeRefused as refused:
        raise ScimError(str(refused), kind="uniqueness", status=409) from None


def replace(actor: User, group_id: int, body: Mapping[str, Any]) -> Group:
    """Replace the members, if the body has some; raises ScimError."""
    with transaction.atomic():
        group = _locked(group_id)
        _check_name(group, body.get("displayName", group.name))
        _set_external_id(group, body)
        if "members" in body:
            wanted = member_ids(body["members"] or [])
            current = _members(group)
            _set_members(actor, group, add=wanted - current, remove=current - wanted)
    return groups().get(pk=group_id)


def patch(actor: User, group_id: int, operations: list[Operation]) -> Group:
    """Add and remove members, in the order of the operations; raises ScimError."""
    with transaction.atomic():
        group = _locked(group_id)
        for each in operations:
            if each.attribute == "members":
                _patch_members(actor, group, each)
            elif each.attribute == "displayname":
                _check_name(group, each.value)
            elif each.attribute == "externalid":
                _set_external_id(group, {"externalId": each.value})
    return groups().get(pk=group_id)


def delete(actor: User, group_id: int) -> None:
    """Remove the members; the group stays, because policies name it, and SCIM shows it no more."""
    with transaction.atomic():
        group = _locked(group_id)
        _set_members(actor, group, add=set(), remove=_members(group))
        ProvisionedGroup.objects.filter(group=group).delete()
        log(actor, group, CHANGE, "Members are no longer managed over SCIM.")


def _locked(group_id: int) -> Group:
    """Return the group, locked so that two requests change its members one after the other."""
    group = groups().select_for_update(of=("self",)).get(pk=group_id)
    rights.check_manageable(group)
    return group


def _check_name(group: Group, name: Any) -> None:
    if text(name, "displayName", _NAME_LENGTH) != group.name:
        raise ScimError("displayName cannot change: policies name the group.", kind="mutability")


def _set_external_id(group: Group, body: Mapping[str, Any]) -> None:
    if "externalId" in body:
        external_id = text(body["externalId"], "externalId", 255)
        ProvisionedGroup.objects.filter(group=group).update(external_id=external_id)


def _members(group: Group) -> set[int]:
    return set(get_user_model().objects.filter(groups=group).values_list("pk", flat=True))


def _patch_members(actor: User, group: Group, operation: Operation) -> None:
    current = _members(group)
    if operation.op == "remove":
        if operation.selected:
            removed = member_ids({"value": operation.selected})
        else:
            removed = member_ids(operation.value) if operation.value else current
        _set_members(actor, group, add=set(), remove=removed & current)
        return
    wanted = member_ids(operation.value or [])
    kept = current if operation.op == "add" else wanted
    _set_members(actor, group, add=wanted - current, remove=current - kept)


def _set_members(actor: User, group: Group, *, add: set[int], remove: set[int]) -> None:
    """Add and remove members.

    Administrators keep their groups.  Raises ScimError for one that should be added.
    """
    people = get_user_model().objects.select_for_update().order_by("pk").in_bulk(add | remove)
    if missing := (add | remove) - people.keys():
        raise invalid(f"There is no user with the id {min(missing)}.")
    for pk, person in people.items():
        if not (pk in remove and rights.is_protected(person)):
            rights.check_may_change(person)
    removed = [people[pk] for pk in remove if not rights.is_protected(people[pk])]
    change_members(actor=actor, group=group, add=[people[pk] for pk in add], remove=removed)
