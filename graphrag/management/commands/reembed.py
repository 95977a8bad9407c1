"""Give every tool a vector of the embedder that the settings name."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from graphrag.catalogue import ingest
from graphrag.embedding import embedders

_WIDTH = 30


class Command(BaseCommand):
    """``manage.py reembed``: after the embedder changed, or after an embedder was down."""

    help = "Embeds the tools that have no vector of the embedder in force (--all: every tool)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """``--all`` renews vectors that are up to date as well."""
        parser.add_argument("--all", action="store_true", dest="every")

    def handle(self, *args: Any, **options: Any) -> None:
        """Embed in batches; what is finished stays when the embedder fails."""
        try:
            identity = embedders.current().identity
            done = ingest.reembed(progress=self._progress, every=options["every"])
        except embedders.EmbedderError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(self.style.SUCCESS(f"{done} tools embedded by {identity}."))

    def _progress(self, done: int, total: int) -> None:
        full = _WIDTH * done // total
        bar = "#" * full + "." * (_WIDTH - full)
        self.stdout.write(f"\r[{bar}] {done}/{total}", ending="\n" if done == total else "")
        self.stdout.flush()
