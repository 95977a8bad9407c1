"""The floor: PostgreSQL and RQ with nothing around them, in a worker without Django.

`python -m tests.benchmarks.bare` is that worker.  Addresses are in BENCH_DATABASE and REDIS_URL.
"""

import json
import os
import time
from functools import lru_cache

import psycopg
from redis import Redis
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

QUEUE = "bare"
REPORTS = "bench:reports"
SCHEMA = """
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE IF NOT EXISTS bench.run (
    id bigint PRIMARY KEY, version bigint NOT NULL, layer int NOT NULL, state jsonb NOT NULL);
CREATE TABLE IF NOT EXISTS bench.task (
    run bigint, name text, attempt int, output jsonb, PRIMARY KEY (run, name, attempt));
CREATE TABLE IF NOT EXISTS bench.event (
    run bigint, seq bigint, kind text, payload jsonb, PRIMARY KEY (run, seq));
"""


@lru_cache(maxsize=1)
def redis() -> Redis:
    return Redis.from_url(os.environ["REDIS_URL"])


@lru_cache(maxsize=1)
def postgres() -> psycopg.Connection:
    """One connection per process, statements prepared from the first use."""
    return psycopg.connect(os.environ["BENCH_DATABASE"], autocommit=True, prepare_threshold=0)


def queue() -> Queue:
    return Queue(QUEUE, connection=redis(), serializer=JSONSerializer)


def say(**values: object) -> None:
    redis().rpush(REPORTS, json.dumps(values))


def dispatched() -> None:
    """A job that does nothing but tell when it began."""
    say(name="dispatched", at=time.monotonic())


def prepare(run: int) -> None:
    """The row of one run."""
    statement = "INSERT INTO bench.run VALUES (%s, 0, 0, '{}') ON CONFLICT DO NOTHING"
    postgres().execute(statement, [run])


def commit_row(run: int, version: int) -> None:
    """The cheapest durable write: one row, one commit."""
    postgres().execute("UPDATE bench.run SET version = %s WHERE id = %s", [version, run])


def commit_layer(run: int, version: int, layer: int, width: int) -> None:
    """A layer as one pipelined transaction: the run, a row per task, one event."""
    connection = postgres()
    state = json.dumps({"layer": layer})
    with connection.pipeline(), connection.transaction():
        connection.execute(
            "UPDATE bench.run SET version = %s, layer = %s, state = %s WHERE id = %s"
            " AND version = %s",
            [version, layer, state, run, version - 1],
        )
        for place in range(width):
            connection.execute(
                "INSERT INTO bench.task VALUES (%s, %s, 1, %s)",
                [run, f"t{layer}_{place}", json.dumps(layer)],
            )
        connection.execute(
            "INSERT INTO bench.event VALUES (%s, %s, 'layer', %s)", [run, version, state]
        )


def run_layers(run: int, layers: int, width: int) -> None:
    """A whole run in this one job."""
    begun = time.monotonic()
    for layer in range(layers):
        commit_layer(run, layer + 1, layer, width)
    say(name=f"bare-{run}", begun=begun, at=time.monotonic())


def main() -> None:
    worker = SimpleWorker([queue()], connection=redis(), serializer=JSONSerializer)
    worker.work(logging_level="WARNING")


if __name__ == "__main__":
    main()
