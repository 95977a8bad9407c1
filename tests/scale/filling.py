"""A database as it looks after years: executions, holds, records, events by the hundred thousand.

Rows are made inside PostgreSQL, with the triggers of the session at rest.  Some
executions wait for a person, all over the years; the others were decided, and each decision has its
record.  The hash chain is made of numbers: nothing here verifies it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection

from workflows.models import Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Name → groups.  `legal` is a small group, `retired` one that was closed years ago; `lead` started
#: half of what waits for reviewers, and may not approve it.
PEOPLE: Final = {
    "reviewer": ("reviewer",),
    "reviewer2": ("reviewer",),
    "lawyer": ("legal",),
    "pensioner": ("retired",),
    "admin": ("admin",),
    "auditor": ("auditor",),
    "operator": ("operator",),
    "lead": ("reviewer", "operator"),
    "integrator": ("integrator",),
    "guest": (),
}
_TABLES: Final = (
    "workflows_execution", "workflows_hold", "workflows_executionevent", "workflows_planrevision",
    "reviews_humanreviewrecord", "reviews_reviewclaim", "reviews_claimstart",
    "workflows_audience", "workflows_waiting", "workflows_executionwords", "reviews_recordwords",
)  # fmt: skip

_EXECUTIONS = """
INSERT INTO workflows_execution (id, title, workflow_id, status, version, revision, layer,
    total_layers, state, inputs, context, policy, error, created_by_id, created_at, updated_at,
    finished_at, dispatched_at)
SELECT n, CASE n %% 3 WHEN 0 THEN 'Release notes' WHEN 1 THEN 'Invoices' ELSE 'Handbook' END
          || CASE WHEN n %% 5000 = 0 THEN ' zeppelin' ELSE '' END,
       CASE n %% 3 WHEN 0 THEN %(first)s WHEN 1 THEN %(second)s ELSE %(third)s END,
       CASE WHEN n %% %(waits)s = 0 THEN 'PAUSED_FOR_REVIEW' WHEN n %% 17 = 0 THEN 'FAILED'
            ELSE 'COMPLETED' END,
       12, 1, 2, 3, '{"layer": 2}', jsonb_build_object('number', n), '{}',
       '{"four_eyes": true}', '',
       CASE WHEN n %% 50 = 3 OR n %% 1000 = 500 THEN %(integrator)s
            WHEN n %% 20 = 1 THEN %(reviewer)s WHEN n %% 200 = 0 THEN %(lead)s
            ELSE %(operator)s END,
       at, at + interval '90 seconds',
       CASE WHEN n %% %(waits)s = 0 THEN NULL ELSE at + interval '90 seconds' END, at
  FROM (SELECT n, now() - (%(count)s - n) * interval '10 seconds' - interval '1 hour' AS at
          FROM generate_series(1, %(count)s) AS n) AS made
"""

_HOLDS = """
INSERT INTO workflows_hold (id, execution_id, task_id, reason, decider, phase, status, layer,
    payload, groups, target, why, instructions, critical, quorum, approvals, on_reject, on_timeout,
    opened_seq, opened_at, expires_at, decided_at, decided_by, decision)
SELECT id || '-1', id, CASE id %% 4 WHEN 0 THEN 'publish' ELSE 'draft' END,
       CASE id %% 7 WHEN 0 THEN 'escalation' ELSE 'node_review' END, 'human',
       CASE id %% 2 WHEN 0 THEN 'BEFORE_EXECUTION' ELSE 'AFTER_EXECUTION' END,
       CASE WHEN status = 'PAUSED_FOR_REVIEW' THEN 'OPEN' WHEN id %% 9 = 0 THEN 'REJECTED'
            ELSE 'APPROVED' END, 1,
       jsonb_build_object('path', 'docs/' || id || '.md', 'content',
           repeat('what is to be decided ', 10)),
       CASE WHEN id <= %(count)s / 10 AND id %% 2 = 0 THEN '{retired}'::varchar[]
            WHEN id %% 1000 = 700 THEN '{legal}'
            WHEN id %% 10 = 3 THEN '{admin}' ELSE '{reviewer}' END,
       CASE id %% 3 WHEN 0 THEN 'builtin.write_file' ELSE 'builtin.echo' END,
       'task asks for review before it runs', '', id %% 5 = 0, 1, '{}', 'abort', 'keep_waiting', 9,
       created_at + interval '1 second',
       CASE WHEN id %% 400 = 0 THEN now() + interval '1 day' END,
       finished_at, CASE WHEN finished_at IS NULL THEN '' ELSE 'reviewer' END,
       CASE WHEN finished_at IS NULL THEN '' WHEN id %% 9 = 0 THEN 'REJECT' ELSE 'APPROVE' END
  FROM workflows_execution
"""

_RECORDS = """
INSERT INTO reviews_humanreviewrecord (id, execution_id, hold_id, node_id, workflow_title, reason,
    trigger_phase, target, reviewer_id, actor, source, decision, original_data, modified_data,
    is_edited, change_count, comment, version, waited_seconds, reviewed_at, shown_digest,
    decided_digest, canonical, previous_hash, hash)
SELECT hold.execution_id, hold.execution_id, hold.id, hold.task_id, run.title, hold.reason,
       hold.phase, hold.target, person.id, coalesce(person.username, 'system'),
       CASE WHEN run.id %% 40 = 5 THEN 'bulk' ELSE 'web' END, hold.decision, hold.payload,
       CASE WHEN run.id %% 12 = 6 THEN hold.payload || '{"path": "docs/other.md"}' END,
       run.id %% 12 = 6, CASE WHEN run.id %% 12 = 6 THEN 1 ELSE 0 END,
       CASE WHEN run.id %% 30000 = 1 THEN 'because of Zoe' WHEN run.id %% 9 = 0 THEN 'wrong tone'
            ELSE '' END,
       10, run.id %% 997, hold.decided_at, md5(run.id::text), md5(run.id::text), '{}',
       md5((run.id - 1)::text), md5('record' || run.id::text)
  FROM workflows_hold AS hold
  JOIN workflows_execution AS run ON run.id = hold.execution_id
  LEFT JOIN auth_user AS person ON person.username = CASE
       WHEN run.id %% 25 = 8 THEN NULL WHEN run.id %% 3 = 1 THEN 'reviewer2'
       WHEN run.id %% 10000 = 9 THEN 'lawyer' ELSE 'reviewer' END
 WHERE hold.status <> 'OPEN'
 ORDER BY hold.execution_id
"""

_EVENTS = """
INSERT INTO workflows_executionevent (execution_id, seq, kind, payload, actor, source, created_at)
SELECT id, seq, CASE seq WHEN 9 THEN 'hold_opened' ELSE 'hold_decided' END,
       '{"hold_id": "x", "reason": "node_review", "decider": "human"}', '', '',
       created_at + seq * interval '5 seconds'
  FROM workflows_execution, generate_series(9, 10) AS seq
 WHERE status <> 'PAUSED_FOR_REVIEW' OR seq = 9
 ORDER BY id
"""

_CLAIMS = """
INSERT INTO reviews_reviewclaim (hold_id, user_id, claimed_at, expires_at)
SELECT id, CASE WHEN execution_id %% 3 = 0 THEN %(reviewer)s ELSE %(reviewer2)s END, now(),
       now() + CASE WHEN execution_id %% 7 = 0 THEN -interval '1 hour' ELSE interval '1 day' END
  FROM workflows_hold WHERE status = 'OPEN' AND execution_id %% 1000 IN (300, 600)
"""

_CLAIM_STARTS = """
INSERT INTO reviews_claimstart (hold_id, claimed_at, after_seconds)
SELECT id, opened_at + interval '20 seconds', 20 + execution_id %% 60
  FROM workflows_hold WHERE status <> 'OPEN'
"""

# What the journal and the triggers would have written.
_EXECUTION_WORDS = """
INSERT INTO workflows_executionwords (execution_id, words)
SELECT id, to_tsvector('simple', translate(title, '._-/:', '     ')) FROM workflows_execution
"""
_AUDIENCE = """
INSERT INTO workflows_audience (execution_id, member)
SELECT id, 'user:' || created_by_id FROM workflows_execution
UNION ALL
SELECT execution_id, 'group:' || name FROM workflows_hold, unnest(groups) AS name
"""
_WAITING = """
INSERT INTO workflows_waiting (hold_id, execution_id, "group", words)
SELECT hold.id, execution_id, name, to_tsvector('simple', translate(
           concat_ws(' ', title, task_id, target, why), '._-/:', '     '))
  FROM workflows_hold AS hold JOIN workflows_execution AS run ON run.id = execution_id,
       unnest(groups) AS name
 WHERE hold.status = 'OPEN'
"""
_RECORD_WORDS = """
INSERT INTO reviews_recordwords (record_id, words)
SELECT id, to_tsvector('simple', translate(concat_ws(' ', node_id, target, comment,
       workflow_title, actor), '._-/:', '     '))
  FROM reviews_humanreviewrecord
"""

_STEPS: Final = {
    "executions": _EXECUTIONS,
    "words of executions": _EXECUTION_WORDS,
    "holds": _HOLDS,
    "audience": _AUDIENCE,
    "waiting": _WAITING,
    "records": _RECORDS,
    "words of records": _RECORD_WORDS,
    "events": _EVENTS,
    "claims": _CLAIMS,
    "claim starts": _CLAIM_STARTS,
}


@dataclass(frozen=True, slots=True)
class Filled:
    """What was made, and how many seconds each part took."""

    count: int
    #: How many holds are open.
    waiting: int
    people: dict[str, User]
    seconds: dict[str, float]


def fill(count: int, *, waits: int, planned_as: int) -> Filled:
    """Make `count` executions with what belongs to them; the tables are empty before.

    One execution in `waits`, a divisor of 100, waits for somebody.  PostgreSQL plans as if there
    were `planned_as` executions, and as many more of everything else.
    """
    people = _people()
    workflows = [_workflow(name) for name in ("release-notes-x", "invoices", "handbook")]
    names = {
        "count": count,
        "waits": waits,
        **dict(zip(("first", "second", "third"), (each.pk for each in workflows), strict=True)),
        **{name: person.pk for name, person in people.items()},
    }
    seconds = {}
    for part, statement in _STEPS.items():
        seconds[part] = _timed(statement, names)
    seconds["sequences"] = _timed(_SEQUENCES, {})
    seconds["statistics"] = _analyzed(planned_as / count)
    return Filled(count, count // waits, people, seconds)


_SEQUENCES = """
SELECT setval(pg_get_serial_sequence('workflows_execution', 'id'), max(id))
  FROM workflows_execution
"""


def _timed(statement: str, names: dict[str, int]) -> float:
    begun = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        try:
            cursor.execute(statement, names)
        finally:
            cursor.execute("SET session_replication_role = origin")
    return time.perf_counter() - begun


def _analyzed(times: float) -> float:
    """As autovacuum would leave the tables, with so many `times` the rows they have."""
    begun = time.perf_counter()
    with connection.cursor() as cursor:
        _autovacuum(cursor, "off")
        cursor.execute(f"VACUUM ANALYZE {', '.join(_TABLES)}")
        # Rows per page times pages is how PostgreSQL knows the size of a table.
        cursor.execute(
            "UPDATE pg_class SET reltuples = reltuples * %s WHERE oid = ANY(%s::regclass[]) "
            "OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = ANY(%s::regclass[]))",
            [times, list(_TABLES), list(_TABLES)],
        )
    return time.perf_counter() - begun


def _autovacuum(cursor: Any, state: str) -> None:
    """Switched off, it leaves the statistics as they are while the tests read."""
    for table in _TABLES:
        cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = {state})")


def empty() -> None:
    """Take all of it away again, people and workflows included."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(f"TRUNCATE {', '.join(_TABLES)} CASCADE")
        cursor.execute("SET session_replication_role = origin")
        _autovacuum(cursor, "on")
    Workflow.objects.filter(name__in=("release-notes-x", "invoices", "handbook")).delete()
    get_user_model().objects.filter(username__in=PEOPLE).delete()


def _people() -> dict[str, User]:
    people = {}
    for name, groups in PEOPLE.items():
        person = get_user_model().objects.create_user(name)
        person.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
        people[name] = person
    return people


def _workflow(name: str) -> Workflow:
    return Workflow.objects.create(name=name, title=name.title(), plan={"tasks": []})
