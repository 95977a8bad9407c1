"""`manage.py mcp_stdio`: the MCP server over stdin and stdout."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import anyio
from django.core.management.base import BaseCommand, CommandError

from workflows.mcp_server import stdio
from workflows.mcp_server.authentication import NOT_VALID, authenticate_caller


class Command(BaseCommand):
    """Read the token from HOLDPOINT_TOKEN, so that it is not visible in process lists."""

    help = "Speaks MCP over stdin and stdout, with the rights of an API token."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--token-file",
            type=Path,
            help="file that holds the token (default: the environment variable HOLDPOINT_TOKEN)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        caller = authenticate_caller(_token(options["token_file"]))
        if caller is None:
            raise CommandError(NOT_VALID)
        anyio.run(stdio.serve, caller)


def _token(path: Path | None) -> str:
    if path is None:
        return os.environ.get("HOLDPOINT_TOKEN", "").strip()
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}") from error
