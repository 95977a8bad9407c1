"""Results of the tools; the JSON schemas of these models are the tools' output schemas."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

AnswerStatus = Literal[
    "complete", "layer_complete", "approval_required", "failed", "aborted", "running"
]


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True)


class TaskResult(_Output):
    """A task and its result."""

    id: str
    task_id: str = Field(description="Equal to `id`.")
    target: str = Field(description="The tool, capability or programming language of the task.")
    layer: int
    status: str = Field(description="PENDING, RUNNING, SUCCEEDED, FAILED, SKIPPED or REJECTED.")
    output: Any = Field(
        description="The output that later tasks read; text if it was cut, null if it was rejected."
    )
    is_rejected: bool = Field(default=False, description="A reviewer rejected the task.")
    output_truncated: bool = False
    error: str = ""
    skip_reason: str = ""
    is_edited: bool = Field(default=False, description="A reviewer changed the output.")
    attempts: int = Field(description="Number of recorded attempts.")
    duration_ms: float


class NextTask(_Output):
    """A task of the plan that has not begun."""

    id: str
    task_id: str = Field(description="Equal to `id`.")
    target: str
    inputs: dict[str, Any]
    depends_on: list[str]
    permission_set: str | None


#: Who decides: a human in the loop (HIL) or an agent in the loop (AIL).
DecisionType = Literal["HIL", "AIL"]


class Approval(_Output):
    """An open hold that a person has to decide."""

    hold_id: str
    checkpoint_id: str = Field(description="Equal to `hold_id`.")
    decision_type: DecisionType = "HIL"
    workflow_id: str
    node_id: str | None
    trigger_phase: str | None
    reason: str
    why: str
    instructions: str
    payload: Any = Field(description="The data to review; text if it was cut.")
    payload_truncated: bool
    groups: list[str] = Field(description="Groups whose members may decide.")
    quorum: int
    approvals: int = Field(description="Number of approvals so far.")
    changes_left: int = Field(description="Number of change requests that are still possible.")
    expires_at: str | None
    on_timeout: str
    review_url: str = Field(description="The page on which a person decides the hold.")


class Replanned(_Output):
    """Changes of the plan by a replan."""

    revision: int
    added: list[NextTask]
    removed: list[str]
    changed: list[str]
    questions: list[str] = Field(description="What the planner is unsure of in the added tasks.")


class Decision(_Output):
    """A decision of a person (HIL) or an agent (AIL)."""

    workflow_id: str = Field(description="The run of the decision: this run or an ancestor of it.")
    type: DecisionType
    decision: str = Field(
        description="APPROVE, REJECT, REQUEST_CHANGES, WITHDRAW, ABORT, CONTINUE or REPLAN."
    )
    actor: str
    hold_id: str | None
    node_id: str | None
    comment: str
    edited: bool = Field(description="The reviewer edited the payload.")


class Answer(_Output):
    """The state of a run.  `options` are the tools that you can call next."""

    status: AnswerStatus
    message: str = Field(description="The state and the next step, in one or two sentences.")
    workflow_id: str
    title: str
    version: int
    checkpoint_id: str | None = Field(description="The checkpoint after the last finished layer.")
    layer_index: int | None = Field(description="The current layer, from 0; null before the first.")
    total_layers: int
    layer_results: list[TaskResult]
    next_layer_preview: list[NextTask]
    options: list[str]
    approvals: list[Approval]
    decisions: list[Decision] = Field(description="The newest twenty, oldest first.")
    answer_by: str | None = Field(
        description="The time at which a default decision replaces the agent's; null if there is "
        "none."
    )
    replanned: Replanned | None = None
    new_tasks: list[NextTask] | None = Field(
        default=None, description="Tasks that a replan added; equal to `replanned.added`."
    )
    reason: str = Field(description="The reason if the run failed or was aborted; else empty.")
    warnings: list[str] = Field(
        default=[], description="After execute: groups of the run without a member who may decide."
    )
    run_url: str


class RequestedApproval(_Output):
    """An approval that you asked for.  Execute `arguments` only if `status` is `approved`."""

    status: str = Field(
        description="pending, approved, rejected, changes_requested, expired, cancelled, completed "
        "or failed."
    )
    message: str = Field(description="The state and the next step.")
    id: str = Field(description="The id of the approval in /api/v1/approvals/.")
    arguments: dict[str, Any] | None = Field(
        description="The decided arguments; null unless the action is approved."
    )
    arguments_digest: str | None
    output: Any = Field(description="The decided output, if people reviewed an output.")
    edited: bool = Field(description="A reviewer changed the arguments or the output.")
    comment: str = Field(description="The reason of a rejection, or the requested changes.")
    decided_by: str | None
    execution_id: str
    review_url: str = Field(description="The page on which people decide; you do not.")
    expires_at: str | None


class PendingHold(_Output):
    """An open hold, without its payload."""

    hold_id: str
    workflow_id: str
    title: str
    node_id: str | None
    trigger_phase: str | None
    decider: Literal["human", "agent"]
    decision_type: DecisionType
    reason: str
    why: str
    opened_at: str
    expires_at: str | None
    on_timeout: str
    options: list[str]
    review_url: str | None


class Pending(_Output):
    """Oldest first; `next` is the cursor of the following page, null at the end."""

    pending: list[PendingHold]
    next: str | None


class FoundTool(_Output):
    """A tool that a task of a plan can call."""

    name: str
    title: str
    description: str
    permission_set: str
    read_only: bool
    destructive: bool | None = Field(description="Null if its server does not say.")
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = Field(description="Null if the tool declares none.")
    similarity: float


class PastDecision(_Output):
    """A past decision of a person about a call of the tool, and the outcome of the call."""

    workflow_id: str = Field(description="The run of the decision.")
    workflow_title: str
    trigger_phase: str
    similarity: float | None = Field(description="0 to 1; null without arguments to compare.")
    decision: str = Field(description="APPROVE, REJECT or REQUEST_CHANGES.")
    edited: list[str] = Field(description="Paths of the arguments that the person changed.")
    comment: str
    decided_at: str
    outcome: str = Field(
        description="Of the call: succeeded, failed, open until it has ended, or not_run unless "
        "it was approved."
    )


class PastDecisions(_Output):
    """Decisions in runs that you may see."""

    decisions: list[PastDecision]


class PredictedTool(_Output):
    """A tool that may run next; it followed the newest tool in `observed` of `runs` cases."""

    name: str
    confidence: float = Field(
        description="Estimated probability that it runs next, from past runs."
    )
    observed: int
    runs: int


class PredictedTools(_Output):
    """Most likely first; empty when past runs tell nothing."""

    tools: list[PredictedTool]


class FoundTools(_Output):
    tools: list[FoundTool]
    warnings: list[str]
