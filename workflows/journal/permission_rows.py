"""Rows and SQL of grants, and of the success counts of capabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from workflows.engine.plans.dag import AnyTask, CapabilityTask, CodeTask, Plan
from workflows.engine.policy.standing_terms import StandingTerms
from workflows.engine.protocol import events as ev
from workflows.engine.protocol.actors import Actor
from workflows.engine.values.bounded_json import digest

from .projections import Recorded

Row = dict[str, Any]

GRANTS = """, grants AS (
    INSERT INTO workflows_grant (execution_id, hold_id, task_id, workflow_id, capability_id, scope,
        subject, operation, resource, permissions, arguments, max_uses, granted_by, granted_by_id,
        why, expires_at)
    SELECT moved.id, g.hold_id, g.task_id, run.workflow_id, known.id, g.scope, g.subject,
           g.operation, g.resource, g.permissions, g.arguments, g.max_uses, g.granted_by,
           g.granted_by_id, g.why, now() + make_interval(secs => g.seconds)
      FROM moved
      JOIN workflows_execution AS run ON run.id = moved.id
     CROSS JOIN jsonb_to_recordset(%(grants)s::jsonb)
        AS g(hold_id text, task_id text, capability text, scope text, subject text, operation text,
             resource text, permissions jsonb, arguments jsonb, max_uses int, granted_by text,
             granted_by_id bigint, why text, seconds float8)
      LEFT JOIN workflows_capability AS known ON known.name = g.capability
)"""

SUCCESSES = """, successes AS (
    UPDATE workflows_capability AS known SET success_count = success_count + s.number
      FROM moved, jsonb_to_recordset(%(successes)s::jsonb) AS s(name text, number int)
     WHERE known.name = s.name
)"""


def subject_of(task: AnyTask, scope: str) -> str:
    """Return a digest of the subject of a grant.

    With the scope `capability` the subject is the capability with any inputs.  Otherwise it is the
    code or tool and its inputs in the plan, because a later task with this id may have others.
    """
    if scope == "capability":
        return digest([task.type, task.target])
    program = [task.language, task.code] if isinstance(task, CodeTask) else [task.target]
    return digest([task.type, *program, dict(task.values)])


def grant_rows(recorded: Sequence[Recorded], plan: Plan) -> list[Row]:
    """Return a row for each approved escalation and each standing answer."""
    rows = []
    for item in recorded:
        match item.event:
            case ev.HoldDecided(standing=StandingTerms() as terms):
                rows.append(_standing_row(item.event, terms, item.actor, plan))
            case ev.HoldDecided(grant=dict()):
                rows.append(_grant_row(item.event, item.actor, plan))
    return rows


def _standing_row(event: ev.HoldDecided, terms: StandingTerms, actor: Actor, plan: Plan) -> Row:
    task = plan.by_id[event.task_id or ""]
    return {
        "hold_id": event.hold_id,
        "task_id": task.id,
        "scope": "standing",
        "subject": digest([task.type, task.target]),
        "operation": "approve",
        "resource": task.target,
        "permissions": {},
        "arguments": terms.model_dump(mode="json", exclude_none=True)["arguments"],
        "max_uses": terms.max_uses,
        "granted_by": actor.name,
        "granted_by_id": actor.id,
        "why": event.comment,
        "seconds": terms.seconds,
    }


def _grant_row(event: ev.HoldDecided, actor: Actor, plan: Plan) -> Row:
    task = plan.by_id[event.task_id or ""]
    return {
        "hold_id": event.hold_id,
        "task_id": task.id,
        "capability": task.capability if isinstance(task, CapabilityTask) else None,
        "scope": event.grant_scope,
        "subject": subject_of(task, event.grant_scope or ""),
        "operation": event.operation,
        "resource": event.resource,
        "permissions": event.grant,
        "granted_by": actor.name,
        "granted_by_id": actor.id,
        "why": event.comment,
        "seconds": event.grant_seconds,
    }


def success_rows(recorded: Sequence[Recorded], plan: Plan) -> list[Row]:
    """Return how often each capability succeeded in this step."""
    tasks = [
        plan.by_id[item.event.task_id]
        for item in recorded
        if isinstance(item.event, ev.TaskSucceeded)
    ]
    names = Counter(task.capability for task in tasks if isinstance(task, CapabilityTask))
    return [{"name": name, "number": number} for name, number in sorted(names.items())]


#: Name of the parameter, SQL part of the statement, and the function that returns its rows.
PARTS: tuple[tuple[str, str, Callable[[Sequence[Recorded], Plan], list[Row]]], ...] = (
    ("grants", GRANTS, grant_rows),
    ("successes", SUCCESSES, success_rows),
)
