"""The control state of one execution: everything that decides what comes next.

Its size is bounded by the current layer.  Outputs, settled statuses of earlier layers and the plan
have rows of their own; the state holds none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

from pydantic import TypeAdapter

from .policy import TriggerPhase
from .status import ExecutionStatus, TaskStatus

#: How far a granted permission reaches: this task, every task of this execution, every use of the
#: capability, or the same task of the same workflow until a time.
GrantScope = Literal["task", "execution", "capability", "until"]


class Stage(StrEnum):
    """How far the current layer has come; APPROVAL looks at the next one."""

    RUN = "RUN"
    AGENT = "AGENT"
    VALIDATION = "VALIDATION"
    APPROVAL = "APPROVAL"


class HoldReason(StrEnum):
    """Why an execution stopped."""

    NODE_REVIEW = "node_review"
    LAYER_APPROVAL = "layer_approval"
    LAYER_VALIDATION = "layer_validation"
    ESCALATION = "escalation"
    AGENT_DECISION = "agent_decision"
    REPLAN_REVIEW = "replan_review"


class SkipReason(StrEnum):
    """Why a task was skipped; only UPSTREAM_FAILED counts against the execution."""

    CONDITION = "condition"
    REVIEWER = "reviewer"
    COMMAND = "command"
    UPSTREAM_SKIPPED = "upstream_skipped"
    UPSTREAM_FAILED = "upstream_failed"


@dataclass(frozen=True, slots=True)
class Escalation:
    """What a task was denied, and the smallest set that would have let it pass."""

    operation: str
    resource: str
    current: dict[str, Any]
    requested: dict[str, Any]
    line: int | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task of the current layer."""

    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0
    cleared: bool = False
    # Laid over its inputs: what a reviewer changed, and what one was shown that could change.
    edits: dict[str, Any] | None = None
    retry_at: float | None = None
    skip: SkipReason | None = None
    escalation: Escalation | None = None
    grants: tuple[dict[str, Any], ...] = ()
    # What reviewers asked to be changed, oldest first; the task runs again for each.
    feedback: tuple[str, ...] = ()
    # The hold that sent it back last, and the attempt it sent back.
    sent_back_by: str = ""
    sent_back_at: int = 0


@dataclass(frozen=True, slots=True)
class HoldAnswer:
    """What `actor` said to a hold, as long as it can be taken back.

    `command` is the ApprovalResponse as JSON; it is carried out when its time to undo is over.
    """

    actor: str
    command: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hold:
    """An open decision point.  `phase` is set for node reviews alone."""

    id: str
    reason: HoldReason
    decider: Literal["human", "agent"] = "human"
    task_id: str | None = None
    phase: TriggerPhase | None = None
    quorum: int = 1
    approvals: tuple[str, ...] = ()
    on_reject: Literal["abort", "fail", "skip"] = "abort"
    on_timeout: Literal["reject", "approve", "keep_waiting", "abort", "continue"] = "keep_waiting"
    # Steps of its escalation chain that were taken.
    escalated: int = 0
    # The plan has changed since: a signature for a layer is good for what was shown, no more.
    outdated: bool = False
    # Decided, and not yet carried out: the run rests until then.
    answer: HoldAnswer | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan change that waits for a person: asked for by whom, for what, and the change itself.

    `change` is `changes.written`; `why` says for each added task what speaks for it (`confidence`,
    `reasons`); `context` joins the execution's context with the change.
    """

    requirement: str
    actor: str
    change: dict[str, Any]
    context: dict[str, Any] = field(default_factory=dict)
    why: dict[str, Any] = field(default_factory=dict)
    cause: Literal["replan", "inject_task", "modify_args"] = "replan"


@dataclass(frozen=True, slots=True)
class ExecutionState:
    """What `evolve` folds events into; `next_move` and `decide` read nothing else."""

    status: ExecutionStatus = ExecutionStatus.PENDING
    version: int = 0
    revision: int = 1
    layer: int = -1
    total_layers: int = 0
    stage: Stage = Stage.APPROVAL
    approved: bool = False
    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    holds_opened: int = 0
    failed_leaf: bool = False
    layer_failed: bool = False
    replans: int = 0
    failed_replans: int = 0
    skips: frozenset[int] = frozenset()
    agent_requested: bool = False
    proposal: Proposal | None = None
    grants: tuple[dict[str, Any], ...] = ()
    # Id of the execution that the first of a chain of forks began with; "" for one of its own.
    origin: str = ""

    def hold(self, hold_id: str) -> Hold | None:
        return next((hold for hold in self.holds if hold.id == hold_id), None)

    def with_task(self, task_id: str, **changes: Any) -> ExecutionState:
        """A copy with one task of the current layer changed."""
        task = replace(self.tasks.get(task_id, TaskState()), **changes)
        return replace(self, tasks={**self.tasks, task_id: task})

    @property
    def is_last_layer(self) -> bool:
        return self.layer + 1 >= self.total_layers


def forked(bookmark: ExecutionState, *, total_layers: int, parent: str) -> ExecutionState:
    """The first state of a fork that goes on from the checkpoint `bookmark` of `parent`.

    Holds are numbered per execution and grants belong to one, so a fork takes neither along.
    """
    return ExecutionState(
        layer=bookmark.layer,
        total_layers=total_layers,
        stage=bookmark.stage,
        failed_leaf=bookmark.failed_leaf,
        layer_failed=bookmark.layer_failed,
        # A sample falls for a fork as it fell for the run that it was forked from.
        origin=bookmark.origin or parent,
    )


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[ExecutionState]:
    return TypeAdapter(ExecutionState)


def dump_state(state: ExecutionState) -> str:
    """JSON text of a state."""
    return _adapter().dump_json(state, exclude_defaults=True).decode()


def load_state(data: Mapping[str, Any]) -> ExecutionState:
    """The state that `dump_state` wrote, from its parsed JSON."""
    return _adapter().validate_python(data, strict=False)
