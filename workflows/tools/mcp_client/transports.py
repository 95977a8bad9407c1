"""The SDK's stdio and HTTP transports, with the wrappers and errors that the pool needs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from workflows.common.outbound_http import NetworkFailed

from .addresses import allowed_addresses
from .confinement import settings_of
from .server_spec import McpServerSpec
from .stderr import StderrLog
from .stdio_guard import ENVIRONMENT
from .stream_wrappers import ReceiveStreamWrapper, SendStreamWrapper, mark_sent

_GUARD = Path(__file__).with_name("stdio_guard.py")

#: Error codes of this client, outside the range that JSON-RPC reserves.
NOT_REACHED = -31_001
CONNECTION_LOST = -31_002
SESSION_GONE = -31_003
HTTP_STATUS = -31_004


@asynccontextmanager
async def stdio_transport(
    spec: McpServerSpec, log: StderrLog, on_end: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Start the server under its guard and yield its streams; stop it at the end."""
    program = _program(spec)
    confinement = settings_of(spec, program)
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-I", "-S", str(_GUARD), json.dumps(confinement), program, *spec.args],
        env={ENVIRONMENT: json.dumps(dict(spec.env))},
        encoding_error_handler="replace",
    )
    async with stdio_client(parameters, errlog=log.writer) as (read, write):
        log.writer.close()
        yield ReceiveStreamWrapper(read, on_end), SendStreamWrapper(write)


def _program(spec: McpServerSpec) -> str:
    """Return the path of the executable, looked up in the PATH of the server.

    :raises FileNotFoundError: when there is none.
    """
    path = shutil.which(spec.command, path=spec.env.get("PATH", os.environ.get("PATH")))
    if path is None:
        raise FileNotFoundError(f"{spec.command!r} is not a program on the PATH")
    return path


class _CheckedTransport(httpx2.AsyncBaseTransport):
    """Connects only to addresses that were checked, and never resolves a name a second time.

    Otherwise a name could lead to an allowed address when the server is saved and to a denied one
    later. `Host` and the name in the certificate stay the name of the URL.
    """

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        # By host and port; one for a server, forgotten when no address of it can be reached.
        self._addresses: dict[tuple[str, int | None], tuple[str, ...]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        name, url = request.url.host, request.url
        place = (name, url.port)
        if place not in self._addresses:
            try:
                found = await asyncio.to_thread(allowed_addresses, str(url))
            except (NetworkFailed, OSError) as error:
                raise httpx2.ConnectError(str(error), request=request) from error
            self._addresses[place] = found
        failure: httpx2.TransportError | None = None
        for address in self._addresses[place]:
            request.url = url.copy_with(host=address)
            request.extensions = {**request.extensions, "sni_hostname": name}
            try:
                return await self._inner.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
            finally:
                request.url = url
        del self._addresses[place]
        raise failure or httpx2.ConnectError(f"{name} has no address", request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ErrorReportingTransport(httpx2.AsyncBaseTransport):
    """Reports network errors to the SDK as JSON-RPC errors of one request.

    Otherwise an exception here would end the session with all of its calls, and an HTTP error
    would lose its status.
    """

    def __init__(self) -> None:
        self._inner = _CheckedTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _error(request, 503, NOT_REACHED, f"cannot connect: {error}")
        except httpx2.TransportError as error:
            mark_sent()
            reason = str(error) or type(error).__name__
            return _error(request, 502, CONNECTION_LOST, f"connection lost: {reason}")
        if request.method != "POST" or response.status_code < 400:
            mark_sent()
            return response
        return await _readable_error(request, response)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _readable_error(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Convert an error response to a POST into a JSON-RPC error."""
    if response.status_code == 404 and "mcp-session-id" in request.headers:
        # The server does not know the session, so it has not processed the message.
        await response.aclose()
        return _error(request, 404, SESSION_GONE, "the server has ended the session")
    mark_sent()
    if response.headers.get("content-type", "").lower().startswith("application/json"):
        return response
    await response.aclose()
    status = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
    return _error(request, response.status_code, HTTP_STATUS, f"the server answered {status}")


def _error(request: httpx2.Request, status: int, code: int, message: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(
        status,
        headers={"content-type": "application/json"},
        content=json.dumps(body).encode(),
        request=request,
    )


@asynccontextmanager
async def http_transport(
    spec: McpServerSpec, on_end: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of one HTTP session; the pool limits the calls, not a read timeout."""
    async with (
        httpx2.AsyncClient(
            headers=dict(spec.headers),
            timeout=httpx2.Timeout(spec.start_seconds, read=None),
            transport=_ErrorReportingTransport(),
        ) as http,
        streamable_http_client(spec.url, http_client=http) as (read, write),
    ):
        yield ReceiveStreamWrapper(read, on_end), write
