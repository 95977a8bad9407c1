"""`manage.py demo`: starts a demo run."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from workflows.demo.definitions import WORKFLOWS
from workflows.demo.repository import NoRepository
from workflows.demo.setup import start_demo
from workflows.models import Workflow


class Command(BaseCommand):
    help = "Starts a demo run on a git repository."

    def add_arguments(self, parser: CommandParser) -> None:
        names = [definition["name"] for definition in WORKFLOWS]
        parser.add_argument("--workflow", choices=names, default=names[0])
        parser.add_argument("--repo", default="", help="path of a git repository")
        parser.add_argument("--count", type=int, default=1, help="how many runs")
        parser.add_argument("--user", default="operator", help="who starts them")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model().objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}; run `manage.py setup_demo`.")
        try:
            for _ in range(options["count"]):
                execution = start_demo(
                    actor=user, workflow=options["workflow"], repo=options["repo"]
                )
                self.stdout.write(f"run {execution.pk} started: {execution.title}")
        except NoRepository as missing:
            raise CommandError(str(missing)) from missing
        except Workflow.DoesNotExist as missing:
            raise CommandError("The demo is not in place; run `manage.py setup_demo`.") from missing
