"""Pooled sessions with a streamable HTTP server."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from workflows.common import background_loop
from workflows.engine.protocol.ports import TaskFailed
from workflows.tools.mcp_client import McpServerSpec, addresses, close_pool, pool

from .conftest import HTTPServer, Journal, until

Call = Callable[..., Any]

NOT_JSON_RPC = r"^web\.add: MCP server web sent a message that is not JSON-RPC$"


def test_values_errors_and_tool_list(web: HTTPServer, call: Call) -> None:
    assert call(web.spec, "add", a=2, b=3) == {"sum": 5}
    assert call(web.spec, "shout", text="a") == "a\nA"
    assert call(web.spec, "headers")["x-team"] == "blue"
    with pytest.raises(TaskFailed, match=r"web\.fail: .*no luck"):
        call(web.spec, "fail", message="no luck")
    tools = {tool.name: tool for tool in background_loop.run(pool().list_tools(web.spec), 30)}
    assert tools["add"].read_only is True


def test_calls_side_by_side(web: HTTPServer) -> None:
    words = [f"w{n}" for n in range(5)]

    async def together() -> list[str]:
        ask = [pool().call(web.spec, "meet", {"word": word, "others": words}) for word in words]
        return await asyncio.gather(*ask)

    assert background_loop.run(together(), 60) == words


def test_killed_between_calls_and_started_again(web: HTTPServer, call: Call) -> None:
    assert call(web.spec, "add", a=1, b=1) == {"sum": 2}
    web.kill()
    with pytest.raises(TaskFailed, match="cannot connect") as failure:
        call(web.spec, "add", a=1, b=1)
    assert failure.value.retryable
    web.start()
    assert call(web.spec, "add", a=2, b=2) == {"sum": 4}
    web.kill()
    web.start()
    assert call(web.spec, "add", a=3, b=3) == {"sum": 6}


def test_killed_during_a_call(web: HTTPServer, call: Call) -> None:
    running = background_loop.submit(pool().call(web.spec, "slow", {"seconds": 60}))
    web.journal.wait_for("slow began")
    web.kill()
    with pytest.raises(TaskFailed) as failure:
        running.result(20)
    assert failure.value.retryable
    web.start()
    assert call(web.spec, "add", a=1, b=1) == {"sum": 2}
    assert web.journal.words.count("slow began") == 1


def test_a_call_that_takes_too_long_fails(web: HTTPServer, call: Call) -> None:
    assert call(web.spec, "add", a=1, b=1) == {"sum": 2}  # connected before the second begins
    with pytest.raises(TaskFailed, match="no answer within 1 s"):
        call(web.spec, "slow", timeout=1, seconds=60)
    web.journal.wait_for("slow cancelled")
    assert call(web.spec, "add", a=1, b=1) == {"sum": 2}


def test_a_cancelled_call_does_not_affect_others(web: HTTPServer) -> None:
    stays = background_loop.submit(pool().call(web.spec, "slow", {"seconds": 2, "word": "stays"}))
    web.journal.wait_for("stays began")
    goes = background_loop.submit(pool().call(web.spec, "slow", {"seconds": 60, "word": "goes"}))
    web.journal.wait_for("goes began")
    goes.cancel()
    web.journal.wait_for("goes cancelled")
    assert stays.result(20) == "stays"


def test_a_changed_tool_list_reaches_the_hook(web: HTTPServer, call: Call) -> None:
    heard: list[str] = []
    pool().on_list_changed(heard.append)
    call(web.spec, "change_list")
    until(lambda: heard, "the hook is called")
    assert set(heard) == {"web"}


def test_an_address_without_mcp_fails_with_a_reason(call: Call, web: HTTPServer) -> None:
    spec = McpServerSpec("web", "http", url=f"http://127.0.0.1:{web.port}/elsewhere")
    with pytest.raises(TaskFailed, match="HTTP 404"):
        call(spec, "add", a=1, b=1)


def test_the_address_is_checked_again_at_the_connection(
    web: HTTPServer, call: Call, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that led elsewhere when it was saved leads to this machine now."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "loopback_targets": []}
    monkeypatch.setattr(addresses, "system_resolver", lambda *_: ["127.0.0.1"])
    spec = McpServerSpec("web", "http", url=f"http://mcp.example.com:{web.port}/mcp")
    with pytest.raises(TaskFailed, match="is a service of this machine"):
        call(spec, "add", a=1, b=1)
    monkeypatch.setattr(addresses, "system_resolver", lambda *_: ["8.8.8.8", "169.254.169.254"])
    with pytest.raises(TaskFailed, match="device or metadata address"):
        call(spec, "add", a=1, b=1)


def test_the_connection_goes_to_the_checked_address(
    web: HTTPServer, call: Call, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is resolved once; `Host` keeps it, and a second address is tried."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "loopback_targets": ["*"]}
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.9", "127.0.0.1"]

    monkeypatch.setattr(addresses, "system_resolver", resolve)
    spec = McpServerSpec("web", "http", url=f"http://localhost:{web.port}/mcp")
    assert call(spec, "add", a=2, b=3) == {"sum": 5}
    assert asked == ["localhost"]


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream"])
def test_an_answer_that_is_not_json_rpc_fails_the_call(
    journal: Journal, call: Call, media_type: str
) -> None:
    server = HTTPServer(journal, "--garbled", media_type)
    try:
        with pytest.raises(TaskFailed, match=NOT_JSON_RPC):
            call(server.spec, "add", timeout=300, a=1, b=1)
        # The server may have executed the call, so it is no refusal (MCPError) for a gate either.
        asked = pool().call_unchanged(server.spec, "add", {"a": 1, "b": 1}, timeout=300)
        with pytest.raises(TaskFailed, match=NOT_JSON_RPC):
            background_loop.run(asked, 30)
    finally:
        close_pool()
        server.kill()
