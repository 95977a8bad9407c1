"""The policy of a workflow, which an execution may override."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from workflows.engine.values.expressions import expression_error
from workflows.engine.values.secret_text import MaskedText

from .reminder_schedule import Escalation, EscalationStep, Reminder, Reminders, check


class TriggerPhase(StrEnum):
    """Whether a review opens before or after its task runs."""

    BEFORE_EXECUTION = "BEFORE_EXECUTION"
    AFTER_EXECUTION = "AFTER_EXECUTION"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


DottedPath = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^.]+(\.[^.]+)*$")]


class _HoldTimers(_Frozen):
    """Reminders and escalation of a hold that people decide."""

    # None: the lists of the policy apply.
    reminders: Reminders | None = None
    escalation: Escalation | None = None

    @property
    @abstractmethod
    def seconds_to_deadline(self) -> float | None:
        """Return the seconds from the opening to the deadline; None if there is no deadline."""

    @model_validator(mode="after")
    def _check_timers(self) -> _HoldTimers:
        check(self.reminders, self.escalation, self.seconds_to_deadline)
        return self


class _OptionalTimeout(_HoldTimers):
    """A hold whose timeout can be left out, or can have no effect (`keep_waiting`)."""

    timeout_seconds: float | None = Field(default=None, gt=0, le=31_536_000)
    on_timeout: Literal["reject", "approve", "keep_waiting"] = "reject"

    @property
    def seconds_to_deadline(self) -> float | None:
        return None if self.on_timeout == "keep_waiting" else self.timeout_seconds


class SkipConditions(_Frozen):
    """Conditions under which a review is skipped; fields of a task's review and of a rule.

    `skip_when` is a JMESPath expression, evaluated against `{"inputs": …}` before the task runs and
    against `{"inputs": …, "output": …}` afterwards.  Without it the condition always holds.
    `sample` is the share (0 to 1) of these reviews that people still do; without it, none.
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
        """Whether the conditions can skip a review."""
        return self.skip_when is not None or self.sample is not None


class ReviewPolicy(_OptionalTimeout, SkipConditions):
    """`human_review` of a task.  With `always`, no rule skips the review."""

    enabled: bool = True
    trigger_phase: TriggerPhase = TriggerPhase.BEFORE_EXECUTION
    groups: tuple[str, ...] = ("reviewer",)
    quorum: int = Field(default=1, ge=1, le=20)
    on_reject: Literal["abort", "fail", "skip"] = "abort"
    # How many times reviewers may request changes to the output of the task.
    max_change_requests: int = Field(default=3, ge=0, le=20)
    instructions: MaskedText = ""
    always: bool = False

    @model_validator(mode="after")
    def _check_always(self) -> ReviewPolicy:
        if self.always and self.can_skip:
            message = "a review that always happens takes neither skip_when nor sample"
            raise PydanticCustomError("always_reviewed", message)
        return self


_Name = Annotated[str, Field(min_length=1, max_length=200)]


class ReviewRule(SkipConditions):
    """A published rule that skips reviews of a workflow.

    `tools` and `tasks` limit the rule to targets (`git.git_log`, `git.*`) and task ids; an empty
    list sets no limit. The id of an action of an outside agent is its name.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.\-]{0,79}$")
    tools: tuple[_Name, ...] = Field(default=(), max_length=50)
    tasks: tuple[_Name, ...] = Field(default=(), max_length=50)
    phase: TriggerPhase | None = None

    @model_validator(mode="after")
    def _check_conditions(self) -> ReviewRule:
        if not self.can_skip:
            message = "give skip_when, sample or both: a rule without them would spare everything"
            raise PydanticCustomError("empty_rule", message)
        return self

    def is_for(self, *, task_id: str, target: str, phase: TriggerPhase) -> bool:
        """Whether the rule applies to reviews of this task, with this tool, in this phase."""
        return (
            (not self.tasks or task_id in self.tasks)
            and (not self.tools or any(_matches(target, each) for each in self.tools))
            and self.phase in (None, phase)
        )


def _matches(target: str, pattern: str) -> bool:
    return target.startswith(pattern[:-1]) if pattern.endswith("*") else target == pattern


class ReviewRules(_Frozen):
    """The published rules of a workflow; version 0 has no rules."""

    version: int = Field(default=0, ge=0)
    rules: tuple[ReviewRule, ...] = Field(default=(), max_length=50)

    @model_validator(mode="after")
    def _check_names(self) -> ReviewRules:
        names = [rule.name for rule in self.rules]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            message = "the name {name} is used more than once"
            raise PydanticCustomError("duplicate_name", message, {"name": twice})
        return self


class LayerApproval(_HoldTimers):
    """`hil`: a person approves a layer before it runs."""

    enabled: bool = False
    timeout_seconds: float = Field(default=300, gt=0, le=31_536_000)
    on_timeout: Literal["abort", "approve"] = "abort"
    approval_required: Literal["always", "critical_only", "never"] = "always"
    groups: tuple[str, ...] = ("reviewer",)

    @property
    def seconds_to_deadline(self) -> float | None:
        return self.timeout_seconds


class AgentDecisions(_Frozen):
    """`ail`: an agent decides between layers.

    `agent` is a name registered in workflows.agents, or "external" for an agent that decides over
    REST or MCP.  `settings` is passed to the agent unchanged; a rule agent reads its rules from it.
    """

    enabled: bool = False
    decision_points: Literal["per_layer", "on_error", "manual"] = "per_layer"
    agent: str = Field(default="external", max_length=100)
    timeout_seconds: float = Field(default=60, gt=0, le=86_400)
    settings: dict[str, Any] = {}


class PlanReview(_OptionalTimeout):
    """`replan_review`: a person decides whether a proposed change of the plan is made.

    `true` and `false` are short for `enabled`.  After a rejection, by a person or by a timeout, the
    run continues with its present plan.
    """

    enabled: bool = False
    groups: tuple[str, ...] = ("reviewer",)
    quorum: int = Field(default=1, ge=1, le=20)
    instructions: MaskedText = ""


class Speculation(_Frozen):
    """Speculation: read-only tools run while a person decides.

    `confidence` is the required probability that a result will be used: a fixed share, or "learned"
    per pair of tools from its hits and misses, between 0.70 and 0.95.  `max_tasks` limits the
    stored results of one execution.
    """

    enabled: bool = False
    confidence: Annotated[float, Field(ge=0, le=1)] | Literal["learned"] = 0.7
    max_tasks: int = Field(default=8, ge=1, le=100)


_OpeningTime = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
_ClosingTime = Annotated[str, Field(pattern=r"^(([01]\d|2[0-3]):[0-5]\d|24:00)$")]
_Hours = Annotated[tuple[tuple[_OpeningTime, _ClosingTime], ...], Field(max_length=10)]


class BusinessHours(_Frozen):
    """A calendar of business hours: seconds until a deadline count only while it is open.

    `week` has the hours from Monday to Sunday.  A day of `exceptions` ("YYYY-MM-DD") has its own
    hours, also on a public holiday of `country` (and `subdivision`), which is closed otherwise.
    """

    name: str = Field(max_length=100)
    time_zone: str = Field(max_length=64)
    week: Annotated[tuple[_Hours, ...], Field(min_length=7, max_length=7)]
    country: str = Field(default="", max_length=2)
    subdivision: str = Field(default="", max_length=10)
    exceptions: dict[Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")], _Hours] = Field(
        default={}, max_length=500
    )

    @field_validator("time_zone")
    @classmethod
    def _is_time_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise PydanticCustomError("time_zone", "there is no such time zone") from None
        return value

    @model_validator(mode="after")
    def _check_hours(self) -> BusinessHours:
        for day in (*self.week, *self.exceptions.values()):
            times = [time for interval in day for time in interval]
            if any(later <= earlier for earlier, later in pairwise(times)):
                message = "the hours of a day must be in order and must not overlap"
                raise PydanticCustomError("hours", message)
        if not any(self.week):
            raise PydanticCustomError("closed", "at least one weekday must have hours")
        return self


class Policy(_Frozen):
    """The policy of a workflow, or of one execution."""

    hil: LayerApproval = LayerApproval()
    ail: AgentDecisions = AgentDecisions()
    per_layer_validation: bool = False
    # With per_layer_validation: also after the last layer, where a replan can still add layers.
    validate_last_layer: bool = False
    # None: the installation's time to live of an abandoned execution.
    validation_timeout_seconds: float | None = Field(default=None, gt=0, le=31_536_000)
    speculation: Speculation = Speculation()
    replan_review: PlanReview = PlanReview()
    four_eyes: bool = True
    # For holds of people without lists of their own.
    reminders: Reminders = ()
    escalation: Escalation = ()
    # Seconds for which a decision on a page can be undone; None: the setting of the installation.
    undo_seconds: float | None = Field(default=None, ge=0, le=600)
    # Whether a rejection needs a comment; None: on pages, and not over REST and MCP.
    require_rejection_reason: bool | None = None
    permission_ceiling: str = "trusted"
    # Whether each run has a folder for its files, or all runs of the workflow share one.
    files: Literal["run", "workflow"] = "run"
    # Name of the calendar in whose hours deadlines, reminders and escalations of people count.
    # None: the calendar of the installation, if any; "": around the clock.
    calendar: str | None = Field(default=None, max_length=100)
    #: Copied from the calendar when an execution starts; requests cannot set it.
    business_hours: BusinessHours | None = None
    #: Copied from the published rules when an execution starts; requests cannot set it.
    review_rules: ReviewRules = ReviewRules()
    # Keys joined by dots: the arguments that tell reviews of this workflow apart in the queue.
    key_arguments: Annotated[tuple[DottedPath, ...], Field(max_length=4)] = ()
    # Keys joined by dots; values whose path ends with one of them are masked for people.
    secrets: Annotated[tuple[DottedPath, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _check_timers(self) -> Policy:
        # Deadlines are set per hold; a hold leaves out the reminders that do not fit its own.
        check([each for each in self.reminders if not each.needs_deadline], self.escalation, None)
        return self

    def timers_of(
        self, own: _HoldTimers
    ) -> tuple[tuple[Reminder, ...], tuple[EscalationStep, ...]]:
        """Return reminders and escalation steps of a hold: its own lists, or this policy's."""
        reminders = self.reminders if own.reminders is None else own.reminders
        return reminders, self.escalation if own.escalation is None else own.escalation

    @field_validator("replan_review", mode="before")
    @classmethod
    def _expand_flag(cls, value: Any) -> Any:
        return {"enabled": value} if isinstance(value, bool) else value

    def overridden_by(self, override: Mapping[str, Any]) -> Policy:
        """Return this policy with the keys of `override` replaced, one level deep."""
        merged = self.model_dump(mode="json")
        for key, value in override.items():
            old = merged.get(key)
            if key == "replan_review" and isinstance(value, bool):
                value = {"enabled": value}
            both = isinstance(old, dict) and isinstance(value, Mapping)
            merged[key] = {**old, **value} if both and old is not None else value
        return Policy.model_validate(merged)
