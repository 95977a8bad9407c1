"""What SCIM may change: no administrator, and no group that gives more than was configured.

The limits hold for the token of every owner: a provider acts without a person who checks each
change, and tokens are stolen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import Group

from workflows import conf
from workflows.executions.access import ADMIN, ROLES, groups_of
from workflows.models import Gate

from .errors import ScimError

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def is_protected(person: User) -> bool:
    """Whether the account is an administrator's: SCIM may only deactivate it."""
    return person.is_superuser or ADMIN in groups_of(person)


def check_may_change(person: User) -> None:
    """Raise ScimError for an administrator."""
    if is_protected(person):
        raise ScimError(
            "This account is an administrator's; SCIM may only deactivate it.", status=403
        )


def is_manageable(group: Group) -> bool:
    """Whether SCIM may set the members of a group.

    It may where the group gives no rights, or HOLDPOINT_SCIM_GROUPS names the group.  Rights are
    permissions, a ceiling of the settings, and the use of an MCP gate.
    """
    if group.name == ADMIN:
        return False
    if group.name in settings.HOLDPOINT.get("scim_groups", ()):
        return True
    if group.name in ROLES or group.name in {**conf.grant_ceilings(), **conf.start_ceilings()}:
        return False
    return not (group.permissions.exists() or Gate.objects.filter(groups=group).exists())


def check_manageable(group: Group) -> None:
    """Raise ScimError for a group whose members SCIM may not set."""
    if not is_manageable(group):
        raise ScimError(
            f"The group {group.name} gives rights; HOLDPOINT_SCIM_GROUPS does not name it.",
            status=403,
        )
