"""What must be true of an installation when all runs have ended, and the figures."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import quantiles

from tests.cluster.installation import Installation
from tests.cluster.load import Listener, Load, events_of, queue
from tests.support.processes import wait_for
from tests.support.webhook_receiver import Receiver
from workflows.models import QUEUE_KINDS


@contextmanager
def under_load(cluster: Installation, receiver: Receiver) -> Iterator[Load]:
    """Start the product and the load; in the end every run must have ended right."""
    for host in cluster.hosts:
        cluster.start(host)
    cluster.wait_until_ready()
    cluster.subscribe(receiver)
    begun = time.monotonic()
    # An operator sees every run from its start, a reviewer from its first hold on.
    watching = Listener(cluster.address, cluster.starter, queue)
    watching.start()
    wait_for(lambda: watching.connections, what="the queue's socket opens")
    load = Load(cluster.address, cluster.starter, cluster.decider, cluster.retried)
    load.start()
    wait_for(lambda: load.runs, what="the first run")
    following = Listener(cluster.address, cluster.starter, events_of(load.runs[0]))
    following.start()
    try:
        yield load
    finally:
        load.drain.set()
        while load.is_alive():
            load.join(1)
            cluster.start_what_ended()
    assert load.error is None
    seconds = time.monotonic() - begun
    check(cluster, load, receiver, watching, following)
    print(figures(cluster, load, receiver, watching, seconds))  # noqa: T201


def check(
    cluster: Installation, load: Load, receiver: Receiver, watching: Listener, following: Listener
) -> None:
    with cluster.primary.connect("holdpoint") as session:
        runs = dict(session.execute("SELECT id::text, version FROM workflows_execution").fetchall())
        assert set(runs) == load.completed == set(load.runs)
        assert len(load.runs) == len(runs)
        gaps = session.execute(
            "SELECT e.id FROM workflows_execution e JOIN workflows_executionevent v"
            " ON v.execution_id = e.id GROUP BY e.id"
            " HAVING array_agg(v.seq ORDER BY v.seq) <>"
            " (SELECT array_agg(n) FROM generate_series(1, e.version) n)"
        ).fetchall()
        assert gaps == []
        records = session.execute(
            "SELECT (SELECT count(*) FROM workflows_hold),"
            " count(*), count(DISTINCT hold_id) FROM reviews_humanreviewrecord"
        ).fetchone()
        expected = 20 + 2 * (len(runs) - 1)
        assert records == (expected, expected, expected)
        results = session.execute(
            "SELECT count(*), count(DISTINCT (execution_id, task_id)) FROM workflows_taskattempt"
            " WHERE settled AND status = 'SUCCEEDED'"
        ).fetchone()
        assert results == (21 + 4 * (len(runs) - 1),) * 2
        shown = session.execute(
            "SELECT execution_id::text, seq FROM workflows_executionevent WHERE kind = ANY(%s)",
            [list(QUEUE_KINDS)],
        ).fetchall()
    assert "records are whole" in cluster.manage("verify_audit")
    first = load.runs[0]
    wait_for(lambda: following.last_seq >= runs[first], what="the run's socket caught up")
    following.end()
    assert [each["seq"] for each in following.events] == list(range(1, runs[first] + 1))

    def heard() -> set[tuple[str, int]]:
        return {(each["executionId"], each["seq"]) for each in [*watching.events]}

    if cluster.clocks_are_right:
        wait_for(lambda: set(shown) <= heard(), what="the queue's socket caught up")
    watching.end()
    assert heard() <= set(shown)
    with suppress(AssertionError):
        wait_for(lambda: not undelivered(receiver, runs), seconds=240)
    assert undelivered(receiver, runs) == {}


def undelivered(receiver: Receiver, runs: dict[str, int]) -> dict[str, list[int]]:
    """The runs whose events did not all arrive in their order, and the seqs that did."""
    # In one pass: thousands of bodies are parsed.
    seen: dict[str, dict[int, None]] = {run: {} for run in runs}
    for body in (each.body for each in receiver.accepted):
        if body.get("executionId") in seen:
            seen[body["executionId"]].setdefault(body["seq"])
    orders = {run: [*seqs] for run, seqs in seen.items()}
    return {run: order for run, order in orders.items() if order != [*range(1, runs[run] + 1)]}


def repeated_calls(cluster: Installation) -> int:
    """How often a lost worker's call was made again; a repetition has the key of its attempt."""
    lines = [json.loads(line) for line in cluster.ledger.read_text().splitlines()]
    begun = Counter((each["execution"], each["task"]) for each in lines if each["what"] == "begin")
    assert {each["key"] for each in lines} == {f"{run}:{task}:1" for run, task in begun}
    return begun.total() - len(begun)


def figures(
    cluster: Installation, load: Load, receiver: Receiver, watching: Listener, seconds: float
) -> str:
    p50, p95, p99 = (
        quantiles(load.waits, n=100, method="inclusive")[each - 1] for each in (50, 95, 99)
    )
    return (
        f"\n{len(load.runs)} runs, {load.decisions} decisions, {load.repeated} requests and"
        f" {repeated_calls(cluster)} tool calls repeated, {watching.connections} connections of the"
        f" queue's socket, {len(receiver.got)} webhooks"
        f" ({len({each.id for each in receiver.got})} distinct) in {seconds:.0f} s"
        f"\nlongest request with its repetitions {load.longest:.1f} s"
        f"\nfrom an accepted start or decision until the next pause or end was seen:"
        f" p50 {p50:.1f} s, p95 {p95:.1f} s, p99 {p99:.1f} s, longest {max(load.waits):.1f} s"
    )
