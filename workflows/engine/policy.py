"""What a workflow asks of people and agents; an execution may override it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .waiting import Escalation, EscalationStep, Reminder, Reminders, check


class TriggerPhase(StrEnum):
    """When a node's hold opens, seen from the node."""

    BEFORE_EXECUTION = "BEFORE_EXECUTION"
    AFTER_EXECUTION = "AFTER_EXECUTION"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Waiting(_Frozen):
    """What happens while a hold for people waits."""

    # None: those of the policy.
    reminders: Reminders | None = None
    escalation: Escalation | None = None

    @property
    def ends_after(self) -> float | None:
        """Seconds from the opening to the deadline; None when the hold has none."""
        raise NotImplementedError

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


class ReviewPolicy(_Bounded):
    """`human_review` of a task."""

    enabled: bool = True
    trigger_phase: TriggerPhase = TriggerPhase.BEFORE_EXECUTION
    groups: tuple[str, ...] = ("reviewer",)
    quorum: int = Field(default=1, ge=1, le=20)
    on_reject: Literal["abort", "fail", "skip"] = "abort"
    instructions: str = Field(default="", max_length=4000)


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
    # None: the installation's time to live of an abandoned execution.
    validation_timeout_seconds: float | None = Field(default=None, gt=0, le=31_536_000)
    speculation: Speculation = Speculation()
    replan_review: PlanReview = PlanReview()
    four_eyes: bool = True
    # For every hold of people that has none of its own.
    reminders: Reminders = ()
    escalation: Escalation = ()
    permission_ceiling: str = "trusted"

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
