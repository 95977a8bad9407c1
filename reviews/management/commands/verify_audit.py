"""`manage.py verify_audit`: walks the chain of decisions and names what was tampered with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reviews.heads import noted
from reviews.models import HumanReviewRecord
from reviews.receipts import verify_chain
from reviews.records import text_of

_BATCH = 1000


class Command(BaseCommand):
    """Exits with an error when a record was altered, taken out or slipped in."""

    help = "Check that the audit log is whole; prints its head, to be kept elsewhere."

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
        rows = HumanReviewRecord.objects.order_by("id").iterator(chunk_size=_BATCH)
        report = verify_chain(rows, text_of=text_of, published=published)
        for problem in report.problems:
            self.stderr.write(f"{problem.kind}: {problem.message}")
        if not report.is_intact:
            raise CommandError(f"{len(report.problems)} problems in {report.checked} records.")
        self.stdout.write(f"{report.checked} records are whole; the head is {report.head}")


def _noted(path: Path | None) -> list[str]:
    try:
        return noted(path) if path else []
    except (OSError, ValueError) as error:
        raise CommandError(f"The heads cannot be read: {error}") from None
