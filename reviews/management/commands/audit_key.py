"""`manage.py audit_key`: the public keys that the audit log is checked by, one a line."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reviews.audit.signing import public_keys


class Command(BaseCommand):
    """Prints what an auditor keeps: `verify_history.py --key` takes it."""

    help = "Print the public keys of the audit log: the one in use first, then retired ones."

    def handle(self, *args: Any, **options: Any) -> None:
        keys = public_keys()
        if not keys:
            raise CommandError("Nothing is signed: HOLDPOINT_AUDIT_KEY is not set.")
        for key in keys:
            self.stdout.write(key)
