"""Reveal masked values to people with permission, and record each reveal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from django.db import transaction
from django.db.models import QuerySet

from reviews.decisions.edits import (
    inputs_schema,
    payload_schema,
    schema_of,
    secret_rules,
    shown_payload,
)
from reviews.decisions.masking import Masked, Rules, Secret, masked
from reviews.decisions.rights import NotAllowed, deciding_groups, fresh_user, group_names
from reviews.models import HumanReviewRecord, SecretReveal
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.values.reasons import Reason
from workflows.executions.access import AUDITOR, visible_to, with_erased
from workflows.executions.selectors import TaskView, tasks_of
from workflows.models import Execution, Hold, SecurityEvent
from workflows.permissions import capabilities
from workflows.planning.planner import tool_schemas
from workflows.security_events.services import record_security_event

from .history import executed

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The data of a task, as TaskView names it.
SIDES = ("inputs", "output")
COLUMNS = ("original", "edited", "executed")
REVEAL_DENIED = Reason("may_not_reveal")


class MaskedValueNotFound(Exception):
    """The masked value does not exist, or its run is not visible to the person."""


class Token(Protocol):
    """The attributes of a bearer token that a reveal checks."""

    @property
    def scopes(self) -> Collection[str]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """The location of masked values on a page.

    `hold` is None for the inputs or output of a task: then all holds of the run grant access.
    """

    name: str
    execution: Execution
    hold: Hold | None
    view: Masked


def reveal(
    *, place: str, number: int, user: User, source: str, token: Token | None = None
) -> Secret:
    """Record the reveal of a value at `place` to `user`, then return the value.

    Raises MaskedValueNotFound, or NotAllowed with the reason.
    """
    with transaction.atomic():
        person = fresh_user(user)
        found = find_place(person, place)
        secret = found.view.secret(number)
        if secret is None:
            raise MaskedValueNotFound
        if token is not None and "decide" not in token.scopes:
            raise NotAllowed(Reason("scope_missing", {"scope": "decide"}), "scope")
        if not may_reveal(person, found.execution, found.hold):
            raise NotAllowed(REVEAL_DENIED, "not_in_group")
        record_reveal(
            execution=found.execution,
            hold=found.hold,
            person=person,
            source=source,
            place=found.name,
            secret=secret,
        )
        return secret


def record_reveal(
    *,
    execution: Execution,
    person: User,
    source: str,
    place: str,
    secret: Secret,
    hold: Hold | None = None,
) -> None:
    """Record that a person was shown a secret, also as a security event; never its value."""
    reveal = SecretReveal.objects.create(
        execution=execution,
        hold=hold,
        user=person,
        actor=person.get_username(),
        source=source,
        place=place,
        path=", ".join(each or "the whole value" for each in secret.paths),
    )
    record_security_event(
        kind=SecurityEvent.Kind.REVEALED,
        actor=person,
        subject=place,
        details={
            "execution": execution.pk,
            "hold": hold.pk if hold is not None else None,
            "path": reveal.path,
            "source": source,
        },
    )


def may_reveal(user: User, execution: Execution, hold: Hold | None = None) -> bool:
    """Return whether the user is an auditor or can decide the hold (or any hold of the run)."""
    groups = group_names(user)
    if not user.is_active:
        return False
    if AUDITOR in groups:
        return True
    if hold is not None:
        return hold.decider == "human" and bool(deciding_groups(hold.groups, groups))
    holds = Hold.objects.filter(execution=execution, decider="human")
    return any(deciding_groups(wanted, groups) for wanted in holds.values_list("groups", flat=True))


def reveals(user: User) -> QuerySet[SecretReveal]:
    """Return the reveals of executions visible to the user, newest first."""
    rows = SecretReveal.objects.filter(execution__in=with_erased(user))
    return rows.select_related("execution", "hold").order_by("-id")


# --- places ---------------------------------------------------------------------------------------


def hold_place(hold: Hold) -> str:
    """Return the place name of a hold's payload."""
    return f"hold:{hold.id}"


def task_place(execution_id: int, task_id: str, side: str) -> str:
    """Return the place name of a task's `inputs` or `output`."""
    return f"task:{execution_id}:{task_id}:{side}"


def execution_place(execution_id: int, part: str) -> str:
    """Return the place name of a run's `inputs` or `context`."""
    return f"execution:{execution_id}:{part}"


def record_place(record_id: int, column: str) -> str:
    """Return the place name of a column of a record; see COLUMNS."""
    return f"record:{record_id}:{column}"


def find_place(user: User, name: str) -> Place:
    """Return the place with this name; raises MaskedValueNotFound if its run is not visible."""
    kind, _, rest = name.replace("\0", "").partition(":")
    finders = {
        "hold": _in_hold,
        "task": _in_task,
        "record": _in_record,
        "execution": _in_execution,
    }
    found = finders[kind](user, rest) if kind in finders else None
    if found is None:
        raise MaskedValueNotFound
    return found


def _in_hold(user: User, hold_id: str) -> Place | None:
    rows = Hold.objects.select_related("execution__workflow")
    hold = rows.filter(pk=hold_id, execution__in=visible_to(user)).first()
    if hold is None:
        return None
    view = shown_payload(hold, payload_schema(hold))
    return Place(hold_place(hold), hold.execution, hold, view)


def _in_task(user: User, rest: str) -> Place | None:
    number, _, tail = rest.partition(":")
    task_id, _, side = tail.rpartition(":")
    execution = _execution(user, number)
    if execution is None or side not in SIDES:
        return None
    task = next((each for each in tasks_of(execution) if each.id == task_id), None)
    if task is None:
        return None
    view = masked(getattr(task, side), task_rules(execution, [task])[task_id, side])
    return Place(task_place(execution.pk, task_id, side), execution, None, view)


def _in_execution(user: User, rest: str) -> Place | None:
    number, _, part = rest.partition(":")
    execution = _execution(user, number)
    if execution is None or part not in ("inputs", "context"):
        return None
    schema = inputs_schema(execution) if part == "inputs" else None
    view = masked(getattr(execution, part), secret_rules(execution, schema))
    return Place(execution_place(execution.pk, part), execution, None, view)


def _execution(user: User, number: str) -> Execution | None:
    return visible_to(user).filter(pk=parse_natural_number(number) or 0).first()


def task_rules(execution: Execution, tasks: Iterable[TaskView]) -> Mapping[tuple[str, str], Rules]:
    """(task id, side) → what is secret in it.  Two queries at most, however many tasks."""
    listed = list(tasks)
    tools = tool_schemas(each.target for each in listed if each.type == "tool")
    stored = capabilities.load(each.target for each in listed if each.type == "capability")
    rules: dict[tuple[str, str], Rules] = {}
    for task in listed:
        known: Any = tools.get(task.target) or stored.get(task.target)
        schemas = (known.input_schema, known.output_schema) if known else (None, None)
        for side, schema in zip(SIDES, schemas, strict=True):
            rules[task.id, side] = secret_rules(execution, schema)
    return rules


def task_views(execution: Execution, tasks: Iterable[TaskView]) -> Mapping[tuple[str, str], Masked]:
    """(task id, side) → what pages show of it.  Two queries at most, however many tasks."""
    listed = list(tasks)
    rules = task_rules(execution, listed)
    return {
        (task.id, side): masked(getattr(task, side), rules[task.id, side])
        for task in listed
        for side in SIDES
    }


def record_views(
    record: HumanReviewRecord,
    executed: list[Any],
    schemas: dict[tuple[str, str], Any] | None = None,
) -> Mapping[str, Masked]:
    """Column → what pages show of it; a value keeps its number from column to column.

    `executed` is [what ran] or []; `record.execution` is loaded.  `schemas` keeps what was read
    for who asks for many records.
    """
    known = {} if schemas is None else schemas
    key = (record.target, record.trigger_phase)
    if key not in known:
        known[key] = schema_of(*key) if record.target else None
    rules = secret_rules(record.execution, known[key])
    original = masked(record.original_data, rules)
    edited = masked(record.modified_data, rules, after=original)
    ran = masked(executed[0] if executed else None, rules, after=edited)
    return dict(zip(COLUMNS, (original, edited, ran), strict=True))


def _in_record(user: User, rest: str) -> Place | None:
    number, _, column = rest.partition(":")
    if column not in COLUMNS:
        return None
    rows = HumanReviewRecord.objects.select_related("execution", "hold")
    record = rows.filter(
        pk=parse_natural_number(number) or 0, execution__in=with_erased(user)
    ).first()
    if record is None:
        return None
    view = record_views(record, executed(record))[column]
    return Place(record_place(record.pk, column), record.execution, record.hold, view)
