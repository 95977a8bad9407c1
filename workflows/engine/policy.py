"""What a workflow asks of people and agents; an execution may override it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from .expressions import expression_error
from .reminder_schedule import Escalation, EscalationStep, Reminder, Reminders, check


class TriggerPhase(StrEnum):
    """When a node's hold opens, seen from the node."""

    BEFORE_EXECUTION = "BEFORE_EXECUTION"
    AFTER_EXECUTION = "AFTER_EXECUTION"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


SecretPath = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^.]+(\.[^.]+)*$")]


class _Waiting(_Frozen):
    """What happens while a hold for people waits."""

    # None: those of the policy.
    reminders: Reminders | None = None
    escalation: Escalation | None = None

    @property
    @abstractmethod
    def ends_after(self) -> float | None:
        """Seconds from the opening to the deadline; None when the hold has none."""

    @model_validator(mode="after")
    def _fits(self) -> _Waiting:
        check(self.reminders, self.escalation, self.ends_after)
        return self


class _Bounded(_Waiting):
    """Waiting with an end, unless time shall decide nothing."""

    timeout_seconds: float | None = Field(default=None, gt=0, le=31_536_000)
    on_timeout: Literal["reject", "approve", "keep_waiting"] = "reject"

    @property
    def ends_after(self) -> float | None:
        return None if self.on_timeout == "keep_waiting" else self.timeout_seconds


class SkipConditions(_Frozen):
    """When a review is not asked for: the words that a task and a published rule share.

    `skip_when` is JMESPath over `{"inputs": …}` before a task and `{"inputs": …, "output": …}`
    after it, the task's own; without it every review is meant.  `sample` is the share (0 to 1) of
    those that a person sees all the same; without it none.
    """

    skip_when: str | None = Field(default=None, min_length=1, max_length=2000)
    sample: float | None = Field(default=None, ge=0, le=1)

    @field_validator("skip_when")
    @classmethod
    def _is_expression(cls, value: str | None) -> str | None:
        problem = None if value is None else expression_error(value)
        if problem:
            raise PydanticCustomError("bad_expression", "{problem}", {"problem": problem})
        return value

    @property
    def can_skip(self) -> bool:
        """Whether it can spare anything at all."""
        return self.skip_when is not None or self.sample is not None


class ReviewPolicy(_Bounded, SkipConditions):
    """`human_review` of a task.  With `always` no rule spares it."""

    enabled: bool = True
    trigger_phase: TriggerPhase = TriggerPhase.BEFORE_EXECUTION
    groups: tuple[str, ...] = ("reviewer",)
    quorum: int = Field(default=1, ge=1, le=20)
    on_reject: Literal["abort", "fail", "skip"] = "abort"
    # How often a reviewer may have the task run again; for reviews after it ran.
    max_change_requests: int = Field(default=3, ge=0, le=20)
    instructions: str = Field(default="", max_length=4000)
    always: bool = False

    @model_validator(mode="after")
    def _always_means_always(self) -> ReviewPolicy:
        if self.always and self.can_skip:
            message = "a review that always happens takes neither skip_when nor sample"
            raise PydanticCustomError("always_reviewed", message)
        return self


_Name = Annotated[str, Field(min_length=1, max_length=200)]


class ReviewRule(SkipConditions):
    """One published rule: which reviews of a workflow it may spare.

    `tools` and `tasks` narrow it to targets (`git.git_log`, `git.*`) and task ids; what is empty
    narrows nothing.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.\-]{0,79}$")
    tools: tuple[_Name, ...] = Field(default=(), max_length=50)
    tasks: tuple[_Name, ...] = Field(default=(), max_length=50)
    phase: TriggerPhase | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ReviewRule:
        if not self.can_skip:
            message = "give skip_when, sample or both: a rule without them would spare everything"
            raise PydanticCustomError("empty_rule", message)
        return self

    def is_for(self, *, task_id: str, target: str, phase: TriggerPhase) -> bool:
        """Whether a review of this task, with this tool, in this phase is one of its own."""
        return (
            (not self.tasks or task_id in self.tasks)
            and (not self.tools or any(_fits(target, each) for each in self.tools))
            and self.phase in (None, phase)
        )


def _fits(target: str, wanted: str) -> bool:
    return target.startswith(wanted[:-1]) if wanted.endswith("*") else target == wanted


class ReviewRules(_Frozen):
    """The rules of a workflow as they were published; version 0 stands for none."""

    version: int = Field(default=0, ge=0)
    rules: tuple[ReviewRule, ...] = Field(default=(), max_length=50)

    @model_validator(mode="after")
    def _names_once(self) -> ReviewRules:
        names = [rule.name for rule in self.rules]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            message = "the name {name} is used more than once"
            raise PydanticCustomError("duplicate_name", message, {"name": twice})
        return self


class LayerApproval(_Waiting):
    """`hil`: a person signs before a layer runs."""

    enabled: bool = False
    timeout_seconds: float = Field(default=300, gt=0, le=31_536_000)
    on_timeout: Literal["abort", "approve"] = "abort"
    approval_required: Literal["always", "critical_only", "never"] = "always"
    groups: tuple[str, ...] = ("reviewer",)

    @property
    def ends_after(self) -> float | None:
        return self.timeout_seconds


class AgentDecisions(_Frozen):
    """`ail`: an agent decides between layers.

    `agent` is a name registered in workflows.agents, or "external" for one that answers over
    REST or MCP.  `settings` is handed to the agent as it is (a rule agent finds its rules there).
    """

    enabled: bool = False
    decision_points: Literal["per_layer", "on_error", "manual"] = "per_layer"
    agent: str = Field(default="external", max_length=100)
    timeout_seconds: float = Field(default=60, gt=0, le=86_400)
    settings: dict[str, Any] = {}


class PlanReview(_Bounded):
    """`replan_review`: a person decides about a replan before it changes the plan.

    `true` and `false` stand for it with and without `enabled`.  Rejected, by a person or by time,
    the run goes on with the plan it has.
    """

    enabled: bool = False
    groups: tuple[str, ...] = ("reviewer",)
    quorum: int = Field(default=1, ge=1, le=20)
    instructions: str = Field(default="", max_length=4000)


class Speculation(_Frozen):
    """Work done ahead with read-only tools while somebody decides.

    `confidence` is how sure it has to be that a result will be used: a fixed share, or "learned"
    for each pair of tools from its hits and misses, within 0.70 and 0.95.  `max_tasks` is how
    many results may wait for one execution at a time.
    """

    enabled: bool = False
    confidence: Annotated[float, Field(ge=0, le=1)] | Literal["learned"] = 0.7
    max_tasks: int = Field(default=8, ge=1, le=100)


class Policy(_Frozen):
    """The policy of a workflow, or of one execution."""

    hil: LayerApproval = LayerApproval()
    ail: AgentDecisions = AgentDecisions()
    per_layer_validation: bool = False
    # With per_layer_validation: after the last layer too, where a replan can still add layers.
    validate_last_layer: bool = False
    # None: the installation's time to live of an abandoned execution.
    validation_timeout_seconds: float | None = Field(default=None, gt=0, le=31_536_000)
    speculation: Speculation = Speculation()
    replan_review: PlanReview = PlanReview()
    four_eyes: bool = True
    # For every hold of people that has none of its own.
    reminders: Reminders = ()
    escalation: Escalation = ()
    # For how long a decision on a page can be undone; None: the installation's time.
    undo_seconds: float | None = Field(default=None, ge=0, le=600)
    permission_ceiling: str = "trusted"
    #: Put here when an execution starts, from what is published; nobody else writes it.
    review_rules: ReviewRules = ReviewRules()
    # Keys joined by dots; values whose path ends so are masked wherever people look.
    secrets: Annotated[tuple[SecretPath, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _in_order(self) -> Policy:
        # Which deadline a hold has is not known here: what does not fit one is left out of it.
        check([each for each in self.reminders if not each.needs_deadline], self.escalation, None)
        return self

    def waits(self, own: _Waiting) -> tuple[tuple[Reminder, ...], tuple[EscalationStep, ...]]:
        """Reminders and steps of a hold: its own lists, else those of this policy."""
        reminders = self.reminders if own.reminders is None else own.reminders
        return reminders, self.escalation if own.escalation is None else own.escalation

    @field_validator("replan_review", mode="before")
    @classmethod
    def _flag(cls, value: Any) -> Any:
        return {"enabled": value} if isinstance(value, bool) else value

    def overridden_by(self, override: Mapping[str, Any]) -> Policy:
        """This policy with the keys of `override` laid over it, one level deep."""
        merged = self.model_dump(mode="json")
        for key, value in override.items():
            old = merged.get(key)
            if key == "replan_review" and isinstance(value, bool):
                value = {"enabled": value}
            both = isinstance(old, dict) and isinstance(value, Mapping)
            merged[key] = {**old, **value} if both and old is not None else value
        return Policy.model_validate(merged)
