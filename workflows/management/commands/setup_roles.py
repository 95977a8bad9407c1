"""`manage.py setup_roles`: create the groups of the roles, after each migration."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from workflows.permissions.roles import ensure_roles


class Command(BaseCommand):
    help = (
        "Creates the groups of the roles with their permissions, and removes all other permissions"
        " from groups."
    )
    requires_system_checks = ("holdpoint",)

    def handle(self, *args: Any, **options: Any) -> None:
        for each in ensure_roles():
            self.stdout.write(
                f"Removed a permission from the group {each}. Give it to its members instead."
            )
