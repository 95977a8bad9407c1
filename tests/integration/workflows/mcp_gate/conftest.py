"""A gate in front of a server, agents with tokens, and a reviewer."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from reviews.decisions.services import DecisionRequest, decide
from tests.integration.workflows.mcp_server.web import Agent as WebAgent
from tests.integration.workflows.mcp_server.web import Web
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.processes import wait_for
from tests.support.tool_servers import copied
from workflows.executions.jobs import run_to_rest
from workflows.mcp_gate.callers import GateCaller
from workflows.mcp_gate.server import build_server
from workflows.mcp_server.authentication import authenticate_caller
from workflows.models import Gate, GateTool, Hold, McpServer
from workflows.permissions.tokens import create_token
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool

UPSTREAM = Path(__file__).with_name("upstream.py")


class Upstream:
    """What the server behind the gate was asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def of(self, tool: str) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["tool"] == tool]


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "journal")


@pytest.fixture
def gate(transactional_db: None, upstream: Upstream) -> Iterator[Gate]:
    """The gate `ops` with one server, `files`, whose tools are in the catalogue."""
    stock_catalogue()
    program = copied(UPSTREAM, upstream.path.parent / "program")
    server = McpServer.objects.create(
        name="files",
        command=sys.executable,
        args=[program],
        env={"JOURNAL": str(upstream.path)},
        read_paths=[program],
        write_paths=[str(upstream.path)],
    )
    assert catalogue_sync.sync_server(server).error == ""
    found = Gate.objects.create(name="ops")
    found.servers.add(server)
    yield found
    close_pool()


def person(name: str, *groups: str) -> User:
    user, _ = User.objects.get_or_create(username=name)
    for group in groups:
        user.groups.add(group_of(group))
    return user


@pytest.fixture
def reviewer(transactional_db: None) -> User:
    return person("rita", "reviewer")


def new_token(name: str = "bot", *, scopes: tuple[str, ...] = ("gate",), **more: Any) -> str:
    return create_token(user=person(name, "integrator"), name="t", scopes=scopes, **more)[1]


class Agent:
    """A program with a token, connected to the gate in this process."""

    def __init__(self, token: str, gate: str = "ops", **client: Any) -> None:
        caller = authenticate_caller(token)
        assert caller is not None
        self.caller, self._client = GateCaller(caller, gate), client

    def connect(self) -> Client:
        return Client(build_server(lambda ctx: self.caller), **self._client)

    def call(self, tool: str, progress: Any = None, **arguments: Any) -> CallToolResult:
        async def inside() -> CallToolResult | MCPError:
            async with self.connect() as client:
                try:
                    return await client.call_tool(tool, arguments, progress_callback=progress)
                except MCPError as error:
                    return error  # raised outside of the client, which would wrap it

        result = asyncio.run(inside())
        if isinstance(result, MCPError):
            raise result
        return result

    def names(self) -> dict[str, Any]:
        async def inside() -> dict[str, Any]:
            async with self.connect() as client:
                return {tool.name: tool for tool in (await client.list_tools()).tools}

        return asyncio.run(inside())


@pytest.fixture
def agent(gate: Gate) -> Agent:
    return Agent(new_token())


@pytest.fixture
def waits(settings: Any) -> Callable[[float], None]:
    """Sets how long a held call waits."""

    def change(seconds: float, **more: Any) -> None:
        wanted = {"gate_wait_seconds": seconds, **more}
        settings.HOLDPOINT = {**settings.HOLDPOINT, **wanted}

    return change


def policy(gate: Gate, tool: str, value: str) -> None:
    GateTool.objects.update_or_create(gate=gate, tool=tool, defaults={"policy": value})


def open_hold() -> Hold | None:
    rows = Hold.objects.select_related("execution").filter(status=Hold.Status.OPEN)
    return rows.order_by("-opened_seq").first()


def decided(user: User, decision: str = "APPROVE", **fields: Any) -> Hold:
    """Decide the open hold as a person, and let the run go on."""
    hold = wait_for(open_hold, what="a hold")
    decide(
        DecisionRequest(
            hold_id=hold.pk,
            user=user,
            decision=decision,
            version=hold.execution.version,
            source="web",
            **fields,
        )
    )
    run_to_rest(hold.execution_id)
    return hold


def meanwhile(work: Callable[[], Any]) -> threading.Thread:
    """Do something in a thread while this one waits."""

    def inside() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=inside)
    thread.start()
    return thread


def text_of(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


@pytest.fixture
def web(gate: Gate) -> Iterator[Web]:
    found = Web()
    yield found
    found.end()


@pytest.fixture
def web_agent(web: Web) -> WebAgent:
    """An agent that calls the gate through a web process of its own."""
    return WebAgent(f"{web.url}/gate/ops/", new_token())


def in_background(work: Callable[[], Any]) -> threading.Thread:
    """Call in a thread; the process that answers may be killed meanwhile."""

    def inside() -> None:
        try:
            work()
        except BaseException:
            return

    thread = threading.Thread(target=inside, daemon=True)
    thread.start()
    return thread
