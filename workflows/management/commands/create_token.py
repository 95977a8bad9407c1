"""`manage.py create_token USER --scopes read,run,decide`: create and print an API token."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from workflows.executions.validation import InvalidRequest
from workflows.permissions.tokens import SCOPES, create_token


class Command(BaseCommand):
    help = "Create an API token for a user and print it on its own line, only once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="user name")
        parser.add_argument(
            "--scopes", default="read", help=f"comma-separated: {', '.join(SCOPES)} (default: read)"
        )
        parser.add_argument("--name", default="", help="name of the token")
        parser.add_argument(
            "--workflows", default="", help="comma-separated names: only these (default: all)"
        )
        parser.add_argument(
            "--gates", default="", help="comma-separated names of MCP gates, with the scope gate"
        )
        parser.add_argument("--days", type=int, help="days until it expires (default: never)")

    def handle(self, *args: Any, **options: Any) -> None:
        users = get_user_model().objects
        user = users.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user {options['user']!r}.")
        days = options["days"]
        if days is not None and not 1 <= days <= 36_500:
            raise CommandError("--days must be between 1 and 36500.")
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        names = [name.strip() for name in options["workflows"].split(",") if name.strip()]
        gates = [name.strip() for name in options["gates"].split(",") if name.strip()]
        try:
            _, text = create_token(
                user=user,
                name=options["name"],
                scopes=scopes,
                workflows=names or None,
                gates=gates or None,
                expires_at=timezone.now() + timedelta(days=days) if days else None,
                confirmed=True,  # a user with shell access could disable the confirmation anyway
            )
        except InvalidRequest as error:
            raise CommandError(str(error)) from error
        self.stdout.write(text)
