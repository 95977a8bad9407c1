"""Create the demo's users with random passwords."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction

from workflows.executions.access import (
    ADMIN,
    AUDITOR,
    INTEGRATOR,
    OPERATOR,
    REVIEWER,
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
