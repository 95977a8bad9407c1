"""Response of `GET reviews/pending/{id}/`: open holds, tasks, messages and decisions of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reviews.audit.reveals import hold_place, task_views
from reviews.models import HumanReviewRecord
from reviews.queue.selectors import pending_of
from workflows.common.redaction import mask_secrets
from workflows.executions.access import visible_to
from workflows.executions.selectors import TaskView, messages_of, tasks_of
from workflows.models import Execution, Hold

from .conflicts import decided
from .edits import inputs_schema, payload_schemas, secret_rules, shown_payload
from .masking import Masked, masked
from .rights import (
    cannot_be_approved,
    four_eyes,
    group_names,
    right_of,
    ways_of_each,
    with_delegation,
)
from .services import HoldNotFound

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """The values that ContextSerializer renders."""

    execution_id: int
    title: str
    workflow: str | None
    status: str
    version: int
    layer: int
    total_layers: int
    inputs: Any
    context: Any
    created_by: str | None
    created_at: Any
    policy_overrides: list[dict[str, Any]]
    holds: list[Hold]
    tasks: list[Any]
    messages: list[dict[str, Any]]
    decisions: list[dict[str, Any]]


def review_context(user: User, execution_id: int) -> ReviewContext:
    """Return the context of an execution's open holds; raises HoldNotFound if it is not visible."""
    visible = visible_to(user).select_related("workflow", "created_by")
    execution = visible.filter(pk=execution_id).first()
    if execution is None:
        raise HoldNotFound
    rules = secret_rules(execution, None)
    return ReviewContext(
        execution_id=execution.pk,
        title=execution.title,
        workflow=execution.workflow.name if execution.workflow else None,
        status=execution.status,
        version=execution.version,
        layer=execution.layer,
        total_layers=execution.total_layers,
        inputs=masked(execution.inputs, secret_rules(execution, inputs_schema(execution))).value,
        context=masked(execution.context, rules).value,
        created_by=execution.created_by.get_username() if execution.created_by else None,
        created_at=execution.created_at,
        policy_overrides=shown_overrides(execution),
        holds=_holds(user, execution_id),
        tasks=_tasks(execution),
        messages=[_message(each) for each in messages_of(execution)],
        decisions=_decisions(execution),
    )


def _holds(user: User, execution_id: int) -> list[Hold]:
    """Return the open holds, each with its `schema` and the user's `right`."""
    groups = group_names(user)
    holds = pending_of(user, execution_id)
    shaped, lost = ways_of_each(user, holds), cannot_be_approved(holds)
    schemas = payload_schemas(holds)
    for hold in holds:
        own = right_of(
            user,
            hold,
            groups=groups,
            shaped=shaped[hold.pk],
            four_eyes=four_eyes(hold.execution),
        )
        right = with_delegation(user, hold, own)
        hold.schema = schemas[hold.pk]  # type: ignore[attr-defined]
        view = shown_payload(hold, hold.schema)  # type: ignore[attr-defined]
        hold.payload = view.value
        hold.masked = masks_of(view, hold_place(hold))  # type: ignore[attr-defined]
        hold.right = right  # type: ignore[attr-defined]
        hold.cannot_be_approved = hold.pk in lost  # type: ignore[attr-defined]
    return holds


def _tasks(execution: Execution) -> list[TaskView]:
    tasks = tasks_of(execution)
    views = task_views(execution, tasks)
    return [
        replace(
            task,
            inputs=views[task.id, "inputs"].value,
            output=views[task.id, "output"].value,
            error=mask_secrets(task.error),
        )
        for task in tasks
    ]


def masks_of(view: Masked, place: str) -> list[dict[str, Any]]:
    """Return the marks in a value, as `POST reviews/reveal/` accepts them."""
    return [
        {"place": place, "number": each.number, "paths": list(each.paths)} for each in view.secrets
    ]


def shown_overrides(execution: Execution) -> list[dict[str, Any]]:
    """Return the masked policy overrides of the user who started the run."""
    rules = secret_rules(execution, None)

    def shown(row: dict[str, Any], key: str) -> Any:
        name = row["field"].rpartition(".")[2]
        return masked({name: row[key]}, rules).value[name]

    return [
        {**row, "from": shown(row, "from"), "to": shown(row, "to")}
        for row in execution.policy_overrides
    ]


def _message(message: dict[str, Any]) -> dict[str, Any]:
    content = str(message["content"])
    return {**message, "content": content, "created_at": message["created_at"].isoformat()}


def _decisions(execution: Execution) -> list[dict[str, Any]]:
    records = HumanReviewRecord.objects.filter(execution=execution).with_keys().order_by("id")
    return [
        {
            "hold_id": each.hold_id,
            "node_id": each.node_id,
            "record_id": str(each.pk),
            **decided(each),
        }
        for each in records
    ]
