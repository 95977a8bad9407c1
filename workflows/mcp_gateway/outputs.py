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
    """A task and what has become of it."""

    id: str
    task_id: str = Field(description="The same as `id`.")
    target: str = Field(description="The tool, capability or language that ran.")
    layer: int
    status: str = Field(description="PENDING, RUNNING, SUCCEEDED, FAILED, SKIPPED or REJECTED.")
    output: Any = Field(
        description="What later tasks read; text if it was cut, null if it was rejected."
    )
    is_rejected: bool = Field(default=False, description="A reviewer rejected the task.")
    output_truncated: bool = False
    error: str = ""
    skip_reason: str = ""
    is_edited: bool = Field(default=False, description="A reviewer changed the output.")
    attempts: int = Field(description="How many tries are recorded.")
    duration_ms: float


class NextTask(_Output):
    """A task that has not begun, as it stands in the plan."""

    id: str
    task_id: str = Field(description="The same as `id`.")
    target: str
    inputs: dict[str, Any]
    depends_on: list[str]
    permission_set: str | None


#: Who decides, in the words of agents: a human in the loop, or an agent.
DecisionType = Literal["HIL", "AIL"]


class Approval(_Output):
    """Something a person has to decide."""

    hold_id: str
    checkpoint_id: str = Field(description="The same as `hold_id`.")
    decision_type: DecisionType = "HIL"
    workflow_id: str
    node_id: str | None
    trigger_phase: str | None
    reason: str
    why: str
    instructions: str
    payload: Any = Field(description="What is to be decided; text if it was cut.")
    payload_truncated: bool
    groups: list[str] = Field(description="Who may decide it.")
    quorum: int
    approvals: int = Field(description="How many have approved it already.")
    changes_left: int = Field(description="How often changes can still be requested.")
    expires_at: str | None
    on_timeout: str
    review_url: str = Field(description="Where a person decides it in the browser.")


class Replanned(_Output):
    """What a replan changed in the plan."""

    revision: int
    added: list[NextTask]
    removed: list[str]
    changed: list[str]


class Decision(_Output):
    """What a person (HIL) or an agent (AIL) decided."""

    workflow_id: str = Field(description="The run it was made in: this one, or one it forks.")
    type: DecisionType
    decision: str = Field(
        description="APPROVE, REJECT, REQUEST_CHANGES, WITHDRAW, ABORT, CONTINUE or REPLAN."
    )
    actor: str
    hold_id: str | None
    node_id: str | None
    comment: str
    edited: bool = Field(description="The reviewer changed what was shown.")


class Answer(_Output):
    """Where a run stands.  `options` are the tools that make sense next."""

    status: AnswerStatus
    message: str = Field(description="What it means and what to do, in one or two sentences.")
    workflow_id: str
    title: str
    version: int
    checkpoint_id: str | None = Field(description="The bookmark after the last settled layer.")
    layer_index: int | None = Field(description="The present layer, from 0; null before the first.")
    total_layers: int
    layer_results: list[TaskResult]
    next_layer_preview: list[NextTask]
    options: list[str]
    approvals: list[Approval]
    decisions: list[Decision] = Field(description="The newest twenty, oldest first.")
    answer_by: str | None = Field(description="When time decides for the agent, if it does.")
    replanned: Replanned | None = None
    new_tasks: list[NextTask] | None = Field(
        default=None, description="What a replan added, as in `replanned.added`."
    )
    reason: str = Field(description="Why the run failed or was aborted.")
    warnings: list[str] = Field(
        default=[], description="After execute: groups of the run in which nobody may decide."
    )
    run_url: str


class PendingHold(_Output):
    """An open decision point, without its payload."""

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
    """A tool that a plan's task can name."""

    name: str
    title: str
    description: str
    permission_set: str
    read_only: bool
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = Field(description="Null where the tool declares none.")
    similarity: float


class FoundTools(_Output):
    tools: list[FoundTool]
    warnings: list[str]
