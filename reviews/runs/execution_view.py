"""Mask the body of an execution for `/api/v1/executions/`, or reveal and record its secrets.

Configured in settings (`HOLDPOINT["execution_view"]`, `["context_view"]`), because the API of
executions is in an app below this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.db import transaction

from reviews.audit.reveals import (
    REVEAL_DENIED,
    Token,
    execution_place,
    hold_place,
    may_reveal,
    record_reveal,
    task_place,
    task_rules,
)
from reviews.decisions.edits import inputs_schema, secret_rules
from reviews.decisions.masking import Masked, Rules, masked
from reviews.decisions.rights import NotAllowed, fresh_user
from workflows.common.redaction import mask_secrets
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.engine.values.reasons import Reason
from workflows.executions.selectors import TaskView
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: A payload in the body: the containing object, its key, the masked value and its place.
_Part = tuple[dict[str, Any], str, Masked, str]
_SIDES = (("inputs", "inputs"), ("output", "output"), ("original_output", "output"))


def shown_execution(*, execution: Execution, body: dict[str, Any]) -> dict[str, Any]:
    """Return `body` with its secrets masked.

    `masked` lists the marks as `POST reviews/reveal/` accepts them.  `execution.task_views` and
    `execution.all_holds` must be the objects that the body was built from.
    """
    marks = []
    for holder, key, view, place in _parts(execution, body):
        holder[key] = view.value
        marks += [
            {"place": place, "number": each.number, "paths": list(each.paths)}
            for each in view.secrets
            if key != "original_output"
        ]
    _mask_texts(body)
    return {**body, "masked": marks}


def revealed_execution(
    *, execution: Execution, body: dict[str, Any], user: User, token: Token | None
) -> dict[str, Any]:
    """Return `body` unmasked, and record each secret in it as revealed to `user`.

    Secrets in errors and logs have no place to record, and stay masked.
    Raises NotAllowed if the user cannot reveal masked values.
    """
    with transaction.atomic():
        person = fresh_user(user)
        if token is not None and "decide" not in token.scopes:
            raise NotAllowed(Reason("scope_missing", {"scope": "decide"}), "scope")
        if not may_reveal(person, execution):
            raise NotAllowed(REVEAL_DENIED, "not_in_group")
        for _, _, view, place in _parts(execution, body):
            for secret in view.secrets:
                record_reveal(
                    execution=execution, person=person, source="rest", place=place, secret=secret
                )
    _mask_texts(body)
    return {**body, "masked": []}


def shown_context(*, execution: Execution, context: Any) -> Any:
    """Return a checkpoint's context with its secrets masked."""
    return masked(context, secret_rules(execution, None)).value


def _mask_texts(body: dict[str, Any]) -> None:
    """Mask secrets in errors and logs, which cannot be revealed."""
    body["error"] = mask_secrets(body["error"])
    for task in body["tasks"]:
        for holder in (task, *task["tries"]):
            holder["error"] = mask_secrets(holder["error"])
        task["logs"] = mask_secrets(task["logs"])


def _parts(execution: Execution, body: dict[str, Any]) -> Iterator[_Part]:
    """Yield every payload of the body."""
    of_inputs = secret_rules(execution, inputs_schema(execution))
    of_context = secret_rules(execution, None)
    for key, rules in (("inputs", of_inputs), ("context", of_context)):
        yield body, key, masked(body[key], rules), execution_place(execution.pk, key)
    views: list[TaskView] = execution.task_views  # type: ignore[attr-defined]
    holds: list[Hold] = execution.all_holds  # type: ignore[attr-defined]
    # A task without values needs no schema of its tool.
    tasks = [task for task in body["tasks"] if any(task[key] is not None for key, _ in _SIDES)]
    needed = {task["id"] for task in tasks} | {hold.task_id for hold in holds}
    known = task_rules(execution, (view for view in views if view.id in needed))
    for task in tasks:
        before: Masked | None = None
        for key, side in _SIDES:
            view = masked(task[key], known[task["id"], side], after=before)
            before = view if key == "output" else None
            yield task, key, view, task_place(execution.pk, task["id"], side)
    for hold, row in zip(holds, body["holds"], strict=True):
        rules = _hold_rules(hold, known) or of_context
        yield row, "payload", masked(row["payload"], rules), hold_place(hold)


def _hold_rules(hold: Hold, known: Mapping[tuple[str, str], Rules]) -> Rules | None:
    """Return the rules of the task's inputs or output, which a node review shows."""
    if hold.reason != HoldReason.NODE_REVIEW:
        return None
    before = hold.phase == TriggerPhase.BEFORE_EXECUTION
    return known.get((hold.task_id, "inputs" if before else "output"))
