"""Facts that happened to an execution: frozen, told apart by `kind`, never edited.

A field marked "kept apart" travels with the event to the journal, which stores it in the row it
belongs to (an attempt, a hold, a plan revision); the stored event payload stays light.  `evolve`
reads no such field: folding the stored events of an execution gives its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from .policy import TriggerPhase
from .state import ExecutionState, GrantScope, HoldAnswer, HoldReason, Proposal, SkipReason

StoredElsewhere = Field(default=None, exclude=True)
#: Fields that are stored only to rebuild the state: neither pages nor webhooks show them.
STATE_ONLY: Final = frozenset({"start", "shown", "answer", "proposal"})
#: What a hold is decided as.
Verdict = Literal["APPROVE", "REJECT", "REQUEST_CHANGES"]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExecutionStarted(_Event):
    kind: Literal["execution_started"] = "execution_started"
    total_layers: int
    total_tasks: int


class ExecutionForked(_Event):
    """This execution goes on from another one's checkpoint; `start` is the state it begins with."""

    kind: Literal["execution_forked"] = "execution_forked"
    parent: str
    layer: int
    start: ExecutionState | None = None


class LayerStarted(_Event):
    """`tasks` are the ids of the layer; `skips` those that will not run, and why."""

    kind: Literal["layer_started"] = "layer_started"
    layer: int
    tasks: tuple[str, ...]
    skips: dict[str, SkipReason] = {}
    failed_leaf: bool = False


class TaskSucceeded(_Event):
    kind: Literal["task_succeeded"] = "task_succeeded"
    task_id: str
    attempt: int
    duration_ms: float
    # Digest of the inputs before the call, for a task that is reviewed before it runs; else "".
    executed_digest: str = Field(default="", exclude=True)
    inputs: Any = StoredElsewhere
    output: Any = StoredElsewhere
    logs: str = Field(default="", exclude=True)


class TaskErrored(_Event):
    """`retry_at` (seconds since the epoch, database clock) is set when it will be tried again."""

    kind: Literal["task_errored"] = "task_errored"
    task_id: str
    attempt: int
    error: str
    duration_ms: float = 0
    retry_at: float | None = None
    is_leaf: bool = False
    executed_digest: str = Field(default="", exclude=True)
    inputs: Any = StoredElsewhere
    logs: str = Field(default="", exclude=True)


class TaskEscalated(_Event):
    """The task was denied something; it waits for a decision and keeps its attempt number."""

    kind: Literal["task_escalated"] = "task_escalated"
    task_id: str
    operation: str
    resource: str
    current: dict[str, Any]
    requested: dict[str, Any]
    line: int | None = None


class SpeculationHit(_Event):
    """The task's result had been worked out while somebody decided; it saved so many seconds."""

    kind: Literal["speculation_hit"] = "speculation_hit"
    task_id: str
    seconds: float


class SpeculationMiss(_Event):
    """What had been worked out ahead for the task was dropped, and the task ran."""

    kind: Literal["speculation_miss"] = "speculation_miss"
    task_id: str
    seconds: float
    reason: str


class HoldOpened(_Event):
    """The execution waits.  `opening` carries the hold's row: payload, groups, texts, deadline.

    `shown` are the inputs of a task that reads the context, which may change while it waits: what
    a person is shown is what runs.  `summary` says in one line what is asked, without task data.
    """

    kind: Literal["hold_opened"] = "hold_opened"
    hold_id: str
    reason: HoldReason
    decider: Literal["human", "agent"] = "human"
    task_id: str | None = None
    phase: TriggerPhase | None = None
    quorum: int = 1
    on_reject: Literal["abort", "fail", "skip"] = "abort"
    on_timeout: Literal["reject", "approve", "keep_waiting", "abort", "continue"] = "keep_waiting"
    timeout_seconds: float | None = None
    summary: str = ""
    opening: Any = StoredElsewhere
    shown: dict[str, Any] | None = None


class ReviewSpared(_Event):
    """A review that was not asked for: by which rule, as it stood, and why.

    `rules_version` is 0 for what the task itself says.  `share` is where the run and the task fall
    between 0 and 1 when the rule samples; `digest` is that of what the rule was held against.
    """

    kind: Literal["review_spared"] = "review_spared"
    task_id: str
    phase: TriggerPhase
    rule: str
    rules_version: int = 0
    why: str
    skip_when: str | None = None
    sample: float | None = None
    share: float | None = None
    digest: str = ""


class HoldVoted(_Event):
    """One approval of a quorum that is not complete yet."""

    kind: Literal["hold_voted"] = "hold_voted"
    hold_id: str
    voter: str
    task_id: str | None = None
    phase: TriggerPhase | None = None


class HoldAnswered(_Event):
    """A decision that can be taken back for `undo_seconds`; then it is carried out.

    The run rests meanwhile, and nothing of the answer has happened yet.
    """

    kind: Literal["hold_answered"] = "hold_answered"
    hold_id: str
    reason: HoldReason
    decision: Verdict
    task_id: str | None = None
    phase: TriggerPhase | None = None
    edited: bool = False
    comment: str = ""
    undo_seconds: float
    answer: HoldAnswer | None = None


class HoldWithdrawn(_Event):
    """`voter` took back a decision that was not carried out yet, or a vote: the hold is open."""

    kind: Literal["hold_withdrawn"] = "hold_withdrawn"
    hold_id: str
    voter: str
    what: Literal["decision", "vote"]
    task_id: str | None = None
    phase: TriggerPhase | None = None


class HoldDecided(_Event):
    """A decision.  `resumed` is true when no other hold is open and the execution goes on.

    An approved escalation carries its `grant`, a PermissionSet that holds what was asked for and
    nothing else, with its scope; `operation` and `resource` say what was denied.
    """

    kind: Literal["hold_decided"] = "hold_decided"
    hold_id: str
    reason: HoldReason
    decision: Verdict
    task_id: str | None = None
    phase: TriggerPhase | None = None
    edited: bool = False
    comment: str = ""
    by_timeout: bool = False
    resumed: bool = False
    # Carries out an answer that was given before, and that nobody took back.
    answered: bool = False
    is_leaf: bool = False
    on_reject: Literal["abort", "fail", "skip"] = "abort"
    grant: dict[str, Any] | None = None
    grant_scope: GrantScope | None = None
    grant_seconds: float | None = None
    operation: str = ""
    resource: str = ""
    edits: Any = None


class CapabilityPermissionUpdated(_Event):
    """An escalation was granted to the capability itself: it may do more from now on."""

    kind: Literal["capability_permission_updated"] = "capability_permission_updated"
    capability: str
    task_id: str
    hold_id: str
    granted: dict[str, Any]


class HoldExpired(_Event):
    """A hold's time ran out; what that means follows as a decision of its own."""

    kind: Literal["hold_expired"] = "hold_expired"
    hold_id: str
    task_id: str | None = None
    phase: TriggerPhase | None = None
    on_timeout: str


class HoldExtended(_Event):
    kind: Literal["hold_extended"] = "hold_extended"
    hold_id: str
    task_id: str | None = None
    phase: TriggerPhase | None = None
    seconds: float


class HoldEscalated(_Event):
    """Nobody decided for a while: `groups` may decide too from now on, `told` are told.

    `step` is the number of the step in the hold's chain, counted from 0.
    """

    kind: Literal["hold_escalated"] = "hold_escalated"
    hold_id: str
    task_id: str | None = None
    phase: TriggerPhase | None = None
    step: int
    groups: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


class LayerClosed(_Event):
    """Every task of the layer is settled: the checkpoint.

    `executed_digests` maps each task whose output was reviewed and accepted to the digest of the
    output that later tasks read.
    """

    kind: Literal["layer_closed"] = "layer_closed"
    layer: int
    failed: bool = False
    executed_digests: dict[str, str] = Field(default={}, exclude=True)


class LayerSkipRequested(_Event):
    """A layer that has not begun shall be skipped when its turn comes."""

    kind: Literal["layer_skip_requested"] = "layer_skip_requested"
    layer: int


class LayerSkipped(_Event):
    kind: Literal["layer_skipped"] = "layer_skipped"
    layer: int
    tasks: tuple[str, ...]


class AgentDecided(_Event):
    kind: Literal["agent_decided"] = "agent_decided"
    agent: str
    decision: Literal["continue", "replan", "abort"]
    reason: str = ""
    hold_id: str | None = None


class AgentFailed(_Event):
    kind: Literal["agent_failed"] = "agent_failed"
    agent: str
    error: str
    default: str = "continue"
    hold_id: str | None = None


class AgentRequested(_Event):
    """Somebody asked for the agent's opinion at the next boundary (policy `manual`)."""

    kind: Literal["agent_requested"] = "agent_requested"


class PlanRevised(_Event):
    """A new revision of the plan.  Settled layers stay as they were."""

    kind: Literal["plan_revised"] = "plan_revised"
    revision: int
    total_layers: int
    cause: Literal["replan", "inject_task", "modify_args"]
    requirement: str = ""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    # What speaks for each added task, and the review that let the change pass.
    why: dict[str, Any] = {}
    hold_id: str | None = None
    # Whether the change leaves a task without readers that has failed already.
    failed_leaf: bool = False
    plan: Any = StoredElsewhere
    layers: Any = StoredElsewhere


class PlanProposed(_Event):
    """A change of the plan that a person has to accept first; `proposal` lives in the state."""

    kind: Literal["plan_proposed"] = "plan_proposed"
    requirement: str
    cause: Literal["replan", "inject_task", "modify_args"] = "replan"
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    why: dict[str, Any] = {}
    proposal: Proposal | None = None


class ReplanFailed(_Event):
    kind: Literal["replan_failed"] = "replan_failed"
    requirement: str
    error: str


class GraphUpdateFailed(_Event):
    """The tool graph could not learn from this execution, which is none the worse for it."""

    kind: Literal["graph_update_failed"] = "graph_update_failed"
    error: str


class ContextUpdated(_Event):
    kind: Literal["context_updated"] = "context_updated"
    updates: dict[str, Any]
    # Whether the next layer reads the context, so that a signature for it was given for other data.
    unsigns: bool = False


class MessageAdded(_Event):
    kind: Literal["message_added"] = "message_added"
    role: Literal["user", "assistant", "system", "tool"]
    content: str
    author: str = ""


class CommandRefused(_Event):
    """A command that was queued while a layer ran, and could not be applied at the boundary."""

    kind: Literal["command_refused"] = "command_refused"
    command: str
    error: str


class ExecutionCompleted(_Event):
    kind: Literal["execution_completed"] = "execution_completed"


class ExecutionFailed(_Event):
    kind: Literal["execution_failed"] = "execution_failed"
    error: str = ""


class ExecutionAborted(_Event):
    kind: Literal["execution_aborted"] = "execution_aborted"
    reason: str


Event = Annotated[
    ExecutionStarted
    | ExecutionForked
    | LayerStarted
    | TaskSucceeded
    | TaskErrored
    | TaskEscalated
    | SpeculationHit
    | SpeculationMiss
    | HoldOpened
    | ReviewSpared
    | HoldVoted
    | HoldAnswered
    | HoldWithdrawn
    | HoldDecided
    | CapabilityPermissionUpdated
    | HoldExpired
    | HoldExtended
    | HoldEscalated
    | LayerClosed
    | LayerSkipRequested
    | LayerSkipped
    | AgentDecided
    | AgentFailed
    | AgentRequested
    | PlanRevised
    | PlanProposed
    | ReplanFailed
    | GraphUpdateFailed
    | ContextUpdated
    | MessageAdded
    | CommandRefused
    | ExecutionCompleted
    | ExecutionFailed
    | ExecutionAborted,
    Field(discriminator="kind"),
]


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Event]:
    return TypeAdapter(Event)


def dump_event(event: Event) -> dict[str, Any]:
    """The payload under which an event is stored, beside its kind."""
    return event.model_dump(mode="json", exclude={"kind"})


def load_event(kind: str, payload: Mapping[str, Any]) -> Event:
    """The event that was stored; fields that are kept apart have their defaults."""
    return _adapter().validate_python({**payload, "kind": kind})


def public_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A stored payload without the fields that only rebuild the state."""
    return {key: value for key, value in payload.items() if key not in STATE_ONLY}
