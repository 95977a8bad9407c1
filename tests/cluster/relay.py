"""Connections to an address that a test makes slow, or cuts."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType


class Relay:
    """Forwards connections between `address` and `target` in a thread; each a host and a port."""

    def __init__(self, address: tuple[str, int], target: tuple[str, int]) -> None:
        self._address, self._target = address, target
        #: Seconds that each piece of data waits, in either direction.
        self.delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._open = set[asyncio.StreamWriter]()

    def __enter__(self) -> Relay:
        self._thread.start()
        serving = asyncio.start_server(self._forward, *self._address)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def cut(self) -> None:
        """End all connections at once."""
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            self._abort()
            await asyncio.wait(tasks, timeout=0.2)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(writer.close)
            try:
                there, target = await asyncio.open_connection(*self._target)
            except OSError:
                return
            stack.callback(target.close)
            ends = {writer, target}
            self._open |= ends
            stack.callback(self._open.difference_update, ends)
            both = self._copy(reader, target), self._copy(there, writer)
            with contextlib.suppress(OSError):
                await asyncio.gather(*both)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        writer.write_eof()
