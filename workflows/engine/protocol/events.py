"""Events of an execution: immutable, discriminated by `kind`.

The journal stores a field marked `StoredElsewhere` in another row (an attempt, a hold, a plan
revision), which keeps event payloads small.  `evolve` reads no such field: folding the stored
events of an execution gives its state.

A sentence that Holdpoint makes is a `reasons.Reason`: the field `why` has its English text,
`why_code` and `why_params` its code and parameters.  A text that a person or a tool wrote has the
code "", and so has an event from before codes were stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.policy.standing_terms import StandingTerms
from workflows.engine.values.secret_text import Masked

from .state import ExecutionState, GrantScope, HoldAnswer, HoldReason, Proposal, SkipReason

StoredElsewhere = Field(default=None, exclude=True)
#: Fields that are stored only to rebuild the state; pages and webhooks do not show them.
STATE_ONLY: Final = frozenset({"start", "shown", "answer", "proposal", "resubmitted"})
#: The decision on a hold.
Verdict = Literal["APPROVE", "REJECT", "REQUEST_CHANGES"]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExecutionStarted(_Event):
    kind: Literal["execution_started"] = "execution_started"
    total_layers: int
    total_tasks: int


class ExecutionForked(_Event):
    """This execution continues from another one's checkpoint; `start` is its first state."""

    kind: Literal["execution_forked"] = "execution_forked"
    parent: str
    layer: int
    start: ExecutionState | None = None


class LayerStarted(_Event):
    """A layer started: `tasks` are its task ids, `skips` maps the skipped ones to the reason."""

    kind: Literal["layer_started"] = "layer_started"
    layer: int
    tasks: tuple[str, ...]
    skips: dict[str, SkipReason] = {}
    failed_leaf: bool = False


class TaskSubmitted(_Event):
    """A remote runner accepted the task; see `state.RemoteCall`.

    `shown` has the inputs of a task that reads the context: the context may change while the task
    runs, but its result is recorded with the inputs that it was given.
    """

    kind: Literal["task_submitted"] = "task_submitted"
    task_id: str
    attempt: int
    runner: str
    handle: str
    since: float
    until: float
    shown: dict[str, Any] | None = None


class TaskSucceeded(_Event):
    kind: Literal["task_succeeded"] = "task_succeeded"
    task_id: str
    attempt: int
    duration_ms: float
    # Digest of the inputs before the call if the task is reviewed before it runs; else "".
    executed_digest: str = Field(default="", exclude=True)
    inputs: Any = StoredElsewhere
    output: Any = StoredElsewhere
    logs: str = Field(default="", exclude=True)


class TaskErrored(_Event):
    """An attempt failed.  `retry_at` (epoch seconds, database clock) is set if it is retried."""

    kind: Literal["task_errored"] = "task_errored"
    task_id: str
    attempt: int
    error: str
    error_code: str = ""
    error_params: dict[str, Any] = {}
    duration_ms: float = 0
    retry_at: float | None = None
    is_leaf: bool = False
    executed_digest: str = Field(default="", exclude=True)
    inputs: Any = StoredElsewhere
    logs: str = Field(default="", exclude=True)


class TaskEscalated(_Event):
    """The task lacks a permission: it waits for a decision and keeps its attempt number."""

    kind: Literal["task_escalated"] = "task_escalated"
    task_id: str
    operation: str
    resource: str
    current: dict[str, Any]
    requested: dict[str, Any]
    line: int | None = None


class SpeculationHit(_Event):
    """The task used its speculative result, which saved `seconds`."""

    kind: Literal["speculation_hit"] = "speculation_hit"
    task_id: str
    seconds: float


class SpeculationMiss(_Event):
    """The task's speculative result was dropped for `reason`, and the task ran."""

    kind: Literal["speculation_miss"] = "speculation_miss"
    task_id: str
    seconds: float
    reason: str
    reason_code: str = ""
    reason_params: dict[str, Any] = {}


class HoldOpened(_Event):
    """The execution waits.  `opening` has the hold's row: payload, groups, texts, deadline.

    `shown` has the inputs of a task that reads the context: the context may change during the
    review, but the task runs with the inputs that were shown.  `summary` describes the hold in one
    line, without task data.
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
    summary_code: str = ""
    summary_params: dict[str, Any] = {}
    opening: Any = StoredElsewhere
    shown: dict[str, Any] | None = None


class ReviewSpared(_Event):
    """A review was skipped by a rule.

    `rules_version` is 0 for a rule of the task itself.  `share` is the task's sample position from
    0 to 1 if the rule samples; `digest` is the digest of the document that the rule evaluated.
    """

    kind: Literal["review_spared"] = "review_spared"
    task_id: str
    phase: TriggerPhase
    rule: str
    rules_version: int = 0
    why: str
    why_code: str = ""
    why_params: dict[str, Any] = {}
    skip_when: str | None = None
    sample: float | None = None
    share: float | None = None
    digest: str = ""
    # Id of the grant of the standing answer that covers an external action.
    grant: str = ""


class HoldVoted(_Event):
    """One approval of a quorum that is not complete yet."""

    kind: Literal["hold_voted"] = "hold_voted"
    hold_id: str
    voter: str
    # The user; null in events from before ids were recorded.
    voter_id: int | None = None
    task_id: str | None = None
    phase: TriggerPhase | None = None


class HoldAnswered(_Event):
    """A decision that can be undone for `undo_seconds` and takes effect afterwards.

    The run rests until then.
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
    """`voter` withdrew a vote, or a decision that had not taken effect: the hold is open again."""

    kind: Literal["hold_withdrawn"] = "hold_withdrawn"
    hold_id: str
    voter: str
    voter_id: int | None = None
    what: Literal["decision", "vote"]
    task_id: str | None = None
    phase: TriggerPhase | None = None


class HoldDecided(_Event):
    """A decision took effect.  `resumed` is true if no other hold is open and the run continues.

    An approved escalation has a `grant`, the PermissionSet of exactly the requested permissions,
    and its scope; `operation` and `resource` name the denied access.
    """

    kind: Literal["hold_decided"] = "hold_decided"
    hold_id: str
    reason: HoldReason
    decision: Verdict
    task_id: str | None = None
    phase: TriggerPhase | None = None
    edited: bool = False
    comment: str = ""
    comment_code: str = ""
    comment_params: dict[str, Any] = {}
    by_timeout: bool = False
    resumed: bool = False
    # The decision was recorded earlier as HoldAnswered; its undo period has ended.
    answered: bool = False
    is_leaf: bool = False
    # The task is an external action: its caller submits it again.
    waits_for_caller: bool = False
    # Epoch seconds at which the wait ends; None if it has no end.
    waits_until: float | None = None
    on_reject: Literal["abort", "fail", "skip"] = "abort"
    grant: dict[str, Any] | None = None
    grant_scope: GrantScope | None = None
    grant_seconds: float | None = None
    operation: str = ""
    resource: str = ""
    # The approval of an external action also covers later ones of its agent.
    standing: StandingTerms | None = None
    edits: Any = None


class TaskResubmitted(_Event):
    """The caller of an external action submitted it again, after changes were requested.

    `resubmitted` has the new `arguments` or the new `output`.
    """

    kind: Literal["task_resubmitted"] = "task_resubmitted"
    task_id: str
    resubmitted: dict[str, Any]


class ResultReported(_Event):
    """The caller of an approved external action reported what it executed.

    `mismatch` says that the executed arguments are not the approved ones.  `executed_digest` is ""
    if the caller did not state the arguments.
    """

    kind: Literal["result_reported"] = "result_reported"
    task_id: str
    phase: TriggerPhase
    ok: bool
    error: str = ""
    mismatch: bool = False
    attempt: int = 1
    executed_digest: str = Field(default="", exclude=True)


class CapabilityPermissionUpdated(_Event):
    """An escalation was granted to the capability, whose permission set grows permanently."""

    kind: Literal["capability_permission_updated"] = "capability_permission_updated"
    capability: str
    task_id: str
    hold_id: str
    granted: dict[str, Any]


class HoldExpired(_Event):
    """A hold reached its deadline; the decision by `on_timeout` follows as an event of its own."""

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
    """A step of the escalation chain: `groups` may decide from now on, `told` are notified.

    `step` is the step's index in the hold's chain, from 0.
    """

    kind: Literal["hold_escalated"] = "hold_escalated"
    hold_id: str
    task_id: str | None = None
    phase: TriggerPhase | None = None
    step: int
    groups: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


class LayerClosed(_Event):
    """All tasks of the layer have finished; the journal writes a checkpoint.

    `executed_digests` maps each task with a reviewed and accepted output to the digest of the
    output that later tasks read.
    """

    kind: Literal["layer_closed"] = "layer_closed"
    layer: int
    failed: bool = False
    executed_digests: dict[str, str] = Field(default={}, exclude=True)


class LayerSkipRequested(_Event):
    """A command skips a layer that has not begun: these tasks, whatever later plan changes do."""

    kind: Literal["layer_skip_requested"] = "layer_skip_requested"
    layer: int
    tasks: tuple[str, ...] = ()


class LayerSkipped(_Event):
    kind: Literal["layer_skipped"] = "layer_skipped"
    layer: int
    tasks: tuple[str, ...]


class AgentDecided(_Event):
    kind: Literal["agent_decided"] = "agent_decided"
    agent: str
    decision: Literal["continue", "replan", "abort"]
    reason: Masked = ""
    hold_id: str | None = None


class AgentFailed(_Event):
    kind: Literal["agent_failed"] = "agent_failed"
    agent: str
    error: str
    error_code: str = ""
    error_params: dict[str, Any] = {}
    default: str = "continue"
    hold_id: str | None = None


class AgentRequested(_Event):
    """A command asked the agent to decide at the next layer boundary (policy `manual`)."""

    kind: Literal["agent_requested"] = "agent_requested"


class PlanRevised(_Event):
    """A new revision of the plan.  Finished layers stay unchanged."""

    kind: Literal["plan_revised"] = "plan_revised"
    revision: int
    total_layers: int
    cause: Literal["replan", "inject_task", "modify_args"]
    requirement: str = ""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    # The confidence, reasons and questions of each added task; the hold that approved the change.
    why: dict[str, Any] = {}
    hold_id: str | None = None
    # Whether a failed task becomes a leaf because the change removes its last reader.
    failed_leaf: bool = False
    plan: Any = StoredElsewhere
    layers: Any = StoredElsewhere


class PlanProposed(_Event):
    """A plan change that a person must accept; `proposal` becomes part of the state."""

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
    error_code: str = ""
    error_params: dict[str, Any] = {}


class GraphUpdateFailed(_Event):
    """The tool graph could not learn from this execution; the execution itself is unaffected."""

    kind: Literal["graph_update_failed"] = "graph_update_failed"
    error: str


class ContextUpdated(_Event):
    kind: Literal["context_updated"] = "context_updated"
    updates: dict[str, Any]
    # Whether the next layer reads the context, so that its earlier approval becomes void.
    unsigns: bool = False


class MessageAdded(_Event):
    kind: Literal["message_added"] = "message_added"
    role: Literal["user", "assistant", "system", "tool"]
    content: str
    author: str = ""


class CommandRefused(_Event):
    """A queued command was refused when it was applied at the layer boundary."""

    kind: Literal["command_refused"] = "command_refused"
    command: str
    error: str
    error_code: str = ""
    error_params: dict[str, Any] = {}


class ExecutionCompleted(_Event):
    kind: Literal["execution_completed"] = "execution_completed"


class ExecutionFailed(_Event):
    kind: Literal["execution_failed"] = "execution_failed"
    error: str = ""
    error_code: str = ""
    error_params: dict[str, Any] = {}


class ExecutionAborted(_Event):
    kind: Literal["execution_aborted"] = "execution_aborted"
    reason: str
    reason_code: str = ""
    reason_params: dict[str, Any] = {}


Event = Annotated[
    ExecutionStarted
    | ExecutionForked
    | LayerStarted
    | TaskSubmitted
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
    | TaskResubmitted
    | ResultReported
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


_ADAPTER: Final[TypeAdapter[Event]] = TypeAdapter(Event)


def dump_event(event: Event) -> dict[str, Any]:
    """Return the stored payload of an event; its kind is stored in a column."""
    return event.model_dump(mode="json", exclude={"kind"})


def load_event(kind: str, payload: Mapping[str, Any]) -> Event:
    """Return a stored event; fields marked `StoredElsewhere` have their defaults."""
    return _ADAPTER.validate_python({**payload, "kind": kind})


def public_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored payload without the fields that only rebuild the state."""
    return {key: value for key, value in payload.items() if key not in STATE_ONLY}
