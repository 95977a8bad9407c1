"""Wrappers of the SDK's streams: they record sent messages and report a closed connection."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage


@dataclass(slots=True)
class Attempt:
    """Whether a call may have reached the server; if not, it may be sent again."""

    sent: bool = False


#: The attempt of the current task. The SDK carries the context along with each message.
current_attempt: contextvars.ContextVar[Attempt] = contextvars.ContextVar("mcp_attempt")


def mark_sent() -> None:
    """Record that the current attempt, if any, may have reached the server."""
    attempt = current_attempt.get(None)
    if attempt is not None:
        attempt.sent = True


class _StreamWrapper:
    """A stream that closes the stream it wraps."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        closed: bool | None = await self._inner.__aexit__(kind, error, trace)
        return closed


class SendStreamWrapper(_StreamWrapper):
    """A write stream that marks the current attempt as sent after each message."""

    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        mark_sent()


class ReceiveStreamWrapper(_StreamWrapper):
    """A read stream that calls `on_end` when the server has closed the connection."""

    def __init__(self, inner: Any, on_end: Callable[[], None]) -> None:
        super().__init__(inner)
        self._on_end = on_end

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the last message; the SDK reads this attribute of its streams."""
        context: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> SessionMessage | Exception:
        received: SessionMessage | Exception = await self._inner.receive()
        return received

    def __aiter__(self) -> ReceiveStreamWrapper:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            received: SessionMessage | Exception = await self._inner.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise
        return received
