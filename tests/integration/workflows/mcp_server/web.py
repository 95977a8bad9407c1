"""A real web process that is killed and restarted, and agents that call it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from tests.support.ports import free_port
from tests.support.processes import ROOT, environment, wait_for


class Web:
    """daphne on a port of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.address}/mcp"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **more: str) -> None:
        """Start it, with `more` in its environment."""
        command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(
            [*command, "config.asgi:application"], cwd=ROOT, env=environment(**more)
        )
        wait_for(self.answers, what="the web process answers")

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def answers(self) -> bool:
        try:
            return httpx2.get(self.url, timeout=2).status_code == 405
        except httpx2.TransportError:
            return False

    def end(self, number: int = signal.SIGKILL) -> int:
        """Kill it, or ask it to stop; its exit status."""
        if self._process is None:
            return 0
        self._process.send_signal(number)
        return self._process.wait(timeout=20)

    def died(self) -> int:
        """Wait until it has ended by itself; its exit status."""
        assert self._process is not None
        return self._process.wait(timeout=30)

    def killed_and_started(self, **more: str) -> None:
        self.end()
        self.start(**more)


class Agent:
    """Somebody with a token; each call is a connection of its own, as from another program."""

    def __init__(self, url: str, token: str, mode: str = "auto", **client: Any) -> None:
        self.url, self.token, self.mode, self._client = url, token, mode, client

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        return asyncio.run(self.acall(tool, arguments))

    def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a call that must not fail."""
        result = self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        return dict(result.structured_content)

    def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The `holdpoint/error` of a call that must fail, with the `text` a model reads."""
        return refused(self.call(tool, **arguments))

    async def acall(
        self, tool: str, arguments: dict[str, Any], progress: Any = None
    ) -> CallToolResult:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=90) as http,
            Client(
                streamable_http_client(self.url, http_client=http), mode=self.mode, **self._client
            ) as client,
        ):
            return await client.call_tool(tool, arguments, progress_callback=progress)


def text_of(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


def refused(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error, result.structured_content
    return {**(result.meta or {})["holdpoint/error"], "text": text_of(result)}


def post(url: str, token: str | None, body: Any, **headers: str) -> httpx2.Response:
    """One raw POST, as of the protocol's version 2025-11-25."""
    sent = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **({"Authorization": f"Bearer {token}"} if token else {}),
        **headers,
    }
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx2.post(url, content=content, headers=sent, timeout=60)


def call_of(tool: str, arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def rpc_message(response: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC message of an answer, whether it came alone or as a stream."""
    text = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        lines = [line for line in text.splitlines() if line.startswith("data:")]
        text = lines[-1].removeprefix("data:")
    return dict(json.loads(text))
