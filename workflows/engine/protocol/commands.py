"""The commands: nine that REST, sockets, pages and MCP accept, and internal ones."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    field_validator,
)

from workflows.engine.plans.dag import Plan, TaskSpec
from workflows.engine.policy.standing_terms import StandingTerms
from workflows.engine.values.secret_text import MaskedComment, MaskedText, mask_secrets

from .state import GrantScope

#: The longest time to undo a decision, in seconds.
MAX_UNDO_SECONDS: Final = 600


class _Command(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Continue(_Command):
    """Continue after a layer validation or an agent's decision point."""

    kind: Literal["continue"] = "continue"
    reason: MaskedText = ""


class Abort(_Command):
    kind: Literal["abort"] = "abort"
    reason: MaskedText = ""


def _empty_for_null(value: Any) -> Any:
    return {} if value is None else value


#: Values to merge into the context.  Absent and null both mean that there are none.
OptionalValues = Annotated[dict[str, Any], BeforeValidator(_empty_for_null)]


class Replan(_Command):
    """Ask the planner for a new revision; finished layers are kept."""

    kind: Literal["replan"] = "replan"
    new_requirement: Annotated[MaskedText, Field(min_length=1)]
    available_context: OptionalValues = {}


class _Approval(_Command):
    hold: str = Field(min_length=1, max_length=100)
    approved: bool
    # Run the task again with `feedback`; only for reviews of a task's output.
    request_changes: bool = False
    # Absent and null both mean "no change"; only `set_output_null` sets an output to null.
    edits: Any = None
    set_output_null: bool = Field(default=False, strict=True)
    feedback: MaskedComment = ""
    # Scope of the grant of an approved escalation; `until` needs `grant_seconds`.
    grant_scope: GrantScope = "task"
    grant_seconds: float | None = Field(default=None, gt=0, le=2_592_000)
    # The approval of an external action also covers later ones of the same agent.
    standing: StandingTerms | None = None
    # Undo period of the decision; the run rests until it ends.
    undo_seconds: float = Field(default=0, ge=0, le=MAX_UNDO_SECONDS)

    @field_validator("set_output_null")
    @classmethod
    def _not_beside_edits(cls, given: Any, info: ValidationInfo) -> Any:
        if given and info.data.get("edits") is not None:
            raise ValueError("cannot be given together with edits")
        return given

    @property
    def changes_payload(self) -> bool:
        """Whether the decision changes the payload, by edits or by a null output."""
        return self.set_output_null or self.edits is not None


class ApprovalResponse(_Approval):
    """Decide a hold.

    `edits` is an object merged into the inputs (before a task), the whole new output (after a
    task), or `{"drop": [ids of added tasks]}` (plan review).  Absent or null changes nothing.
    """

    kind: Literal["approval_response"] = "approval_response"


class CheckpointResponse(_Approval):
    """Another name for approval_response."""

    kind: Literal["checkpoint_response"] = "checkpoint_response"


class InjectTask(_Command):
    """Add a task to the plan; it may depend on any other task, finished or not."""

    kind: Literal["inject_task"] = "inject_task"
    task: TaskSpec


class SkipLayer(_Command):
    """Skip a layer that has not begun; tasks that depend on it run with empty inputs."""

    kind: Literal["skip_layer"] = "skip_layer"
    layer: int | None = Field(default=None, ge=0)
    reason: MaskedText = ""


class ModifyArgs(_Command):
    """Merge `arguments` into the inputs of a task that has not run."""

    kind: Literal["modify_args"] = "modify_args"
    task_id: str
    arguments: dict[str, Any]


class UpdateState(_Command):
    """Merge `updates` into the execution's context."""

    kind: Literal["update_state"] = "update_state"
    updates: dict[str, Any]


Command = Annotated[
    Continue
    | Abort
    | Replan
    | ApprovalResponse
    | CheckpointResponse
    | InjectTask
    | SkipLayer
    | ModifyArgs
    | UpdateState,
    Field(discriminator="kind"),
]


#: The longest message of a conversation, in characters.
MAX_MESSAGE_LENGTH: Final = 2_000_000


def shortened(text: str, longest: int = MAX_MESSAGE_LENGTH) -> str:
    """Return the text; if longer than `longest` characters, its beginning and a note."""
    if len(text) <= longest:
        return text
    note = f" … (cut: {len(text)} characters)"
    return text[: max(0, longest - len(note))] + note


_MaskedMessage = AfterValidator(lambda text: shortened(mask_secrets(text)))


class AddMessage(_Command):
    """Add a message to the execution's conversation."""

    kind: Literal["add_message"] = "add_message"
    role: Literal["user", "assistant", "system", "tool"] = "user"
    # One message to an agent has all results of a layer.
    content: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE_LENGTH), _MaskedMessage]
    author: str = ""
    # Ask the run's agent to decide at the next layer boundary, even if its policy would not.
    ask_agent: bool = False


class ExpireHold(_Command):
    """Decide a hold by its timeout.  Sent by the sweeper."""

    kind: Literal["expire_hold"] = "expire_hold"
    hold: str


class FailExecution(_Command):
    """End an execution after `lost` workers in a row died without recording a step.

    Sent by the sweeper.  `error` is the last worker's exception, if it was recorded.
    """

    kind: Literal["fail_execution"] = "fail_execution"
    lost: int = Field(ge=1)
    error: str = ""


class ExtendHold(_Command):
    """Give a hold more time."""

    kind: Literal["extend_hold"] = "extend_hold"
    hold: str
    seconds: float = Field(gt=0, le=2_592_000)


class EscalateHold(_Command):
    """Take step number `step` of a hold's escalation chain.  Sent by the sweeper when it is due."""

    kind: Literal["escalate_hold"] = "escalate_hold"
    hold: str
    # Counted from 0.
    step: int = Field(ge=0)
    groups: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()


class SettleAnswer(_Command):
    """Apply a decision whose undo period has ended."""

    kind: Literal["settle_answer"] = "settle_answer"
    hold: str


class WithdrawAnswer(_Command):
    """Withdraw a vote of the user `of`, or a decision that has not taken effect."""

    kind: Literal["withdraw_answer"] = "withdraw_answer"
    hold: str
    of: int


class ResubmitAction(_Command):
    """Submit an external action again; only its caller sends this, after a request for changes."""

    kind: Literal["resubmit_action"] = "resubmit_action"
    arguments: dict[str, Any] = {}
    # Replaces the output of an action that was executed before its review.
    output: Any = None


class ReportResult(_Command):
    """Report the result of an approved external action, once; also after the run has ended."""

    kind: Literal["report_result"] = "report_result"
    ok: bool
    error: MaskedComment = ""
    # Digest of the executed arguments; "" if the caller does not state them.
    executed_digest: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")


class RevisePlan(_Command):
    """The planner's answer to a replan: the new plan, or an error."""

    kind: Literal["revise_plan"] = "revise_plan"
    requirement: MaskedText
    plan: Plan | None = None
    # A text of Holdpoint has a code and parameters, see `workflows.engine.values.reasons`.
    error: str = ""
    error_code: str = ""
    error_params: dict[str, Any] = {}
    # Values for the new tasks; merged into the execution's context.
    available_context: dict[str, Any] = {}
    # Added task → {"tool", "confidence", "reasons"}.
    why: dict[str, Any] = {}


#: Commands that only Holdpoint itself sends.
Internal = (
    AddMessage
    | ExpireHold
    | FailExecution
    | ExtendHold
    | EscalateHold
    | SettleAnswer
    | WithdrawAnswer
    | ResubmitAction
    | ReportResult
    | RevisePlan
)
AnyCommand = Annotated[
    Continue
    | Abort
    | Replan
    | ApprovalResponse
    | CheckpointResponse
    | InjectTask
    | SkipLayer
    | ModifyArgs
    | UpdateState
    | AddMessage
    | ExpireHold
    | FailExecution
    | ExtendHold
    | EscalateHold
    | SettleAnswer
    | WithdrawAnswer
    | ResubmitAction
    | ReportResult
    | RevisePlan,
    Field(discriminator="kind"),
]


_ADAPTER: Final[TypeAdapter[Any]] = TypeAdapter(Command)
_INTERNAL_ADAPTER: Final[TypeAdapter[Any]] = TypeAdapter(AnyCommand)


def load_command(data: Any, *, internal: bool = False) -> Any:
    """Return a command from parsed JSON; raises pydantic.ValidationError with field paths."""
    return (_INTERNAL_ADAPTER if internal else _ADAPTER).validate_python(data)
