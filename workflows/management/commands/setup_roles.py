"""`manage.py setup_roles`: create the groups of the roles, after each migration."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from workflows.permissions.roles import ensure_roles


class Command(BaseCommand):
    help = "Creates the groups of the roles and adds their permissions. Nothing is removed."
    requires_system_checks = ("holdpoint",)

    def handle(self, *args: Any, **options: Any) -> None:
        ensure_roles()
