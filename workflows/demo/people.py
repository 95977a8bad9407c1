"""Create the roles, and the demo's users with random passwords."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import Q

from workflows.executions.access import (
    ADMIN,
    AUDITOR,
    INTEGRATOR,
    OPERATOR,
    REVIEWER,
    ROLES,
    STAFF_ROLES,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Login name → its role.
DEMO_USERS = {
    "admin": ADMIN,
    "reviewer": REVIEWER,
    "reviewer2": REVIEWER,
    "auditor": AUDITOR,
    "operator": OPERATOR,
    "integrator": INTEGRATOR,
}
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
    """Create the groups of the roles with their permissions for the admin."""
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


def ensure_users(passwords: dict[str, str]) -> None:
    """Create missing users of the demo; existing users are not changed."""
    model = get_user_model()
    for name, role in DEMO_USERS.items():
        with transaction.atomic():
            user, created = model.objects.get_or_create(username=name)
            if created:
                _set_up_user(user, role, passwords[name])


def _set_up_user(user: User, role: str, password: str) -> None:
    user.email = f"{user.username}@holdpoint.invalid"
    user.is_staff = role in STAFF_ROLES
    user.is_superuser = role == ADMIN
    user.set_password(password)
    user.save()
    user.groups.add(Group.objects.get(name=role))


def demo_passwords(home: Path) -> dict[str, str]:
    """Return the passwords of the demo, stored below `home` in a file only its owner can read."""
    path = home / "demo_passwords.json"
    stored: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    missing = {name: f"{name}-{secrets.token_hex(3)}" for name in DEMO_USERS if name not in stored}
    if missing:
        home.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(json.dumps({**stored, **missing}, indent=1))
    return {**missing, **stored}
