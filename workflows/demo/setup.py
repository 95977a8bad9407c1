"""Set up the demo and start its runs; both can be repeated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.db import transaction

from workflows import conf
from workflows.executions.definitions import record_version
from workflows.executions.services import start_execution
from workflows.models import Execution, McpServer, Workflow

from .definitions import WORKFLOWS
from .repository import (
    SAFE_CONFIGURATION,
    NoRepository,
    demo_repository,
    diff_base,
    git_environment,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def ensure_git_server(repo: str = "") -> McpServer:
    """Create or update the git server, which reads the demo's copy of a repository.

    It runs with this installation's Python. No configuration of a repository, an account or the
    host can name a command for it. Raises NoRepository.
    """
    folder = str(demo_repository(repo))
    server, _ = McpServer.objects.update_or_create(
        name="git",
        defaults={
            "transport": McpServer.Transport.STDIO,
            "command": sys.executable,
            "args": ["-m", "mcp_server_git", "--repository", folder],
            "env": git_environment({**SAFE_CONFIGURATION, "safe.directory": folder}),
            "read_paths": [folder],
        },
    )
    return server


def own_page() -> str:
    """Return the address of this installation's liveness check."""
    site = urlsplit(conf.site_url())
    host, port = site.hostname or "127.0.0.1", site.port or (443 if site.scheme == "https" else 80)
    return f"{site.scheme or 'http'}://{host}:{port}/livez"


def ensure_workflows() -> None:
    """Create missing workflows of the demo; existing ones are not changed."""
    defaults_by_name = {"page": own_page()}
    try:
        folder = demo_repository()
        defaults_by_name |= {"repo": str(folder), "since": diff_base(folder)}
    except NoRepository:
        pass
    for definition in WORKFLOWS:
        properties = definition["inputs_schema"]["properties"]
        inputs = {name: value for name, value in defaults_by_name.items() if name in properties}
        defaults = {**definition, "default_inputs": inputs}
        with transaction.atomic():
            workflow, is_new = Workflow.objects.get_or_create(
                name=definition["name"], defaults=defaults
            )
            if is_new:
                record_version(workflow, author=None)


def start_demo(*, actor: User | None, workflow: str = "release-notes", repo: str = "") -> Execution:
    """Start a workflow of the demo on a repository, which its git server reads from now on."""
    chosen = Workflow.objects.get(name=workflow)
    if "repo" not in chosen.inputs_schema.get("properties", {}):
        return start_execution(actor=actor, workflow=chosen)
    server = ensure_git_server(repo)
    folder = Path(server.read_paths[0])
    inputs: dict[str, Any] = {"repo": str(folder)}
    if workflow == "release-notes":
        inputs |= {
            "since": diff_base(folder),
            "count": 20,
            "title": f"What is new in {folder.name}",
            "path": "NOTES.md",
        }
    return start_execution(actor=actor, workflow=chosen, inputs=inputs)
