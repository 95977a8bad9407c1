"""Arguments of the tools. The bounded JSON parser has checked the message before."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from workflows.engine.commands import OptionalValues
from workflows.engine.state import GrantScope

_LARGEST = 2**63 - 1
#: The longest wait of a call: clients, and some proxies, give up after a minute.
MAX_WAIT_SECONDS = 55
MAX_OUTPUT_CHARS = 1_000_000


def _as_text(value: Any) -> Any:
    """Accept an id that a language model wrote as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


WorkflowId = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(max_length=40, description="The workflow_id of an earlier answer."),
]
CheckpointId = Annotated[str, BeforeValidator(_as_text), Field(min_length=1, max_length=100)]
Version = Annotated[
    int | None,
    Field(
        strict=True,
        ge=0,
        le=_LARGEST,
        description="The version you saw. Something else happened since: nothing is done.",
    ),
]
Wait = Annotated[
    float | None,
    Field(
        ge=0,
        le=MAX_WAIT_SECONDS,
        description="How long to wait for the next stop before answering `running`.",
    ),
]
Key = Annotated[
    str | None,
    Field(
        pattern=r"^[!-~]{1,200}$",
        description="The same key and arguments within 24 hours: the call counts once.",
    ),
]
Chars = Annotated[
    int,
    Field(
        strict=True,
        ge=100,
        le=MAX_OUTPUT_CHARS,
        description="Outputs whose JSON is longer are cut.",
    ),
]


class Input(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Config(Input):
    """How a run is carried out."""

    per_layer_validation: bool | None = Field(
        default=None,
        strict=True,
        description="Stop after each layer and answer layer_complete until you call continue.",
    )
    wait_seconds: Wait = None
    title: str = Field(default="", max_length=200)
    policy: dict[str, Any] = Field(
        default={}, description="Laid over the workflow's policy: hil, ail, speculation, …"
    )


class Execute(Input):
    """Give exactly one of workflow, plan and intent."""

    workflow: str | None = Field(
        default=None, min_length=1, max_length=100, description="Name or id of a kept workflow."
    )
    plan: dict[str, Any] | None = Field(default=None, description="A plan of your own.")
    intent: str | None = Field(
        default=None,
        min_length=1,
        max_length=4000,
        description="Plain words; a plan is made of known tools.",
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
    """Go on to the next layer."""

    reason: str = Field(default="", max_length=4000)


class Abort(_OnWorkflow):
    """End the run."""

    reason: str = Field(default="", max_length=4000, description="Kept with the run.")


class Replan(_OnWorkflow):
    """Ask the planner for more tasks; what has begun is kept."""

    new_requirement: str = Field(min_length=1, max_length=4000)
    available_context: OptionalValues = Field(
        default={}, description="Values the new tasks may read from the run's context."
    )


class ApprovalResponse(_OnWorkflow):
    """Decide a hold."""

    hold_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="May be left out while a single hold is open.",
    )
    checkpoint_id: CheckpointId | None = Field(
        default=None,
        description="Instead of hold_id: the checkpoint_id of an answer or of one of its "
        "approvals. When the run has gone on since, nothing is done.",
    )
    approved: bool = Field(strict=True)
    request_changes: bool = Field(
        default=False,
        strict=True,
        description="Not approved: the task runs again with `feedback`. After a task alone.",
    )
    edits: Any = Field(
        default=None,
        description="Before a task: keys laid over its inputs. After it: the whole new output. "
        "Absent or null: no change.",
    )
    set_output_null: bool = Field(
        default=False,
        strict=True,
        description="Approve with null in place of the task's output. Not beside edits.",
    )
    feedback: str = Field(default="", max_length=10_000)
    grant_scope: GrantScope = "task"
    grant_seconds: float | None = Field(default=None, gt=0, le=2_592_000)


class GetExecution(Input):
    workflow_id: WorkflowId
    wait_seconds: Wait = None
    all_layers: bool = Field(
        default=False, strict=True, description="Results of every layer, not of the present one."
    )
    max_output_chars: Chars = 20_000


class ListPending(Input):
    workflow_id: WorkflowId | None = None
    decider: Literal["any", "human", "agent"] = "any"
    limit: int = Field(default=20, strict=True, ge=1, le=100)
    cursor: str = Field(default="", max_length=200, description="`next` of the page before.")


class SearchTools(Input):
    query: str = Field(min_length=1, max_length=1000)
    read_only: bool | None = Field(default=None, strict=True)
    limit: int = Field(default=10, strict=True, ge=1, le=50)
