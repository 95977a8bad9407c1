"""Log the stderr of a stdio server line by line."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TextIO

_MAX_LINE = 2_000
_TAIL_LINES = 5

logger = logging.getLogger(__name__)


class StderrLog:
    """`writer` is the server's stderr; `tail` is its last output."""

    def __init__(self, server: str, writer: TextIO) -> None:
        self.writer = writer
        self._server = server
        self._last: deque[str] = deque(maxlen=_TAIL_LINES)

    @property
    def tail(self) -> str:
        """The last lines as one, for the error message of a server that did not start."""
        return " | ".join(self._last)

    async def follow(self, reader: asyncio.StreamReader) -> None:
        """Log until every process has closed the writing end."""
        async for chunk in _lines(reader):
            text = chunk.decode("utf-8", "backslashreplace").rstrip()
            if text:
                self._last.append(text[:300])
                logger.info("mcp server %s: %s", self._server, text)


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of at most `_MAX_LINE` bytes; longer lines are split."""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as overrun:
            line = await reader.readexactly(max(1, overrun.consumed))
        except asyncio.IncompleteReadError as end:
            if end.partial:
                yield end.partial
            return
        yield line


@asynccontextmanager
async def stderr_log(server: str) -> AsyncIterator[StderrLog]:
    """Open a pipe into the log; the caller closes `writer` after the server has inherited it."""
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    reader = asyncio.StreamReader(limit=_MAX_LINE)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
    )
    log = StderrLog(server, os.fdopen(writing, "w"))
    following = asyncio.create_task(log.follow(reader), name=f"mcp-stderr-{server}")
    try:
        yield log
    finally:
        log.writer.close()
        # The server has ended; its last output is still in the pipe.
        await asyncio.wait({following}, timeout=1)
        following.cancel()
        transport.close()
