"""The floor of approvals: PostgreSQL and Redis behind a few lines of HTTP, without the product.

`python -m tests.benchmarks.bare_approvals PORT` is the server.  Addresses are in BENCH_DATABASE and
REDIS_URL.

    GET  /            a page that paints a row per approval (server-sent events)
    POST /ask         one row, one commit, one publish; returns {"id"}
    GET  /wait/ID     answered when it is decided
    POST /decide/ID   one row, one commit, one publish
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg
from redis.asyncio import Redis

TABLE = """
CREATE TABLE IF NOT EXISTS bench.approval (
    id bigserial PRIMARY KEY, arguments jsonb NOT NULL, status text NOT NULL DEFAULT 'pending')
"""
PAGE = """<!doctype html><title>Approvals</title><table id="queue-list"></table><script>
new EventSource("/news").onmessage = (event) => {
  const [kind, id] = event.data.split(" ");
  const list = document.getElementById("queue-list");
  if (kind === "decided") return list.querySelector(`[data-hold="${id}"]`)?.remove();
  const row = list.insertRow();
  row.dataset.hold = id;
  row.insertCell().textContent = `Approval ${id} waits`;
};
document.title = "ready";
</script>"""
_CHANNEL = "bench:approvals"
_Send = Callable[[str, str], Coroutine[Any, Any, None]]


class Server:
    """One process, one database session."""

    def __init__(self, database: psycopg.AsyncConnection[Any], redis: Redis) -> None:
        self._database, self._redis = database, redis

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""

        async def send(body: str, kind: str = "application/json") -> None:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write((head + body).encode())
            await writer.drain()

        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                line, *headers = request.decode().split("\r\n")
                length = next((h for h in headers if h.lower().startswith("content-length:")), ":0")
                body = await reader.readexactly(int(length.partition(":")[2]))
                _, path, _ = line.split(" ")
                if path == "/news":
                    await self._news(writer)
                    return
                await self._answer(path, body.decode(), send)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _answer(self, path: str, body: str, send: _Send) -> None:
        _, action, *rest = path.split("/")
        if action == "ask":
            cursor = await self._database.execute(
                "INSERT INTO bench.approval (arguments) VALUES (%s) RETURNING id", [body]
            )
            found = await cursor.fetchone()
            assert found is not None
            await self._redis.publish(_CHANNEL, f"asked {found[0]}")
            await send(json.dumps({"id": found[0]}), "application/json")
        elif action == "decide":
            statement = "UPDATE bench.approval SET status = 'approved' WHERE id = %s"
            await self._database.execute(statement, [rest[0]])
            await self._redis.publish(_CHANNEL, f"decided {rest[0]}")
            await send('{"status": "approved"}', "application/json")
        elif action == "wait":
            await self._decided(rest[0])
            await send('{"status": "approved"}', "application/json")
        else:
            await send(PAGE, "text/html")

    async def _decided(self, number: str) -> None:
        async with self._redis.pubsub() as news:
            await news.subscribe(_CHANNEL)
            async for message in news.listen():
                if message["data"] == f"decided {number}".encode():
                    return

    async def _news(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        async with self._redis.pubsub() as news:
            await news.subscribe(_CHANNEL)
            async for message in news.listen():
                if message["type"] == "message":
                    writer.write(b"data: " + message["data"] + b"\n\n")
                    await writer.drain()


async def main(port: int) -> None:
    redis = Redis.from_url(os.environ["REDIS_URL"], socket_timeout=None)
    database = await psycopg.AsyncConnection.connect(
        os.environ["BENCH_DATABASE"], autocommit=True, prepare_threshold=0
    )
    await database.execute(TABLE)
    server = await asyncio.start_server(Server(database, redis).serve, "127.0.0.1", port)
    await redis.rpush("bench:reports", json.dumps({"name": "bare approvals"}))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
