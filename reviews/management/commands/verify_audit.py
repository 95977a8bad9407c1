"""`manage.py verify_audit`: walks the chains of decisions and receipts and names every problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reviews.heads import noted
from reviews.verification import verify_audit


class Command(BaseCommand):
    """Exits with an error when something was altered, taken out or slipped in."""

    help = "Check that the audit log is whole; prints the heads of its chains."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--published",
            nargs="*",
            default=(),
            metavar="HASH",
            help="Heads noted earlier: each must still be in the chain.",
        )

        parser.add_argument(
            "--heads",
            type=Path,
            metavar="FILE",
            help="A file of heads that the sweeper noted (HOLDPOINT_AUDIT_HEADS_FILE).",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        published = [*options["published"], *_noted(options["heads"])]
        report = verify_audit(published=published)
        for problem in report.problems:
            self.stderr.write(problem)
        if report.problems:
            checked = f"{report.records} records and {report.receipts} receipts"
            raise CommandError(f"{len(report.problems)} problems in {checked}.")
        self.stdout.write(
            f"{report.records} records are whole; the head is {report.head}\n"
            f"{report.receipts} receipts are whole, and what ran is what was approved;"
            f" the head is {report.receipts_head}"
        )


def _noted(path: Path | None) -> list[str]:
    try:
        return noted(path) if path else []
    except (OSError, ValueError) as error:
        raise CommandError(f"The heads cannot be read: {error}") from None
