"""Public MCP servers: installed from their registries, listed over stdio, cached below var/eval.

Nothing is kept in the repository but their names and versions. The keys in the environments are
invented; listing tools calls no service.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import PaginatedRequestParams

HOME = Path(__file__).parents[2] / "var" / "eval"
ListedTool = dict[str, Any]
"""A tool as its server lists it, in JSON."""
#: Seconds for a server to list its tools, while others are installed.
_LIST_SECONDS = 120
#: Servers that are installed side by side: an installation waits for its registry half of the time.
_AT_ONCE = 4
_GOOGLE_CLIENT = {
    "client_id": "invented",
    "client_secret": "invented",
    "redirect_uris": ["http://localhost:3000/oauth2callback"],
}


@dataclass(frozen=True, slots=True)
class Server:
    """One server: a package of npm or PyPI, and the command that it installs."""

    name: str
    package: str
    version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    registry: str = "npm"
    also: tuple[str, ...] = ()


SERVERS = (
    Server(
        "filesystem",
        "@modelcontextprotocol/server-filesystem",
        "2026.8.31",
        "mcp-server-filesystem",
        args=(str(HOME),),
    ),
    Server(
        "github",
        "@modelcontextprotocol/server-github",
        "2025.4.8",
        "mcp-server-github",
        env={"GITHUB_PERSONAL_ACCESS_TOKEN": "invented"},
    ),
    Server("kubernetes", "mcp-server-kubernetes", "4.1.7", "mcp-server-kubernetes"),
    Server(
        "google-calendar",
        "@cocal/google-calendar-mcp",
        "2.6.3",
        "google-calendar-mcp",
        env={"GOOGLE_OAUTH_CREDENTIALS": str(HOME / "google.json")},
        files={"google.json": json.dumps({"installed": _GOOGLE_CLIENT})},
    ),
    Server(
        "slack",
        "@modelcontextprotocol/server-slack",
        "2025.4.25",
        "mcp-server-slack",
        env={"SLACK_BOT_TOKEN": "xoxb-invented", "SLACK_TEAM_ID": "T00000000"},
    ),
    Server(
        "airtable",
        "airtable-mcp-server",
        "1.14.0",
        "airtable-mcp-server",
        env={"AIRTABLE_API_KEY": "pat.invented"},
    ),
    Server("tavily", "tavily-mcp", "0.2.22", "tavily-mcp", env={"TAVILY_API_KEY": "tvly-invented"}),
    Server("memory", "@modelcontextprotocol/server-memory", "2026.8.31", "mcp-server-memory"),
    Server(
        "notion",
        "@notionhq/notion-mcp-server",
        "2.5.2",
        "notion-mcp-server",
        env={"NOTION_TOKEN": "ntn_invented"},
    ),
    Server(
        "obsidian",
        "mcp-obsidian",
        "0.2.3",
        "mcp-obsidian",
        env={"OBSIDIAN_API_KEY": "invented"},
        registry="PyPI",
    ),
    Server(
        "git",
        "mcp-server-git",
        "2026.10.10",
        "mcp-server-git",
        registry="PyPI",
    ),
    Server("time", "mcp-server-time", "2026.10.10", "mcp-server-time", registry="PyPI"),
    Server("fetch", "mcp-server-fetch", "2026.10.10", "mcp-server-fetch", registry="PyPI"),
    Server(
        "sqlite",
        "mcp-server-sqlite",
        "2025.4.25",
        "mcp-server-sqlite",
        args=("--db-path", str(HOME / "empty.sqlite")),
        also=("mcp<2",),  # it uses the interface of the first SDK
        registry="PyPI",
    ),
    Server("wikipedia", "wikipedia-mcp", "2.0.1", "wikipedia-mcp", registry="PyPI"),
    Server("arxiv", "arxiv-mcp-server", "0.8.2", "arxiv-mcp-server", registry="PyPI"),
    Server(
        "atlassian",
        "mcp-atlassian",
        "0.23.1",
        "mcp-atlassian",
        env={
            "JIRA_URL": "https://jira.invalid",
            "JIRA_PERSONAL_TOKEN": "invented",
            "CONFLUENCE_URL": "https://confluence.invalid",
            "CONFLUENCE_PERSONAL_TOKEN": "invented",
        },
        registry="PyPI",
    ),
    Server("excel", "excel-mcp-server", "2.2.2", "excel-mcp-server", ("stdio",), registry="PyPI"),
    Server("word", "office-word-mcp-server", "1.1.11", "word_mcp_server", registry="PyPI"),
)


def _install(server: Server) -> Path:
    """Install a server below `var/eval` unless it is there; return the path of its command."""
    folder = HOME / "servers" / f"{server.name}-{server.version}"
    if server.registry == "npm":
        program = folder / "node_modules" / ".bin" / server.command
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]
        install += [str(folder), f"{server.package}@{server.version}"]
    else:
        program = folder / "bin" / server.command
        # A server runs once: its own pip and compiled modules would take longer than they save.
        install = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet"]
        install += ["--no-compile", f"{server.package}=={server.version}", *server.also]
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if server.registry == "PyPI":
            venv.create(folder)
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    return program


def tool_lists() -> dict[str, list[ListedTool]]:
    """Return the tools of each server as it lists them; a list that is not cached is asked for."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        names = (server.name for server in SERVERS)
        return dict(zip(names, pool.map(_tools, SERVERS), strict=True))


def _tools(server: Server) -> list[ListedTool]:
    path = HOME / "tools" / f"{server.name}-{server.version}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        listed = asyncio.run(asyncio.wait_for(_listed(server, _install(server)), _LIST_SECONDS))
        path.write_text(json.dumps(listed, ensure_ascii=False, indent=1))
    found: list[ListedTool] = json.loads(path.read_text())
    return found


async def _listed(server: Server, program: Path) -> Sequence[Mapping[str, Any]]:
    for name, content in server.files.items():
        (HOME / name).write_text(content)
    parameters = StdioServerParameters(
        command=str(program),
        args=list(server.args),
        env={"PATH": os.environ["PATH"], "HOME": str(HOME), **server.env},
        cwd=HOME,
    )
    with (HOME / f"{server.name}.log").open("w") as log:
        async with (
            stdio_client(parameters, errlog=log) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            found: list[Mapping[str, Any]] = []
            cursor = None
            while True:
                page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                found += [
                    tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                    for tool in page.tools
                ]
                cursor = page.next_cursor
                if cursor is None:
                    return found
