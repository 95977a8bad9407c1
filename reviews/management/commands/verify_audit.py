"""`manage.py verify_audit`: walks the chains of decisions and receipts and names every problem."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reviews.audit.signing import public_keys
from reviews.audit.verification import CannotCheck, verify_audit


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
            action="append",
            metavar="FILE",
            help="A file of signed heads that was kept elsewhere; may be given several times.",
        )
        parser.add_argument(
            "--key",
            action="append",
            default=[],
            metavar="KEY",
            help="A public key beside the configured keys.",
        )
        parser.add_argument(
            "--max-age",
            type=float,
            default=600,
            metavar="SECONDS",
            help="How old the newest head may be (600).",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = verify_audit(
                published=options["published"],
                keys=(*public_keys(), *options["key"]),
                heads=_lines(options["heads"]),
                max_age=timedelta(seconds=options["max_age"]),
            )
        except (OSError, ValueError, CannotCheck) as error:
            raise CommandError(f"This cannot be checked: {error}") from None
        for problem in report.problems:
            self.stderr.write(problem)
        for finding in report.reported:
            self.stdout.write(finding)
        if report.problems:
            checked = f"{report.records} records and {report.receipts} receipts"
            raise CommandError(f"{len(report.problems)} problems in {checked}.")
        signed = "signatures were not checked: there is no key"
        if report.signed is not None:
            signed = f"{report.signed} of them are signed"
            older = report.records - report.signed
            if older:
                signed += f", {older} are from before the key and covered by the chain"
        self.stdout.write(
            f"{report.records} records are whole; the head is {report.head}; {signed}\n"
            f"{report.receipts} receipts are whole, and what Holdpoint ran is what was approved;"
            f" the head is {report.receipts_head}"
        )


def _lines(paths: list[Path] | None) -> list[str] | None:
    if paths is None:
        return None
    return [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
