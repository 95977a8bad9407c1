"""The queue over REST: the newest fifty that wait, among a hundred thousand executions."""

from __future__ import annotations

import time

from django.db import connection
from django.test import Client

from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench, reviewer
from workflows.permissions import tokens

EXECUTIONS, WAITING, PAGE = 100_000, 1_000, 50

#: Each execution has been through one hold; every hundredth still waits.
FILL = """
WITH made AS (
    INSERT INTO workflows_execution (title, status, version, revision, layer, total_layers, state,
        inputs, context, policy, error, created_at, updated_at)
    SELECT 'Run ' || n, CASE WHEN n %% %(every)s = 0 THEN 'PAUSED_FOR_REVIEW' ELSE 'COMPLETED' END,
           12, 1, 2, 3, '{}', '{"number": 1}', '{}', '{"four_eyes": true}', '',
           now() - n * interval '1 second', now() - n * interval '1 second'
      FROM generate_series(1, %(count)s) AS n
    RETURNING id, status, created_at
)
INSERT INTO workflows_hold (id, execution_id, task_id, reason, decider, phase, status, layer,
    payload, groups, target, why, instructions, critical, quorum, approvals, on_reject, on_timeout,
    opened_seq, opened_at, decided_by, decision)
SELECT id || '-1', id, 'publish', 'node_review', 'human', 'BEFORE_EXECUTION',
       CASE status WHEN 'COMPLETED' THEN 'APPROVED' ELSE 'OPEN' END, 1,
       jsonb_build_object('text', repeat('what is to be decided ', 40)), '{reviewer}',
       'builtin.echo', 'task publish asks for review before it runs', '', false, 1, '{}', 'abort',
       'keep_waiting', 9, created_at, '', ''
  FROM made
"""


def measure(bench: Bench) -> list[Figure]:
    count = EXECUTIONS if not bench.quick else EXECUTIONS // 10
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"count": count, "every": count // WAITING})
        cursor.execute("ANALYZE workflows_execution, workflows_hold")
    client = _client()
    times, empty = [], []
    for turn in range(bench.rounds(60, 15) + 5):
        listed, nothing = _asked(client, "me", PAGE), _asked(client, "claimed", 0)
        if turn >= 5:
            times.append(listed)
            empty.append(nothing)
    name = f"queue of 50 among {count:,}, REST"
    return [
        Figure(name, middle(times), "ms", len(times), target=10),
        Figure(name, middle(times), "ms", len(times), middle(empty), "an empty list"),
    ]


def _asked(client: Client, tab: str, rows: int) -> float:
    """Milliseconds of one answer with so many rows."""
    begun = time.perf_counter()
    answer = client.get("/api/v1/reviews/pending/", {"tab": tab})
    took = (time.perf_counter() - begun) * 1000
    assert (answer.status_code, len(answer.json()["results"])) == (200, rows)
    return took


def _client() -> Client:
    _, bearer = tokens.create_token(user=reviewer(), name="bench", scopes=["read"])
    return Client(headers={"authorization": f"Bearer {bearer}"})
