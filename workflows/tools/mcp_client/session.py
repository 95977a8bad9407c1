"""A session with one MCP server, owned by one asyncio task."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

import anyio
from mcp.client import Client, IncomingMessage
from mcp.client.session import ElicitationFnT
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from .results import NOT_JSON_RPC
from .server_spec import McpServerSpec
from .stderr import StderrLog, stderr_log
from .transports import http_transport, stdio_transport

#: Seconds without a call after which a process that serves one run ends.
IDLE_SECONDS = 60.0

#: Iterations of the event loop until it notices an end of file that the kernel has reported.
_SETTLE_TURNS = 12

_CLIENT = Implementation(name="holdpoint", version="1")

logger = logging.getLogger(__name__)

Changed = Callable[[str], None]


class SessionFailed(Exception):
    """The session could not be started, or ended before the call was sent."""


class McpSession:
    """Starts in the background on construction; `client()` waits until it can be used.

    The task that entered the SDK's contexts must also exit them; therefore a dedicated task keeps
    them open until the session is retired or the server ends.
    """

    def __init__(
        self,
        spec: McpServerSpec,
        on_changed: Changed | None,
        on_elicit: ElicitationFnT | None = None,
    ) -> None:
        self.spec = spec
        self._on_changed = on_changed
        self._on_elicit = on_elicit
        self._users = 0
        self._idle: asyncio.TimerHandle | None = None
        self._retired = False
        self._late = False
        #: Whether a line that is not JSON-RPC ended the session, or came before it had started.
        self.unreadable = False
        self._scope = anyio.CancelScope()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda future: future.cancelled() or future.exception())
        # A separate context: messages of the handshake are not part of the call that started it.
        self._owner = asyncio.get_running_loop().create_task(
            self._run(), name=f"mcp-{spec.name}", context=contextvars.Context()
        )

    @property
    def gone(self) -> bool:
        """Whether the session has ended or is ending."""
        return self._owner.done() or self._scope.cancel_called

    @property
    def usable(self) -> bool:
        """Whether new calls may use it."""
        return not self._retired and not self.gone

    def fits(self, spec: McpServerSpec, *, follows: bool) -> bool:
        """Whether a new call to `spec` may use it, and it follows changes of the list if needed."""
        return self.usable and self.spec == spec and (self._on_changed is not None) >= follows

    async def client(self) -> Client:
        """Return the connected client; raise SessionFailed if there is none."""
        client = await asyncio.shield(self._ready)
        if self.spec.transport == "stdio":
            for _ in range(_SETTLE_TURNS):
                await asyncio.sleep(0)
        if self.gone:
            raise SessionFailed(f"the session with {self.spec.name} has ended")
        return client

    @property
    def idle(self) -> bool:
        """Whether no call uses it."""
        return not self._users

    def __enter__(self) -> None:
        self._users += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def __exit__(self, *_exc: object) -> None:
        self._users -= 1
        if self._users:
            return
        if self._retired:
            self._scope.cancel()
        elif self.spec.run:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.retire)

    def retire(self) -> None:
        """Accept no more calls, and end after the current ones."""
        self._retired = True
        if not self._users:
            self._scope.cancel()

    async def close(self) -> None:
        """End now and stop the server; running calls fail."""
        self._retired = True
        self._scope.cancel()
        await asyncio.wait({self._owner})

    async def _run(self) -> None:
        """Keep the session open until its scope is cancelled; report why it did not start."""
        reason: Exception | None = None
        log: StderrLog | None = None
        try:
            # Outside of the scope, because its cancellation would lose the last lines.
            async with AsyncExitStack() as stack:
                if self.spec.transport == "stdio":
                    log = await stack.enter_async_context(stderr_log(self.spec.name))
                with self._scope:
                    await self._hold_open(log)
        except Exception as error:
            reason = _first(error)
        finally:
            if not self._ready.done():
                self._ready.set_exception(self._not_started(reason, log))
            elif reason is not None:
                logger.warning("mcp server %s: the session broke: %s", self.spec.name, reason)

    async def _hold_open(self, log: StderrLog | None) -> None:
        late = asyncio.get_running_loop().call_later(self.spec.start_seconds, self._give_up)
        end = self._scope.cancel
        transport = (
            http_transport(self.spec, end) if log is None else stdio_transport(self.spec, log, end)
        )
        try:
            async with Client(
                transport,
                cache=None,
                client_info=_CLIENT,
                message_handler=self._on_message,
                elicitation_callback=self._on_elicit,
            ) as client:
                late.cancel()
                self.unreadable = False
                self._ready.set_result(client)
                await self._follow_changes(client)
                await anyio.sleep_forever()
        finally:
            late.cancel()

    def _give_up(self) -> None:
        self._late = True
        self._scope.cancel()

    def _not_started(self, reason: Exception | None, log: StderrLog | None) -> SessionFailed:
        if self._late:
            why = f"no answer within {self.spec.start_seconds:g} s"
        elif self._retired:
            why = "it was being closed"
        else:
            why = str(reason) if reason is not None else "it ended before it was ready"
        if self.unreadable:
            why += f"; it {NOT_JSON_RPC}"
        tail = f" (it wrote: {log.tail})" if log is not None and log.tail else ""
        return SessionFailed(f"MCP server {self.spec.name} did not start: {why}{tail}")

    async def _follow_changes(self, client: Client) -> None:
        """Subscribe to changes of the tool list if the protocol version requires it."""
        tools = client.server_capabilities.tools
        if self._on_changed is None or client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        if tools is None or not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _change in changes:
                    self._notify_changed()
        except (MCPError, SubscriptionLost) as error:
            logger.info("mcp server %s: change subscription lost: %s", self.spec.name, error)
        # Later changes would not be reported: the next call starts a new session.
        self._notify_changed()
        self.retire()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._notify_changed()
        elif isinstance(message, Exception):
            logger.warning("mcp server %s sent an invalid message: %s", self.spec.name, message)
            self._on_unreadable(message)

    def _on_unreadable(self, error: Exception) -> None:
        """End the session if the line may be the answer to a call, so that no call waits for it.

        Over HTTP the SDK itself fails the call whose answer it cannot read. Many servers log to
        their standard output: such lines are tolerated.
        """
        if self.spec.transport != "stdio":
            return
        if not self._ready.done():
            self.unreadable = True
        elif self._users and not self.gone and _names_json_rpc(error):
            self.unreadable = True
            self._scope.cancel()

    def _notify_changed(self) -> None:
        if self._on_changed is None:
            return
        future = asyncio.get_running_loop().run_in_executor(None, self._on_changed, self.spec.name)
        future.add_done_callback(_log_failure)


def _log_failure(future: asyncio.Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.error("the hook for changed tool lists failed", exc_info=error)


def _names_json_rpc(error: Exception) -> bool:
    """Whether the line that could not be parsed has, or begins, an object with `jsonrpc`."""
    if not isinstance(error, ValidationError):
        return False
    inputs = [each["input"] for each in error.errors()]
    return any(isinstance(each, str | dict) and "jsonrpc" in each for each in inputs)


def _first(error: Exception) -> Exception:
    """The first real exception inside nested groups."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
