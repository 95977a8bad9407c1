"""Episodic memory: earlier calls of a tool, what people decided about them, and the outcome.

The planner and agents ask it.  Nothing is copied: the audit log keeps situation and decision, and
the run keeps the outcome.  Each answer is limited to the runs that the asking user may see, and
compares masked payloads, so that nobody can guess a secret by its similarity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from reviews.audit.history import records
from reviews.components.json_diffs import diff
from reviews.models import Decision, HumanReviewRecord, RecordSet
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.values.bounded_json import path_text
from workflows.models import Approval, TaskAttempt

from .edits import schema_of, secret_rules
from .masking import Rules, masked
from .similar_decisions import features, similarity

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Outcome = Literal["succeeded", "failed", "open", "not_run"]

#: The latest decisions about a tool that are compared.
_MAX_COMPARED: Final = 200
#: The latest decisions about a tool that its record of approvals and rejections counts.
_MAX_COUNTED: Final = 20


@dataclass(frozen=True, slots=True)
class Episode:
    """A past decision of a person about a call of a tool.

    `similarity` is 0 to 1, null without arguments to compare.  `edited` are the paths that the
    person changed.  `outcome` is that of the call: `open` until it has ended.
    """

    id: str
    execution_id: str
    tool: str
    phase: str
    workflow_title: str
    similarity: float | None
    decision: str
    edited: tuple[str, ...]
    comment: str
    decided_at: datetime
    outcome: Outcome


def episodes(
    user: User, *, tool: str, arguments: Any = None, phase: str = "", limit: int
) -> list[Episode]:
    """Return visible decisions of people about calls of a tool.

    With `arguments` (of a call, or its output for the phase AFTER_EXECUTION) the most similar
    decisions come first, otherwise the newest.
    """
    rows = _decided(user, tool).select_related("execution")
    if phase:
        rows = rows.filter(trigger_phase=phase)
    if arguments is None:
        return _episodes([(None, record) for record in rows[:limit]])
    schemas = {each: schema_of(tool, each) for each in ("BEFORE_EXECUTION", "AFTER_EXECUTION")}
    mine = features(masked(arguments, Rules(schemas.get(phase or "BEFORE_EXECUTION"), ())).value)
    scored = [
        (similarity(mine, _features(record, schemas.get(record.trigger_phase))), record)
        for record in rows[:_MAX_COMPARED]
    ]
    scored.sort(key=lambda pair: (pair[0], pair[1].pk), reverse=True)
    return _episodes([(round(score, 4), record) for score, record in scored[:limit]])


def _decided(user: User, tool: str) -> RecordSet:
    # The outcomes of the calls of erased runs are not known any more.
    rows = records(user).standing().filter(execution__erased_at=None)
    return rows.filter(target=tool, reviewer__isnull=False).with_keys()


def _features(record: HumanReviewRecord, schema: Any) -> Counter[str]:
    rules = secret_rules(record.execution, schema)
    return features(masked(record.original_data, rules).value)


def _episodes(scored: Iterable[tuple[float | None, HumanReviewRecord]]) -> list[Episode]:
    pairs = list(scored)
    outcomes = _outcomes([record for _, record in pairs])
    return [
        Episode(
            id=str(record.pk),
            execution_id=str(record.execution_id),
            tool=record.target,
            phase=record.trigger_phase,
            workflow_title=record.workflow_title,
            similarity=score,
            decision=record.decision,
            edited=_edited(record),
            comment=record.comment,
            decided_at=record.reviewed_at,
            outcome=outcomes[record.pk],
        )
        for score, record in pairs
    ]


def _edited(record: HumanReviewRecord) -> tuple[str, ...]:
    """Return the changed paths; those in a secret end at its mark."""
    if not record.is_edited:
        return ()
    rules = secret_rules(record.execution, schema_of(record.target, record.trigger_phase))
    before = masked(record.original_data, rules)
    after = masked(record.modified_data, rules, after=before)
    return tuple(path_text(change.path) for change in diff(before.value, after.value))


def _outcomes(decided: Iterable[HumanReviewRecord]) -> dict[int, Outcome]:
    """Return the outcome of the call by record."""
    listed = list(decided)
    runs = {record.execution_id for record in listed}
    attempts = TaskAttempt.objects.filter(
        execution__in=runs, task_id__in={record.node_id for record in listed}, settled=True
    )
    ended = {
        (execution, task): TaskStatus(status)
        for execution, task, status in attempts.values_list("execution_id", "task_id", "status")
    }
    reported = dict(
        Approval.objects.filter(execution__in=runs).values_list("execution_id", "result_ok")
    )
    return {
        record.pk: _outcome(
            record,
            ended.get((record.execution_id, record.node_id)),
            external=record.execution_id in reported,
            succeeded=reported.get(record.execution_id),
        )
        for record in listed
    }


def _outcome(
    record: HumanReviewRecord,
    status: TaskStatus | None,
    *,
    external: bool,
    succeeded: bool | None,
) -> Outcome:
    if record.decision != Decision.APPROVE:
        return "not_run"
    if external:
        return "open" if succeeded is None else ("succeeded" if succeeded else "failed")
    if status is None:
        return "open"
    return "succeeded" if status is TaskStatus.SUCCEEDED else "failed"


# --- summaries for the planner --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolMemory:
    """The newest decisions about a tool; `comment` is that of the newest rejection or return."""

    tool: str
    approved: int = 0
    edited: int = 0
    rejected: int = 0
    comment: str = ""

    @property
    def is_mostly_rejected(self) -> bool:
        """Whether people refused at least half of the calls, and more than one."""
        return self.rejected > 1 and self.rejected >= self.approved


def memory_of_tools(user: User, tools: Iterable[str]) -> dict[str, ToolMemory]:
    """Return what people decided about each tool in runs that the user may see, if anything."""
    found = {tool: _memory(user, tool) for tool in sorted(set(tools)) if tool}
    return {tool: memory for tool, memory in found.items() if memory}


def _memory(user: User, tool: str) -> ToolMemory | None:
    newest = list(
        _decided(user, tool).defer("stored_original", "stored_modified", "canonical")[:_MAX_COUNTED]
    )
    if not newest:
        return None
    refused = [record for record in newest if record.decision != Decision.APPROVE]
    comments = [record.comment for record in refused if record.comment]
    return ToolMemory(
        tool=tool,
        approved=len(newest) - len(refused),
        edited=sum(record.is_edited for record in newest),
        rejected=len(refused),
        comment=comments[0] if comments else "",
    )
