"""Validate a reviewer's edit against the tool's JSON Schema, before the decision is applied."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from graphrag.catalogue.tool_record import ToolRecord
from workflows.approvals.editable import locked_changes, pointer_path
from workflows.common.schemas import FieldError, schema_errors, undeclared_keys
from workflows.engine.plans import diff as plan_diff
from workflows.engine.plans.dag import CapabilityTask, ExternalActionTask, ToolTask
from workflows.engine.plans.validation import Problem, validation_problems
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.engine.values.bounded_json import BoundedJSONError, canonical, check_value
from workflows.executions.selectors import task_spec
from workflows.models import Execution, Hold
from workflows.permissions import capabilities
from workflows.permissions.capabilities import StoredCode
from workflows.planning.planner import tool_schemas
from workflows.tools.registry import argument_errors

from .masking import Masked, NotRestorable, Rules, is_marked, masked, restored, restored_part


class ReviewInvalid(Exception):
    """The decision is invalid; `errors` names each field.  The hold stays open."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(each) for each in self.errors))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The errors for the problem responses of the API."""
        return tuple(Problem(each.path, "invalid", each.message) for each in self.errors)


@dataclass(frozen=True, slots=True)
class Change:
    """The change that comes with an approval; empty unless a field is set.

    Null edits mean no edits, so `set_output_null` is how an output becomes null.
    """

    edits: Any = None
    set_output_null: bool = False

    @property
    def is_empty(self) -> bool:
        return self.edits is None and not self.set_output_null


NO_CHANGE = Change()


@dataclass(frozen=True, slots=True)
class Edit:
    """A validated change: `sent` goes to the engine, `whole` is the resulting payload.

    `warnings` lists allowed edits that may be mistakes.
    """

    sent: Change
    whole: Any
    warnings: tuple[FieldError, ...] = ()


def payload_schema(hold: Hold) -> Any:
    """Return the JSON Schema of the payload of a node review, from its tool or capability, or None.

    `hold.execution` must be loaded.  At most two queries.
    """
    return payload_schemas([hold])[hold.pk]


def payload_schemas(holds: Sequence[Hold]) -> dict[str, Any]:
    """Map hold ids to `payload_schema`; the number of queries depends on the number of runs."""
    tasks = {
        hold.pk: (hold, task_spec(hold.execution, hold.task_id))
        for hold in holds
        if hold.task_id and hold.reason == HoldReason.NODE_REVIEW
    }
    tools = [task.tool for _, task in tasks.values() if isinstance(task, ToolTask)]
    codes = [task.capability for _, task in tasks.values() if isinstance(task, CapabilityTask)]
    known_tools = tool_schemas(tools) if tools else {}
    known_codes = capabilities.load(codes)
    schemas: dict[str, Any] = dict.fromkeys(hold.pk for hold in holds)
    for hold, task in tasks.values():
        known: StoredCode | ToolRecord | None = None
        if isinstance(task, ExternalActionTask):
            is_before = hold.phase == TriggerPhase.BEFORE_EXECUTION
            schemas[hold.pk] = task.argument_schema if is_before else None
        elif isinstance(task, ToolTask):
            known = known_tools.get(task.tool)
        elif isinstance(task, CapabilityTask):
            known = known_codes.get(task.capability)
        if known is not None:
            before = hold.phase == TriggerPhase.BEFORE_EXECUTION
            schemas[hold.pk] = known.input_schema if before else known.output_schema
    return schemas


def schema_of(target: str, phase: str) -> Any:
    """Return the input (BEFORE_EXECUTION) or output schema of a tool or capability, or None."""
    known: Any = tool_schemas([target]).get(target) or capabilities.load([target]).get(target)
    if known is None or not phase:
        return None
    return known.input_schema if phase == TriggerPhase.BEFORE_EXECUTION else known.output_schema


def inputs_schema(execution: Execution) -> dict[str, Any]:
    """Return the schema of the inputs of the run's workflow; {} for a run without one."""
    return execution.workflow.inputs_schema if execution.workflow else {}


def checked_edit(hold: Hold, change: Change, schema: Any) -> Edit | None:
    """Return the validated edit, or None if the payload does not change.

    Edits are an object merged into the inputs (BEFORE_EXECUTION), the whole new output
    (AFTER_EXECUTION), or `{"drop": [ids of added tasks]}` for a plan review, which also drops their
    dependents.

    Raises:
        ReviewInvalid: with paths below "edits", or at "set_output_null".
    """
    edits = change.edits
    if change.set_output_null:
        return _checked_null(hold, edits, schema)
    if edits is None:
        return None
    if hold.reason == HoldReason.REPLAN_REVIEW:
        return _checked_drop(hold, edits)
    if hold.reason != HoldReason.NODE_REVIEW:
        raise ReviewInvalid([FieldError("edits", "only node and plan reviews take edits")])
    try:
        check_value(edits)
    except BoundedJSONError as error:
        raise ReviewInvalid([FieldError(below("edits", error.path), error.message)]) from None
    edits, whole = _with_true_values(hold, edits, schema)
    if canonical(whole) == canonical(hold.payload):
        return None
    errors = (
        _locked_values(hold, whole) or schema_errors(schema, whole) or _tool_errors(hold, whole)
    )
    if errors:
        raise ReviewInvalid(FieldError(below("edits", each.path), each.message) for each in errors)
    warnings = edit_warnings(schema, hold.payload, whole)
    return Edit(sent=Change(edits), whole=whole, warnings=warnings)


def check_filled_in(hold: Hold) -> None:
    """Raise ReviewInvalid if people have to fill in arguments of an action and have not done so.

    Only the input that an MCP server asks for is shown incomplete; it has no workflow.
    """
    is_node = hold.reason == HoldReason.NODE_REVIEW and hold.phase == TriggerPhase.BEFORE_EXECUTION
    if hold.execution.workflow_id is not None or not is_node:
        return
    task = task_spec(hold.execution, hold.task_id)
    if isinstance(task, ExternalActionTask) and task.argument_schema:
        errors = schema_errors(task.argument_schema, hold.payload)
        if errors:
            raise ReviewInvalid(
                FieldError(below("edits", each.path), each.message) for each in errors
            )


def edit_warnings(schema: Any, before: Any, after: Any) -> tuple[FieldError, ...]:
    """Return a warning for each added key that the tool's schema does not declare."""
    return tuple(
        FieldError(below("edits", path), "is not named by the tool's schema")
        for path in undeclared_keys(schema, before, after)
    )


def _checked_null(hold: Hold, edits: Any, schema: Any) -> Edit | None:
    """Return the edit that sets the output of a task to null."""
    if edits is not None:
        raise _null_refused("cannot be given together with edits")
    if hold.reason != HoldReason.NODE_REVIEW or hold.phase != TriggerPhase.AFTER_EXECUTION:
        raise _null_refused("only the output of a task can be set to null")
    if hold.payload is None:
        return None
    if errors := schema_errors(schema, None):
        raise _null_refused(errors[0].message)
    return Edit(sent=Change(set_output_null=True), whole=None)


def _null_refused(message: str) -> ReviewInvalid:
    return ReviewInvalid([FieldError("set_output_null", message)])


def secret_rules(execution: Execution, schema: Any) -> Rules:
    """Return the masking rules for a value of the run with this JSON Schema."""
    return Rules(schema, tuple(execution.policy.get("secrets", ())))


def shown_payload(hold: Hold, schema: Any) -> Masked:
    """Return the masked payload; `schema` is `payload_schema(hold)`."""
    return masked(hold.payload, secret_rules(hold.execution, schema))


def _with_true_values(hold: Hold, edits: Any, schema: Any) -> tuple[Any, Any]:
    """Return the edits and the resulting payload, with marks replaced by the masked values.

    An edit without marks is taken literally: a client that knows the values may send them.
    """
    whole = _laid_over(hold, edits, hold.payload)
    if not is_marked(json.dumps(edits, ensure_ascii=False)):
        return edits, whole
    view = shown_payload(hold, schema)
    try:
        restored(_laid_over(hold, edits, view.value), view)
        true = restored_part(edits, view)
    except NotRestorable as problem:
        raise ReviewInvalid([FieldError(below("edits", problem.path), problem.message)]) from None
    return true, _laid_over(hold, true, hold.payload)


def _locked_values(hold: Hold, whole: Any) -> list[FieldError]:
    """Return an error for each changed value that an external action does not let people edit."""
    task = task_spec(hold.execution, hold.task_id) if hold.execution_id else None
    if not isinstance(task, ExternalActionTask):
        return []
    return [
        FieldError(pointer_path(each), "cannot be edited: the agent does not allow it")
        for each in locked_changes(task.editable, hold.payload, whole)
    ]


def _tool_errors(hold: Hold, whole: Any) -> tuple[FieldError, ...]:
    """Errors of the tool's own argument check, which a schema cannot express."""
    if hold.phase != TriggerPhase.BEFORE_EXECUTION:
        return ()
    return argument_errors(hold.target, whole)


def _checked_drop(hold: Hold, edits: Any) -> Edit | None:
    try:
        wanted = plan_diff.Drop.model_validate(edits).drop
    except ValidationError as error:
        problems = validation_problems(error, "edits")
        raise ReviewInvalid(FieldError(each.path, each.message) for each in problems) from None
    payload: dict[str, Any] = hold.payload or {}
    change = plan_diff.change_in_payload(payload)
    known = {task.id for task in change.added}
    unknown = [
        FieldError(f"edits.drop[{index}]", f"the change adds no task {name!r}")
        for index, name in enumerate(wanted)
        if name not in known
    ]
    if unknown:
        raise ReviewInvalid(unknown)
    dropped_ids = plan_diff.with_dependents(change, wanted)
    if not dropped_ids:
        return None
    if plan_diff.without_tasks(change, dropped_ids).is_empty:
        message = "nothing of the change would be left; reject it instead"
        raise ReviewInvalid([FieldError("edits.drop", message)])
    dropped = Change({"drop": sorted(wanted)})
    return Edit(sent=dropped, whole=plan_diff.payload_without(payload, dropped_ids))


def _laid_over(hold: Hold, edits: Any, payload: Any) -> Any:
    if hold.phase != TriggerPhase.BEFORE_EXECUTION:
        return edits
    if not isinstance(edits, dict):
        message = "must be an object whose keys are laid over the task's inputs"
        raise ReviewInvalid([FieldError("edits", message)])
    return {**_arguments(payload), **edits}


def _arguments(payload: Any) -> dict[str, Any]:
    """Return the payload of a BEFORE_EXECUTION hold: the task's inputs, always an object."""
    return payload if isinstance(payload, dict) else {}


def change_to(hold: Hold, value: Any, shown: Any) -> Change:
    """Return the change that turns the payload into `value`.

    `shown` is the payload that the person saw, `value` the edited payload, both with marks.

    Raises:
        ReviewInvalid: an argument was removed, which no change can express.
    """
    if canonical(value) == canonical(shown):
        return NO_CHANGE
    if hold.phase != TriggerPhase.BEFORE_EXECUTION:
        return Change(set_output_null=True) if value is None else Change(value)
    if not isinstance(value, dict):
        raise ReviewInvalid([FieldError("edits", "must be an object: the task's arguments")])
    before = _arguments(shown)
    removed = [key for key in before if key not in value]
    if removed:
        message = "cannot be taken away; change its value instead"
        raise ReviewInvalid(FieldError(f"edits.{key}", message) for key in removed)
    return Change(
        {
            key: item
            for key, item in value.items()
            if key not in before or canonical(item) != canonical(before[key])
        }
    )


def below(prefix: str, path: str) -> str:
    """Return `path` below `prefix`: `edits.items[0]`."""
    if not path:
        return prefix
    return f"{prefix}{path}" if path.startswith("[") else f"{prefix}.{path}"
