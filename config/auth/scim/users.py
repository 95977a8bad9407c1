"""Accounts over SCIM: the resource, and its changes; each change is in the log of the admin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib.admin.models import ADDITION, CHANGE
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from reviews.components.admin_rights import log
from reviews.models import ProvisionedUser
from reviews.people.account_names import check_account_name
from reviews.people.rights import check_may_manage
from reviews.people.services import end_access, set_active

from . import rights
from .errors import ScimError, invalid
from .requests import Operation, boolean, first_email, text

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
#: Attribute of a filter → lookup.
FILTERS: Final = {
    "username": "username__iexact",
    "externalid": "provisioned__external_id",
    "id": "pk",
    "emails.value": "email__iexact",
}
_NAME_LENGTH: Final = 150
#: Names of fields in the log, as the admin writes them.
_LABELS: Final = {"first_name": "First name", "last_name": "Last name", "email": "Email address"}
_DELETED: Final = Q(provisioned__deleted_at__isnull=False)


@dataclass(slots=True)
class Values:
    """The attributes that are stored; None for those that a request leaves as they are."""

    username: str | None = None
    external_id: str | None = None
    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    active: bool | None = None


def accounts() -> QuerySet[User]:
    """Return the accounts that SCIM shows: all but those that it deleted."""
    rows = get_user_model().objects.exclude(_DELETED)
    return rows.select_related("provisioned").order_by("pk")


def resource(person: User, location: str) -> dict[str, Any]:
    """Return an account as SCIM shows it."""
    provisioned = getattr(person, "provisioned", None)
    shown: dict[str, Any] = {
        "schemas": [SCHEMA],
        "id": str(person.pk),
        "userName": person.get_username(),
        "name": {
            "givenName": person.first_name,
            "familyName": person.last_name,
            "formatted": person.get_full_name(),
        },
        "displayName": person.get_full_name() or person.get_username(),
        "active": person.is_active,
        "emails": [{"value": person.email, "type": "work", "primary": True}]
        if person.email
        else [],
        "groups": [
            {"value": str(group.pk), "display": group.name}
            for group in person.groups.order_by("name")
        ],
        "meta": {
            "resourceType": "User",
            "created": person.date_joined.isoformat(),
            "location": location,
        },
    }
    if provisioned is not None and provisioned.external_id:
        shown["externalId"] = provisioned.external_id
    return shown


# --- values ---------------------------------------------------------------------------------------


def from_body(body: Mapping[str, Any]) -> Values:
    """Read the resource of a POST or PUT; attributes that are not stored are ignored."""
    lower = {key.lower(): value for key, value in body.items()}
    values = Values()
    for name in ("username", "externalid", "active", "emails", "name"):
        if name in lower:
            _set(values, name, lower[name])
    return values


def from_operations(operations: list[Operation]) -> Values:
    """Read the operations of a PATCH; attributes that are not stored are ignored."""
    values = Values()
    for each in operations:
        removed = each.op == "remove"
        if removed and each.attribute in ("username", "active"):
            raise ScimError(f"{each.attribute} cannot be removed.", kind="mutability")
        _set(values, each.attribute, None if removed else each.value)
    return values


def _set(values: Values, attribute: str, value: Any) -> None:
    if attribute == "username":
        values.username = text(value, "userName", _NAME_LENGTH)
    elif attribute == "externalid":
        values.external_id = text(value, "externalId", 255)
    elif attribute == "active":
        values.active = boolean(value)
    elif attribute in ("emails", "emails.value"):
        values.email = _email(first_email(value))
    elif attribute == "name":
        if value is not None and not isinstance(value, Mapping):
            raise invalid("name must be an object.")
        for name, part in (value or {}).items():
            _set(values, f"name.{name}".lower(), part)
    elif attribute == "name.givenname":
        values.first_name = text(value, "name.givenName", _NAME_LENGTH)
    elif attribute == "name.familyname":
        values.last_name = text(value, "name.familyName", _NAME_LENGTH)


def _email(address: str) -> str:
    if address:
        try:
            validate_email(address)
        except ValidationError:
            raise invalid("emails must have an e-mail address.") from None
    return address


# --- changes --------------------------------------------------------------------------------------


def create(actor: User, values: Values) -> User:
    """Create an account without a password; an account that SCIM deleted comes back.

    Raises ScimError.
    """
    name = _checked_name(values.username)
    with transaction.atomic():
        existing = _locked().filter(username__iexact=name).first()
        if existing is not None:
            return _bring_back(actor, existing, values)
        person = get_user_model()(username=name, is_active=values.active is not False)
        person.set_unusable_password()
        try:
            with transaction.atomic():
                person.save()
        except IntegrityError:
            raise _taken() from None
        ProvisionedUser.objects.create(user=person)
        _store(person, values)
        _link(person, values.external_id)
        log(actor, person, ADDITION, [{"added": {}}])
    return person


def _checked_name(name: str | None) -> str:
    model = get_user_model()
    if not name:
        raise invalid("userName is required.")
    try:
        model.username_validator(name)
        check_account_name(name)
    except ValidationError as error:
        raise invalid(f"userName: {error.messages[0]}") from None
    return name


def _taken() -> ScimError:
    return ScimError("There is an account with this userName.", kind="uniqueness", status=409)


def _bring_back(actor: User, person: User, values: Values) -> User:
    provisioned = getattr(person, "provisioned", None)
    if provisioned is None or provisioned.deleted_at is None:
        raise _taken()
    rights.check_may_change(person)
    if values.external_id and provisioned.external_id not in ("", values.external_id):
        raise ScimError(
            "There was an account with this userName and another externalId. Records name it, so"
            " another person needs another userName.",
            kind="uniqueness",
            status=409,
        )
    # Also here: an admin may have given the account rights while it was deleted.
    _remove_rights(actor, person)
    ProvisionedUser.objects.filter(user=person).update(deleted_at=None)
    values.username, values.active = None, values.active is not False
    # Values that the request lacks are emptied: e-mails would go to the former person's address.
    values.first_name = values.first_name or ""
    values.last_name = values.last_name or ""
    values.email = values.email or ""
    return _change(actor, person, values)


def _link(person: User, external_id: str | None) -> None:
    """Let the new account be that of the provider's sign-in whose `sub` is the external id.

    Only for a new account: otherwise the owner of a SCIM token could take over an existing one.
    """
    if settings.OIDC is None or not external_id:
        return
    from allauth.socialaccount.models import SocialAccount

    SocialAccount.objects.get_or_create(
        provider=settings.OIDC.provider_id,
        uid=external_id,
        defaults={"user": person, "extra_data": {"iss": settings.OIDC.issuer}},
    )


def change(actor: User, person_id: int, values: Values) -> User:
    """Change an account; raises ScimError, and DoesNotExist for an unknown one."""
    with transaction.atomic():
        return _change(actor, _locked().exclude(_DELETED).get(pk=person_id), values)


def _change(actor: User, person: User, values: Values) -> User:
    if values.username is not None and values.username != person.get_username():
        raise ScimError("userName cannot change: records and rights name it.", kind="mutability")
    if rights.is_protected(person):
        _check_only_deactivates(person, values)
    elif changed := _store(person, values):
        log(actor, person, CHANGE, [{"changed": {"fields": changed}}])
    if values.active is not None and values.active != person.is_active:
        set_active(actor=actor, person=person, active=values.active)
        person.is_active = values.active
    return person


def _check_only_deactivates(person: User, values: Values) -> None:
    """Raise ScimError if the request changes more of an administrator than `active` to false."""
    provisioned = getattr(person, "provisioned", None)
    stored = {
        "first_name": person.first_name,
        "last_name": person.last_name,
        "email": person.email,
        "external_id": provisioned.external_id if provisioned is not None else "",
    }
    differs = any(getattr(values, name) not in (None, value) for name, value in stored.items())
    if differs or (values.active and not person.is_active):
        rights.check_may_change(person)


def _store(person: User, values: Values) -> list[str]:
    """Store the given attributes; return the labels of those that changed."""
    differing = [
        name
        for name in ("first_name", "last_name", "email")
        if getattr(values, name) not in (None, getattr(person, name))
    ]
    for name in differing:
        setattr(person, name, getattr(values, name))
    if differing:
        person.save(update_fields=differing)
    changed = [_LABELS[name] for name in differing]
    if values.external_id is not None:
        row, _ = ProvisionedUser.objects.get_or_create(user=person)
        if row.external_id != values.external_id:
            row.external_id = values.external_id
            row.save(update_fields=["external_id"])
            changed.append("External ID")
        row.user = person  # which also sets person.provisioned
    return changed


def delete(actor: User, person_id: int) -> None:
    """Deactivate an account for good and hide it from SCIM; records keep naming it.

    No rights and no ways to sign in are left for the next person who gets the name.  An
    administrator is only deactivated, and SCIM does not bring the account back.
    """
    with transaction.atomic():
        person = _locked().exclude(_DELETED).get(pk=person_id)
        if person.is_active:
            set_active(actor=actor, person=person, active=False)
        if not rights.is_protected(person):
            _remove_rights(actor, person)
        ProvisionedUser.objects.update_or_create(user=person, defaults={"deleted_at": Now()})


def _remove_rights(actor: User, person: User) -> None:
    """End the access, groups, permissions and ways to sign in of an account."""
    check_may_manage(actor, person)
    end_access(actor=actor, person=person)
    changed = []
    if person.groups.exists():
        person.groups.clear()
        changed.append("Groups")
    if person.user_permissions.exists():
        person.user_permissions.clear()
        changed.append("User permissions")
    if person.is_staff:
        person.is_staff = False
        person.save(update_fields=["is_staff"])
        changed.append("Staff status")
    if apps.is_installed("allauth.socialaccount"):
        from allauth.socialaccount.models import SocialAccount

        if SocialAccount.objects.filter(user=person).delete()[0]:
            changed.append("Linked accounts")
    if apps.is_installed("allauth.mfa"):
        from allauth.mfa.models import Authenticator

        if Authenticator.objects.filter(user=person).delete()[0]:
            changed.append("Second factors")
    if changed:
        log(actor, person, CHANGE, [{"changed": {"fields": changed}}])


def _locked() -> QuerySet[User]:
    rows = get_user_model().objects.select_related("provisioned")
    return rows.select_for_update(of=("self",))
