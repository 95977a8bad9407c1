"""`manage.py setup_demo`: create roles and tools, and with the demo users and workflows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from workflows.demo.people import DEMO_USERS, demo_passwords, ensure_users
from workflows.demo.repository import NoRepository
from workflows.demo.setup import ensure_git_server, ensure_workflows, start_demo
from workflows.models import Execution
from workflows.permissions.roles import ensure_roles
from workflows.tools.catalogue_sync import sync_all


class Command(BaseCommand):
    help = "Creates roles, tools and the demo. Running it again changes nothing."
    requires_system_checks = ("holdpoint",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--logins", action="store_true", help="then print the demo logins")

    def handle(self, *args: Any, **options: Any) -> None:
        demo = settings.HOLDPOINT["demo"]
        ensure_roles()
        Path(settings.HOLDPOINT["file_root"]).mkdir(parents=True, exist_ok=True)
        if demo:
            ensure_users(demo_passwords(settings.HOLDPOINT["home"]))
            try:
                ensure_git_server()
            except NoRepository as missing:
                self.stderr.write(str(missing))
            ensure_workflows()
        # To start a known server for its list would take a second of each start of `make run`.
        for result in sync_all(known_servers=False):
            if result.error:
                self.stderr.write(f"tool server {result.server}: {result.error}")
        self._embed()
        if demo and not Execution.objects.exists():
            self._start_first_runs()
        if options["logins"]:
            self._show(demo=demo)

    def _embed(self) -> None:
        """Give every tool a vector of the embedder in force, which may have changed; optional."""
        try:
            call_command("reembed", stdout=self.stderr)
        except CommandError as error:
            self.stderr.write(f"tools are found by their words only: {error}")

    def _start_first_runs(self) -> None:
        """Start example runs for the first visit."""
        starter = get_user_model().objects.filter(username="operator").first()
        try:
            for name in ("sandbox-tour", "release-notes", "repository-check"):
                start_demo(actor=starter, workflow=name)
        except NoRepository as missing:
            self.stderr.write(str(missing))

    def _show(self, *, demo: bool) -> None:
        if not demo:
            self.stdout.write("No demo users: HOLDPOINT_DEMO is off.")
            return
        passwords = demo_passwords(settings.HOLDPOINT["home"])
        for name, role in DEMO_USERS.items():
            self.stdout.write(f"{name:<11} {passwords[name]:<19} ({role})")
