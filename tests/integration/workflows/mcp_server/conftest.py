"""Users with tokens, a web process, workers, and the MCP server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from mcp import Client

from tests.integration.workflows.api.roles import ROLES
from tests.integration.workflows.mcp_server.web import Agent, Web
from tests.support import toolkit
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.processes import engine_processes, wait_for
from workflows.executions.jobs import run_to_rest
from workflows.mcp_server.authentication import authenticate_caller
from workflows.mcp_server.server import build_server
from workflows.models import Execution
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from mcp_types import CallToolResult

assert toolkit  # importing it declares its tools
Tokens = Callable[..., str]
Agents = Callable[..., Agent]
Call = Callable[..., "CallToolResult"]


@pytest.fixture
def people(transactional_db: None) -> dict[str, User]:
    """One active user per role, named like it; `nobody` is in no group."""
    stock_catalogue()
    found = {}
    for role in (*ROLES, "nobody"):
        found[role] = User.objects.create_user(role)
        if role != "nobody":
            found[role].groups.add(group_of(role))
    return found


@pytest.fixture
def token(people: dict[str, User]) -> Tokens:
    """A token of a role's user, with the scopes an agent gets unless told."""

    def make(role: str, *scopes: str) -> str:
        wanted = scopes or ("read", "run")
        return create_token(user=people[role], name="t", scopes=wanted, confirmed=True)[1]

    return make


@pytest.fixture(scope="package")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the toolkit notes its calls, in workers and in here."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDPOINT_TEST_LEDGER", str(path))
        yield path


@pytest.fixture(scope="package")
def workers(django_db_setup: None, ledger: Path) -> Iterator[None]:
    with engine_processes(workers=1):
        yield


@pytest.fixture(scope="package")
def one_web(django_db_setup: None) -> Iterator[Web]:
    found = Web()
    found.start()
    yield found
    found.end()


@pytest.fixture
def web(one_web: Web) -> Web:
    """A web process that answers, whatever the test before did to it."""
    if not one_web.runs:
        one_web.start()
    return one_web


@pytest.fixture
def agent(web: Web, token: Tokens) -> Agents:
    """An agent of a role over HTTP."""

    def make(role: str = "integrator", *scopes: str, **more: Any) -> Agent:
        return Agent(web.url, token(role, *scopes), **more)

    return make


@pytest.fixture
def call(token: Tokens) -> Call:
    """Call a tool of the server in this process: `call(role, tool, scopes=(...), **arguments)`."""

    def make(role: str, tool: str, /, *, scopes: tuple[str, ...] = (), **arguments: Any) -> Any:
        caller = authenticate_caller(token(role, *scopes))
        assert caller is not None

        async def inside() -> Any:
            async with Client(build_server(lambda ctx: caller)) as client:
                return await client.call_tool(tool, arguments)

        return asyncio.run(inside())

    return make


def at_rest(execution: Execution) -> Execution:
    """The run once it rests, whether a worker that another test needs took it or this process."""
    run_to_rest(execution.pk)

    def rested() -> Execution | None:
        row = Execution.objects.get(pk=execution.pk)
        return None if row.status in ("PENDING", "RUNNING") else row

    return wait_for(rested, what="the run rests")


def value(name: str, value: Any = None, **more: Any) -> dict[str, Any]:
    """A task that gives a value back."""
    return {
        "id": name,
        "type": "tool",
        "tool": "builtin.echo",
        "arguments": {"value": value},
        **more,
    }


def chain(*names: str) -> dict[str, Any]:
    """A plan of tasks one after the other, each giving its own name back."""
    before = ("", *names)
    return {
        "tasks": [
            value(name, name, depends_on=[before[at]] if at else [])
            for at, name in enumerate(names)
        ]
    }


def reviewed(name: str = "draft", **more: Any) -> dict[str, Any]:
    """A plan of one task whose output a reviewer looks at."""
    review = {"trigger_phase": "AFTER_EXECUTION", "on_timeout": "keep_waiting", **more}
    return {"tasks": [value(name, {"text": "hello"}, human_review=review)]}


VALIDATED = {"per_layer_validation": True}
