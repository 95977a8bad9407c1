"""The control state of one execution: all data that `next_move` and `decide` need.

Its size is bounded by the current layer.  Outputs, the statuses of earlier layers and the plan are
stored in rows of their own, not in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from workflows.engine.policy.policies import TriggerPhase

from .actors import Actor
from .status import ExecutionStatus, TaskStatus

#: Scope of a granted permission: this task, every task of this execution, every use of the
#: capability, or this task in all runs of the workflow until a time.
GrantScope = Literal["task", "execution", "capability", "until"]


class Stage(StrEnum):
    """Progress of the current layer; APPROVAL concerns the next layer."""

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
    """A denied operation of a task, its permissions, and the smallest set that would allow it."""

    operation: str
    resource: str
    current: dict[str, Any]
    requested: dict[str, Any]
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A task that a remote runner runs, under a handle of that runner.

    `since` is when it was submitted and `until` when its time limit ends, in epoch seconds by the
    database's clock.  `inputs` are the submitted inputs of a task that reads the context, which may
    change before the result is recorded; None for other tasks.
    """

    runner: str
    handle: str
    since: float
    until: float
    inputs: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task of the current layer."""

    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0
    cleared: bool = False
    # Values that override the task's inputs: a reviewer's edits, and inputs that were shown to a
    # reviewer although the context could still change them.
    edits: dict[str, Any] | None = None
    retry_at: float | None = None
    skip: SkipReason | None = None
    escalation: Escalation | None = None
    grants: tuple[dict[str, Any], ...] = ()
    # Comments of reviewers who requested changes, oldest first; the task runs again for each.
    feedback: tuple[str, ...] = ()
    # The last hold that sent the task back, and the number of the attempt that it sent back.
    sent_back_by: str = ""
    sent_back_at: int = 0
    # An external action that was sent back rests until its caller submits it again.
    waits_for_caller: bool = False
    # Epoch seconds at which the run ends if the caller has not; None if the wait has no end.
    waits_until: float | None = None
    # The `arguments` or the `output` of an external action that its caller submitted again.
    resubmitted: dict[str, Any] | None = None
    # The present attempt runs remotely; the run rests until it ends.
    remote: RemoteCall | None = None


@dataclass(frozen=True, slots=True)
class HoldAnswer:
    """The decision of `actor` on a hold during its undo period.

    `command` is the ApprovalResponse as JSON; it is applied when the undo period ends.  `actor_id`
    and `token_id` are those of the `Actor`.
    """

    actor: str
    command: dict[str, Any]
    actor_id: int | None = None
    token_id: int | None = None

    @property
    def by(self) -> Actor:
        return Actor(self.actor, self.actor_id, self.token_id)


@dataclass(frozen=True, slots=True)
class Hold:
    """An open decision.  `phase` is set only for node reviews."""

    id: str
    reason: HoldReason
    decider: Literal["human", "agent"] = "human"
    task_id: str | None = None
    phase: TriggerPhase | None = None
    quorum: int = 1
    # The votes so far: the names for display, and the users who gave them.
    approvals: tuple[str, ...] = ()
    approver_ids: tuple[int | None, ...] = ()
    on_reject: Literal["abort", "fail", "skip"] = "abort"
    on_timeout: Literal["reject", "approve", "keep_waiting", "abort", "continue"] = "keep_waiting"
    # Number of steps of the escalation chain that were taken.
    escalated: int = 0
    # The plan or context has changed since the hold opened, so an approval of the layer is void.
    outdated: bool = False
    # The decision during its undo period; the run rests until the period ends.
    answer: HoldAnswer | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan change that waits for a person, with the requirement and its author.

    `change` is the output of `plan_diff.written`; `why` has the `confidence`, `reasons` and
    `questions` of each added task; `context` is merged into the execution's context with the
    change.
    """

    requirement: str
    actor: str
    change: dict[str, Any]
    context: dict[str, Any] = field(default_factory=dict)
    why: dict[str, Any] = field(default_factory=dict)
    cause: Literal["replan", "inject_task", "modify_args"] = "replan"


@dataclass(frozen=True, slots=True)
class ExecutionState:
    """The result of folding an execution's events with `evolve`; input of `next_move`, `decide`."""

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
    # Tasks that have not begun and that a command skips, whichever layer they will be in.
    skipped_tasks: frozenset[str] = frozenset()
    agent_requested: bool = False
    proposal: Proposal | None = None
    grants: tuple[dict[str, Any], ...] = ()
    # The caller of an external action has reported its result.
    result_reported: bool = False
    # Id of the first execution in a chain of forks; "" if this execution is not a fork.
    origin: str = ""

    def hold(self, hold_id: str) -> Hold | None:
        return next((hold for hold in self.holds if hold.id == hold_id), None)

    def with_task(self, task_id: str, **changes: Any) -> ExecutionState:
        """Return a copy with one task of the current layer changed."""
        task = replace(self.tasks.get(task_id, TaskState()), **changes)
        return replace(self, tasks={**self.tasks, task_id: task})

    @property
    def is_last_layer(self) -> bool:
        return self.layer + 1 >= self.total_layers


def forked(bookmark: ExecutionState, *, total_layers: int, parent: str) -> ExecutionState:
    """Return the first state of a fork of `parent` that continues from the state `bookmark`.

    Holds and grants belong to one execution, so a fork starts without them.  Tasks that a command
    skips stay skipped, as changes of the plan and the context stay.
    """
    return ExecutionState(
        layer=bookmark.layer,
        total_layers=total_layers,
        stage=bookmark.stage,
        failed_leaf=bookmark.failed_leaf,
        layer_failed=bookmark.layer_failed,
        skipped_tasks=bookmark.skipped_tasks,
        # Sampling rules use the id of the first execution, so a fork is sampled like its parent.
        origin=bookmark.origin or parent,
    )


_ADAPTER: Final[TypeAdapter[ExecutionState]] = TypeAdapter(ExecutionState)


def dump_state(state: ExecutionState) -> str:
    """Return a state as JSON text."""
    return _ADAPTER.dump_json(state, exclude_defaults=True).decode()


def load_state(data: Mapping[str, Any]) -> ExecutionState:
    """Return the state from the parsed JSON of `dump_state`."""
    return _ADAPTER.validate_python(data, strict=False)
