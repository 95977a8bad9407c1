"""Requests that may be refused: the nine commands, the same from every door."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    field_validator,
)

from .dag import Plan, TaskSpec
from .state import GrantScope

#: The longest time to undo a decision, in seconds.
MAX_UNDO_SECONDS: Final = 600


class _Command(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Continue(_Command):
    """Go on from a layer validation or an agent's decision point."""

    kind: Literal["continue"] = "continue"
    reason: str = Field(default="", max_length=4000)


class Abort(_Command):
    kind: Literal["abort"] = "abort"
    reason: str = Field(default="", max_length=4000)


def _empty_for_null(value: Any) -> Any:
    return {} if value is None else value


#: Values to merge into the context.  Absent and null both mean that there are none.
OptionalValues = Annotated[dict[str, Any], BeforeValidator(_empty_for_null)]


class Replan(_Command):
    """Ask the planner for a new revision; settled layers are kept."""

    kind: Literal["replan"] = "replan"
    new_requirement: str = Field(min_length=1, max_length=4000)
    available_context: OptionalValues = {}


class _Approval(_Command):
    hold: str = Field(min_length=1, max_length=100)
    approved: bool
    # Not approved, but to be done again with `feedback`: for reviews of a task's output.
    request_changes: bool = False
    # Absent and null both mean "no change"; only `set_output_null` sets an output to null.
    edits: Any = None
    set_output_null: bool = Field(default=False, strict=True)
    feedback: str = Field(default="", max_length=10_000)
    # How far the grant of an approved escalation reaches; `until` takes its length in seconds.
    grant_scope: GrantScope = "task"
    grant_seconds: float | None = Field(default=None, gt=0, le=2_592_000)
    # For how long the answer can be taken back; the run rests meanwhile.
    undo_seconds: float = Field(default=0, ge=0, le=MAX_UNDO_SECONDS)

    @field_validator("set_output_null")
    @classmethod
    def _not_beside_edits(cls, given: Any, info: ValidationInfo) -> Any:
        if given and info.data.get("edits") is not None:
            raise ValueError("cannot be given together with edits")
        return given

    @property
    def changes_payload(self) -> bool:
        """Whether the decision changes what was shown: by edits, or by a null output."""
        return self.set_output_null or self.edits is not None


class ApprovalResponse(_Approval):
    """Decide a hold.

    `edits` are an object laid over the inputs before a task, the whole new output after it, and
    `{"drop": [ids of added tasks]}` for a plan review.  Absent or null, nothing changes.
    """

    kind: Literal["approval_response"] = "approval_response"


class CheckpointResponse(_Approval):
    """Another name for approval_response."""

    kind: Literal["checkpoint_response"] = "checkpoint_response"


class InjectTask(_Command):
    """Add a task that has not run; it may depend on anything, run or not."""

    kind: Literal["inject_task"] = "inject_task"
    task: TaskSpec


class SkipLayer(_Command):
    """Skip a layer that has not begun; what depends on it goes on with empty inputs."""

    kind: Literal["skip_layer"] = "skip_layer"
    layer: int | None = Field(default=None, ge=0)
    reason: str = Field(default="", max_length=4000)


class ModifyArgs(_Command):
    """Lay `arguments` over the inputs of a task that has not run."""

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
    """The text, or its beginning with a note that it was cut, of at most `longest` characters."""
    if len(text) <= longest:
        return text
    note = f" … (cut: {len(text)} characters)"
    return text[: max(0, longest - len(note))] + note


class AddMessage(_Command):
    """Say something in the execution's conversation."""

    kind: Literal["add_message"] = "add_message"
    role: Literal["user", "assistant", "system", "tool"] = "user"
    # An agent is told all results of a layer in one message.
    content: str = Field(min_length=1, max_length=MAX_MESSAGE_LENGTH)
    author: str = ""
    # Have the run's agent decide at the next boundary, where its policy would not ask it.
    ask_agent: bool = False


class ExpireHold(_Command):
    """The sweeper found a hold whose time ran out."""

    kind: Literal["expire_hold"] = "expire_hold"
    hold: str


class FailExecution(_Command):
    """The sweeper found that `lost` workers in a row ended without recording a step.

    `error` is what the last of them raised, where it could still say so.
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
    """The sweeper found that nobody decided a hold for as long as step number `step` waits."""

    kind: Literal["escalate_hold"] = "escalate_hold"
    hold: str
    # Counted from 0.
    step: int = Field(ge=0)
    groups: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()


class SettleAnswer(_Command):
    """The time to undo an answer is over: carry it out."""

    kind: Literal["settle_answer"] = "settle_answer"
    hold: str


class WithdrawAnswer(_Command):
    """Take back what `of` said to a hold: a decision not yet carried out, or a vote."""

    kind: Literal["withdraw_answer"] = "withdraw_answer"
    hold: str
    of: str


class RevisePlan(_Command):
    """What a planner answered to a replan: the new plan, or why there is none."""

    kind: Literal["revise_plan"] = "revise_plan"
    requirement: str
    plan: Plan | None = None
    error: str = ""
    # What the new tasks may read; it joins the execution's context.
    available_context: dict[str, Any] = {}
    # What speaks for each added task: {"tool", "confidence", "reasons"}.
    why: dict[str, Any] = {}


#: Commands that only Holdpoint itself gives.
Internal = (
    AddMessage
    | ExpireHold
    | FailExecution
    | ExtendHold
    | EscalateHold
    | SettleAnswer
    | WithdrawAnswer
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
    | RevisePlan,
    Field(discriminator="kind"),
]


@lru_cache(maxsize=2)
def _adapter(*, internal: bool) -> TypeAdapter[Any]:
    return TypeAdapter(AnyCommand if internal else Command)


def load_command(data: Any, *, internal: bool = False) -> Any:
    """A command from parsed JSON; raises pydantic.ValidationError with field paths."""
    return _adapter(internal=internal).validate_python(data)
