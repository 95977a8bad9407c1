"""`manage.py sync_tools`: synchronize the tools of MCP servers into the catalogue."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workflows.models import McpServer
from workflows.tools.catalogue_sync import SyncResult, sync_all, sync_server


class Command(BaseCommand):
    help = "Synchronizes the catalogue with the Python tools and the MCP servers."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("server", nargs="?", help="only this MCP server")

    def handle(self, *args: Any, **options: Any) -> None:
        results = self._one(options["server"]) if options["server"] else sync_all()
        for result in results:
            what = result.error or f"{result.tools} tools"
            self.stdout.write(f"{result.server}: {what}")
        if any(result.error for result in results):
            raise CommandError("some servers could not be read; see above")

    def _one(self, name: str) -> list[SyncResult]:
        row = McpServer.objects.filter(name=name).first()
        if row is None:
            raise CommandError(f"there is no MCP server {name!r}")
        return [sync_server(row)]
