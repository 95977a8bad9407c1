"""Putting the demo in place and starting its runs; both can be repeated."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from workflows import conf
from workflows.executions.services import start_execution
from workflows.models import Execution, McpServer, Workflow

from .definitions import WORKFLOWS
from .repository import NoRepository, demo_repository, diff_base

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def ensure_git_server() -> McpServer:
    """The public git server, run by this installation's own Python."""
    server, _ = McpServer.objects.update_or_create(
        name="git",
        defaults={
            "transport": McpServer.Transport.STDIO,
            "command": sys.executable,
            "args": ["-m", "mcp_server_git"],
        },
    )
    return server


def own_page() -> str:
    """The address at which this installation says that it is alive, on this machine."""
    site = urlsplit(conf.site_url())
    host, port = site.hostname or "127.0.0.1", site.port or (443 if site.scheme == "https" else 80)
    return f"{site.scheme or 'http'}://{host}:{port}/livez"


def ensure_workflows() -> None:
    """The demo's workflows; one that somebody changed is left as it is."""
    known = {"page": own_page()}
    try:
        folder = demo_repository()
        known |= {"repo": str(folder), "since": diff_base(folder)}
    except NoRepository:
        pass
    for definition in WORKFLOWS:
        asked = definition["inputs_schema"]["properties"]
        inputs = {name: value for name, value in known.items() if name in asked}
        defaults = {**definition, "default_inputs": inputs}
        Workflow.objects.get_or_create(name=definition["name"], defaults=defaults)


def start_demo(*, actor: User | None, workflow: str = "release-notes", repo: str = "") -> Execution:
    """Start one of the demo's workflows on a repository; see demo_repository for which."""
    chosen = Workflow.objects.get(name=workflow)
    if "repo" not in chosen.inputs_schema.get("properties", {}):
        return start_execution(actor=actor, workflow=chosen)
    folder = demo_repository(repo)
    inputs: dict[str, Any] = {"repo": str(folder)}
    if workflow == "release-notes":
        inputs |= {
            "since": diff_base(folder),
            "count": 20,
            "title": f"What is new in {folder.name}",
            "path": "NOTES.md",
        }
    return start_execution(actor=actor, workflow=chosen, inputs=inputs)
