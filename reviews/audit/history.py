"""Read the audit log: visible records and their filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from django.db.models import OuterRef, QuerySet, Subquery
from django.utils.dateparse import parse_date, parse_datetime

from reviews.models import Decision, HumanReviewRecord, RecordSet, RecordWords
from reviews.queue.filters import plain_text
from workflows.common.full_text import full_text_filter
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError
from workflows.engine.plans.dag import ExternalActionTask
from workflows.engine.policy.policies import TriggerPhase
from workflows.executions.access import filter_visible
from workflows.executions.selectors import task_spec
from workflows.models import Approval, ExecutionReceipt, TaskAttempt

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_TEXTS = (
    "execution", "node", "tool", "reason", "reviewer", "decision", "phase", "workflow", "q",
    "edited", "bulk", "expired",
)  # fmt: skip
#: The `source` of records of bulk decisions.
BULK: Final = "bulk"


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on records; None or "" means no condition.  `until` is exclusive."""

    execution: int | None = None
    node: str = ""
    tool: str = ""
    reason: str = ""
    reviewer: str = ""
    decision: str = ""
    phase: str = ""
    workflow: str = ""
    q: str = ""
    edited: bool | None = None
    bulk: bool | None = None
    expired: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    errors: tuple[FieldError, ...] = field(default=())


def records(user: User) -> RecordSet:
    """Return the records of executions visible to the user, newest first."""
    rows: RecordSet = HumanReviewRecord.objects.order_by("-id")
    return cast("RecordSet", filter_visible(rows, user))


def filtered(rows: RecordSet, filters: Filters) -> RecordSet:
    """Return the rows that match every condition."""
    exact = {
        "execution_id": filters.execution,
        "node_id": filters.node,
        "target": filters.tool,
        "reason": filters.reason,
        "reviewer__isnull": filters.expired,
        "actor": filters.reviewer,
        "decision": filters.decision,
        "trigger_phase": filters.phase,
        "is_edited": filters.edited,
        "reviewed_at__gte": filters.since,
        "reviewed_at__lt": filters.until,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value not in (None, "")})
    if filters.workflow:
        rows = rows.filter(workflow_title=filters.workflow)
    if filters.bulk is not None:
        rows = rows.filter(source=BULK) if filters.bulk else rows.exclude(source=BULK)
    return (
        rows.filter(full_text_filter(filters.q, RecordWords.objects.all())) if filters.q else rows
    )


def parse_filters(query: Mapping[str, str]) -> Filters:
    """Parse filters from a query string; invalid values are dropped and reported in `errors`.

    Keys: execution, node, tool, reason, expired, reviewer, decision, phase, workflow, q (full
    text), edited, bulk, from, to.  `from` and `to` are dates (UTC, both inclusive) or moments
    (ISO 8601; `to` exclusive).
    """
    errors: list[FieldError] = []
    texts = {name: plain_text(query, name, errors) for name in _TEXTS}
    return Filters(
        execution=_number(texts["execution"], errors),
        node=texts["node"],
        tool=texts["tool"],
        reason=texts["reason"],
        reviewer=texts["reviewer"],
        decision=_choice("decision", texts["decision"], Decision.values, errors),
        phase=_choice("phase", texts["phase"], [each.value for each in TriggerPhase], errors),
        workflow=texts["workflow"],
        q=texts["q"],
        edited=_boolean("edited", texts["edited"], errors),
        bulk=_boolean("bulk", texts["bulk"], errors),
        expired=_boolean("expired", texts["expired"], errors),
        since=_moment(query, "from", errors, days=0),
        until=_moment(query, "to", errors, days=1),
        errors=tuple(errors),
    )


def _number(text: str, errors: list[FieldError]) -> int | None:
    if not text:
        return None
    number = parse_natural_number(text)
    if number is None:
        errors.append(FieldError("execution", "must be the number of a run"))
    return number


def _choice(name: str, text: str, choices: list[str], errors: list[FieldError]) -> str:
    if text and text.upper() not in choices:
        errors.append(FieldError(name, f"must be one of {', '.join(choices)}"))
        return ""
    return text.upper()


def _boolean(name: str, text: str, errors: list[FieldError]) -> bool | None:
    if text and text.lower() not in _BOOLEANS:
        errors.append(FieldError(name, "must be true or false"))
    return _BOOLEANS.get(text.lower())


def _moment(
    query: Mapping[str, str], name: str, errors: list[FieldError], *, days: int
) -> datetime | None:
    text = (query.get(name) or "").strip()
    if not text:
        return None
    try:
        day = parse_date(text)
        if day is not None:
            return _start_of(day) + timedelta(days=days)
        # An unescaped "+" in a query string arrives as a space.
        moment = parse_datetime(text.replace(" ", "+") if "T" in text else text)
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        errors.append(FieldError(name, "must be a date like 2026-01-31, or an ISO 8601 time"))
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def receipts_of(record: HumanReviewRecord) -> QuerySet[ExecutionReceipt]:
    """Return the execution receipts of this decision, oldest attempt first."""
    return ExecutionReceipt.objects.filter(decision_hash=record.hash).order_by("sequence")


def with_executed_digest(rows: QuerySet[HumanReviewRecord]) -> QuerySet[HumanReviewRecord]:
    """Annotate the rows with `executed_digest` of their newest receipt, or None."""
    newest = ExecutionReceipt.objects.filter(decision_hash=OuterRef("hash")).order_by("-sequence")
    return rows.annotate(executed_digest=Subquery(newest.values("digest")[:1]))


def executed(record: HumanReviewRecord) -> list[Any]:
    """Return a list with the payload that ran or was passed on, or [] if there is none (yet)."""
    if record.execution.erased_at is not None:
        return []
    if record.decision != Decision.APPROVE or not record.node_id:
        return []
    if was_withdrawn(record) or is_early_vote(record):
        return []
    if is_external(record) and record.trigger_phase == TriggerPhase.BEFORE_EXECUTION:
        return _reported(record)
    tries = TaskAttempt.objects.filter(
        execution_id=record.execution_id, task_id=record.node_id, status="SUCCEEDED"
    )
    if record.trigger_phase == TriggerPhase.BEFORE_EXECUTION:
        failed = TaskAttempt.objects.filter(
            execution_id=record.execution_id,
            task_id=record.node_id,
            status="FAILED",
            inputs__isnull=False,
        )
        return list((tries | failed).order_by("attempt").values_list("inputs", flat=True)[:1])
    if record.trigger_phase == TriggerPhase.AFTER_EXECUTION:
        found = tries.filter(settled=True).first()
        if found is not None:
            return [found.edited_output if found.is_edited else found.output]
    return []


def is_external(record: HumanReviewRecord) -> bool:
    """Whether the decision is about an external action; its agent reports what it ran."""
    return isinstance(task_spec(record.execution, record.node_id), ExternalActionTask)


def _reported(record: HumanReviewRecord) -> list[Any]:
    """Return the arguments that the agent reported, or [] if it has not, or only their digest."""
    rows = Approval.objects.filter(execution=record.execution_id, result_arguments__isnull=False)
    return list(rows.values_list("result_arguments", flat=True))


def is_early_vote(record: HumanReviewRecord) -> bool:
    """Return whether other members of a quorum decided after this record."""
    rows = HumanReviewRecord.objects.standing().filter(hold_id=record.hold_id, pk__gt=record.pk)
    return rows.exists()


def was_withdrawn(record: HumanReviewRecord) -> bool:
    """Return whether a later record withdraws this decision."""
    return HumanReviewRecord.objects.filter(withdraws=record).exists()
