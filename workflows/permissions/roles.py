"""Create the groups of the roles, with their permissions for the admin."""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission
from django.db.models import Q

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


def ensure_roles() -> None:
    """Create missing groups and add missing permissions; nothing is removed."""
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
        codename__in=("delete_slackaccount", "delete_teamsaccount"),
    )
    jobs = Permission.objects.filter(content_type__app_label="django_rq", codename="admin")
    for name in ROLES:
        group, _ = Group.objects.get_or_create(name=name)
        wanted = {
            ADMIN: views | edits | clients | loosen | decide | people | links | jobs,
            AUDITOR: views | people,
            REVIEWER: reviewed | decide,
            OPERATOR: views.exclude(content_type__model="securityevent") | loosen,
        }.get(name)
        if wanted is not None:
            group.permissions.add(*wanted.distinct())
