"""Groups, whose names are identities: of roles, and of groups in policies and settings."""

from __future__ import annotations

import pgtrigger
from django.contrib.auth.models import Group

from workflows.common.guards import ReadOnly, Refuse

#: The groups of the roles, see `workflows.executions.access`.
ROLE_GROUPS = ("reviewer", "auditor", "operator", "integrator", "admin")


class NamedGroup(Group):
    """Carries the guards of Django's groups: they keep their names, and roles stay."""

    class Meta:
        proxy = True
        default_permissions = ()
        triggers = [
            ReadOnly(
                fields=["name"],
                message="roles, policies and settings name the group",
                error="integrity_constraint_violation",
            ),
            Refuse(
                name="roles_stay",
                operation=pgtrigger.Delete,
                condition=pgtrigger.Q(old__name__in=ROLE_GROUPS),
                message="the group is a role",
                error="integrity_constraint_violation",
            ),
        ]
