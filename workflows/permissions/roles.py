"""The groups of the roles, and their permissions for the admin, which are fixed here."""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission
from django.db.models import Q, QuerySet

from workflows.executions.access import ADMIN, AUDITOR, OPERATOR, REVIEWER, ROLES

_APPS = ("workflows", "reviews", "graphrag")
_CLIENTS = Q(content_type__app_label="oauth2_provider", content_type__model="application")
#: Models that reviewers read in the admin, besides the reviews that they decide there.
_REVIEWED_MODELS = (
    "hold", "execution", "humanreviewrecord", "reviewclaim", "workflow", "tool",
)  # fmt: skip
#: Models that admins change or act on in the admin.
_EDITABLE_MODELS = (
    "workflow", "mcpserver", "tool", "apitoken", "capability", "signinalert", "approvalpolicy",
    "gate", "absence", "businesscalendar", "retentionpolicy", "legalhold",
)  # fmt: skip


def ensure_roles() -> list[str]:
    """Create the groups of the roles with exactly their permissions, and return what was removed.

    Other groups have no permissions: their members would pass them on with the group.
    """
    Group.objects.bulk_create([Group(name=name) for name in ROLES], ignore_conflicts=True)
    removed = []
    for group in Group.objects.order_by("name"):
        extra = _names(group.permissions.exclude(pk__in=_permissions_of(group.name)))
        removed += [f"{group.name}: {name}" for name in extra]
        group.permissions.set(_permissions_of(group.name))
    return removed


def _names(permissions: QuerySet[Permission]) -> list[str]:
    names = permissions.order_by("content_type__app_label", "codename")
    return [
        f"{app}.{name}" for app, name in names.values_list("content_type__app_label", "codename")
    ]


def _permissions_of(group: str) -> QuerySet[Permission]:
    """Return the permissions of the members of a group for the admin; none unless it is a role."""
    views = Permission.objects.filter(
        Q(content_type__app_label__in=_APPS) | _CLIENTS, codename__startswith="view_"
    )
    edits = Permission.objects.filter(content_type__app_label__in=_APPS).filter(
        Q(content_type__model__in=_EDITABLE_MODELS) & ~Q(codename__startswith="delete_")
    )
    clients = Permission.objects.filter(_CLIENTS)
    loosen = Permission.objects.filter(
        content_type__app_label="workflows", codename="loosen_policy"
    )
    decide = Permission.objects.filter(content_type__app_label="workflows", codename="decide_hold")
    reviewed = views.filter(content_type__model__in=_REVIEWED_MODELS)
    people = Permission.objects.filter(
        content_type__app_label="auth", codename__in=("view_user", "view_group")
    )
    links = Permission.objects.filter(
        content_type__app_label="reviews",
        codename="delete_slackaccount",
    )
    jobs = Permission.objects.filter(content_type__app_label="django_rq", codename="admin")
    groups = Permission.objects.filter(
        content_type__app_label="auth", codename__in=("add_group", "change_group")
    )
    by_role = {
        ADMIN: views | edits | clients | loosen | decide | people | groups | links | jobs,
        AUDITOR: views | people,
        REVIEWER: reviewed | decide,
        OPERATOR: views.exclude(content_type__model="securityevent") | loosen,
    }
    return by_role.get(group, Permission.objects.none()).distinct()
