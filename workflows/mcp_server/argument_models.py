"""Argument models of the tools. The bounded JSON parser has checked the message before."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from workflows.engine.protocol.commands import OptionalValues
from workflows.engine.protocol.state import GrantScope
from workflows.planning.planner import MAX_INTENT

from .waiting import MAX_WAIT_SECONDS

_MAX_BIGINT = 2**63 - 1
MAX_OUTPUT_CHARS = 1_000_000


def _as_text(value: Any) -> Any:
    """Accept an id that a language model wrote as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


WorkflowId = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(max_length=40, description="The workflow_id of an earlier response: the run's id."),
]
CheckpointId = Annotated[str, BeforeValidator(_as_text), Field(min_length=1, max_length=100)]
Version = Annotated[
    int | None,
    Field(
        strict=True,
        ge=0,
        le=_MAX_BIGINT,
        description="The version of the response that you read. If the run has changed since, "
        "the call has no effect and returns an error.",
    ),
]
Wait = Annotated[
    float | None,
    Field(
        ge=0,
        le=MAX_WAIT_SECONDS,
        description="Maximum seconds to wait for the run's next stop; then `running` is returned.",
    ),
]
Key = Annotated[
    str | None,
    Field(
        pattern=r"^[!-~]{1,200}$",
        description="Makes the call safe to repeat: within 24 hours, a call with an equal key and "
        "equal arguments takes effect only once.",
    ),
]
ToolName = Annotated[str, Field(min_length=1, max_length=200)]
Chars = Annotated[
    int,
    Field(
        strict=True,
        ge=100,
        le=MAX_OUTPUT_CHARS,
        description="Outputs and payloads with longer JSON are cut to this number of characters.",
    ),
]


class Input(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Config(Input):
    """Settings of a run."""

    per_layer_validation: bool | None = Field(
        default=None,
        strict=True,
        description="Stop with layer_complete after each layer until you call continue.",
    )
    wait_seconds: Wait = None
    title: str = Field(default="", max_length=200)
    policy: dict[str, Any] = Field(
        default={}, description="Merged into the workflow's policy: hil, ail, speculation, …"
    )


class Execute(Input):
    """Give exactly one of workflow, plan and intent."""

    workflow: str | None = Field(
        default=None, min_length=1, max_length=100, description="Name or id of a stored workflow."
    )
    plan: dict[str, Any] | None = Field(default=None, description="A plan that you have written.")
    intent: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_INTENT,
        description="The task in plain words; the planner drafts a plan from known tools.",
    )
    inputs: dict[str, Any] = {}
    config: Config = Config()
    idempotency_key: Key = None


class _OnWorkflow(Input):
    workflow_id: WorkflowId
    version: Version = None
    wait_seconds: Wait = None
    idempotency_key: Key = None


class Continue(_OnWorkflow):
    """Continue with the next layer."""

    reason: str = Field(default="", max_length=4000)


class Abort(_OnWorkflow):
    """End the run."""

    reason: str = Field(default="", max_length=4000, description="Stored with the run.")


class Replan(_OnWorkflow):
    """Ask the planner for more tasks; tasks that have begun are kept."""

    new_requirement: str = Field(min_length=1, max_length=4000)
    available_context: OptionalValues = Field(
        default={}, description="Values for the new tasks; merged into the run's context."
    )


class ApprovalResponse(_OnWorkflow):
    """Decide a hold."""

    hold_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="The hold to decide; optional if only one hold is open.",
    )
    checkpoint_id: CheckpointId | None = Field(
        default=None,
        description="Alternative to hold_id: the checkpoint_id of a response or of one of its "
        "approvals. If the run has continued since, the call has no effect and returns an error.",
    )
    approved: bool = Field(strict=True)
    request_changes: bool = Field(
        default=False,
        strict=True,
        description="With approved=false: run the task again with `feedback`. Only for reviews "
        "after a task.",
    )
    edits: Any = Field(
        default=None,
        description="Before a task: keys to replace in its inputs. After a task: the whole new "
        'output. Plan review: {"drop": [ids of added tasks]}. Absent or null: no change.',
    )
    set_output_null: bool = Field(
        default=False,
        strict=True,
        description="Approve and set the task's output to null. Not together with edits.",
    )
    feedback: str = Field(default="", max_length=10_000)
    grant_scope: GrantScope = "task"
    grant_seconds: float | None = Field(default=None, gt=0, le=2_592_000)


class GetExecution(Input):
    workflow_id: WorkflowId
    wait_seconds: Wait = None
    all_layers: bool = Field(
        default=False,
        strict=True,
        description="Return results of all layers, not only the current.",
    )
    max_output_chars: Chars = 20_000


class ListPending(Input):
    workflow_id: WorkflowId | None = None
    decider: Literal["any", "human", "agent"] = "any"
    limit: int = Field(default=20, strict=True, ge=1, le=100)
    cursor: str = Field(default="", max_length=200, description="`next` of the previous page.")


class Action(Input):
    """The action that you want to take with a tool of your own."""

    name: str = Field(
        min_length=1,
        max_length=199,
        description="For example payments.transfer; policies match it.",
    )
    arguments: dict[str, Any] = Field(default={}, description="What you would execute.")
    title: str = Field(default="", max_length=200)
    description: str = Field(default="", max_length=4000)
    schema_: dict[str, Any] = Field(
        default={}, alias="schema", description="JSON Schema of the arguments."
    )
    output: Any = Field(default=None, description="The result, for AFTER_EXECUTION.")


class RequestedBy(Input):
    """Your name, shown to reviewers."""

    agent: str = Field(default="", max_length=200)
    session: str = Field(default="", max_length=200)
    url: str = Field(default="", max_length=2000)


class RequestApproval(Input):
    """The fields of `POST /api/v1/approvals/`, which validates them."""

    action: Action
    idempotency_key: str = Field(
        pattern=r"^[!-~]{1,200}$",
        description="An id of this action, such as invoice-4711: a call with an equal key and "
        "equal fields continues the same approval, also after a restart.",
    )
    phase: Literal["BEFORE_EXECUTION", "AFTER_EXECUTION"] = "BEFORE_EXECUTION"
    risk: Literal["low", "medium", "high"] | None = None
    context: str = Field(default="", max_length=50_000, description="Markdown for reviewers: why.")
    instructions: str = Field(default="", max_length=4000)
    groups: list[str] | None = Field(default=None, min_length=1, max_length=20)
    quorum: int | None = Field(default=None, strict=True, ge=1, le=20)
    timeout_seconds: int | None = Field(default=None, strict=True, ge=1, le=31_536_000)
    on_timeout: Literal["reject", "approve", "keep_waiting"] | None = None
    editable: bool | list[str] | None = Field(
        default=None, description="What reviewers may change: true, false or JSON pointers."
    )
    requested_by: RequestedBy | None = None
    wait_seconds: Wait = None


class PredictNext(Input):
    done: list[ToolName] = Field(
        min_length=1,
        max_length=100,
        description="Names of the tools that have run, the newest last.",
    )
    limit: int = Field(default=3, strict=True, ge=1, le=50)


class SimilarDecisions(Input):
    tool: ToolName
    arguments: dict[str, Any] | None = Field(
        default=None,
        description="Arguments of the call that you plan; the most similar decisions come first. "
        "Without arguments, the newest do.",
    )
    limit: int = Field(default=5, strict=True, ge=1, le=20)


class SearchTools(Input):
    query: str = Field(min_length=1, max_length=1000)
    read_only: bool | None = Field(default=None, strict=True)
    limit: int = Field(default=10, strict=True, ge=1, le=50)
