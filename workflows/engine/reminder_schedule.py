"""While a hold waits: reminders, and steps that bring in more people when nobody decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

_MAX_SECONDS = 31_536_000
#: Reminders and steps that one hold may have, people and groups that one step may name.
MAX_ENTRIES, MAX_NAMED = 10, 50

Name = Annotated[str, Field(min_length=1, max_length=150)]
_Seconds = Annotated[float, Field(gt=0, le=_MAX_SECONDS)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Reminder(_Frozen):
    """When those who may decide are told again; exactly one of the three.

    `after_seconds` counts from the opening, `before_seconds` from the deadline, `at` is a share of
    the time in between (0 to 1).
    """

    after_seconds: _Seconds | None = None
    before_seconds: _Seconds | None = None
    at: Annotated[float, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Reminder:
        given = [self.after_seconds, self.before_seconds, self.at]
        if sum(each is not None for each in given) != 1:
            words = "give exactly one of after_seconds, before_seconds and at"
            raise PydanticCustomError("no_moment", words)
        return self

    @property
    def needs_deadline(self) -> bool:
        return self.after_seconds is None

    def seconds(self, timeout: float | None) -> float | None:
        """Seconds after the opening; None when the hold, open for `timeout`, has no such moment."""
        if self.after_seconds is not None:
            return self.after_seconds if timeout is None or self.after_seconds < timeout else None
        if timeout is None:
            return None
        if self.at is not None:
            return self.at * timeout
        before = self.before_seconds or 0
        return timeout - before if before < timeout else None


class EscalationStep(_Frozen):
    """Nobody decided for `after_seconds`: these groups may decide too, these people are told.

    Groups are added to those of the hold and never taken away.  `tell` are user names; whoever may
    not see the run is not told.
    """

    after_seconds: _Seconds
    groups: tuple[Name, ...] = Field(default=(), max_length=MAX_NAMED)
    tell: tuple[Name, ...] = Field(default=(), max_length=MAX_NAMED)

    @model_validator(mode="after")
    def _somebody(self) -> EscalationStep:
        if not (self.groups or self.tell):
            words = "name groups that may decide then, or people to tell"
            raise PydanticCustomError("nobody", words)
        return self


Reminders = Annotated[tuple[Reminder, ...], Field(max_length=MAX_ENTRIES)]
Escalation = Annotated[tuple[EscalationStep, ...], Field(max_length=MAX_ENTRIES)]


def check(
    reminders: Sequence[Reminder] | None,
    escalation: Sequence[EscalationStep] | None,
    timeout: float | None,
) -> None:
    """Refuse what would never happen in a hold that ends after `timeout` seconds (None: never).

    Raises pydantic's ValidationError with the paths at fault.
    """
    problems = [*_reminder_problems(reminders or (), timeout)]
    problems += _step_problems(escalation or (), timeout)
    if problems:
        raise ValidationError.from_exception_data("waiting", problems)


def _reminder_problems(
    reminders: Sequence[Reminder], timeout: float | None
) -> Iterator[InitErrorDetails]:
    for index, each in enumerate(reminders):
        if each.needs_deadline and timeout is None:
            key = "at" if each.at is not None else "before_seconds"
            yield _problem("reminders", index, key, "needs a deadline, and this hold has none")
        elif each.seconds(timeout) is None:
            key = "after_seconds" if each.before_seconds is None else "before_seconds"
            yield _problem("reminders", index, key, "must be less than timeout_seconds")


def _step_problems(
    steps: Sequence[EscalationStep], timeout: float | None
) -> Iterator[InitErrorDetails]:
    for index, each in enumerate(steps):
        if timeout is not None and each.after_seconds >= timeout:
            words = "must be less than timeout_seconds"
            yield _problem("escalation", index, "after_seconds", words)
        elif index and each.after_seconds <= steps[index - 1].after_seconds:
            words = "must be more than that of the step before"
            yield _problem("escalation", index, "after_seconds", words)


def _problem(field: str, index: int, key: str, words: str) -> InitErrorDetails:
    kind = PydanticCustomError("never_happens", "{words}", {"words": words})
    return InitErrorDetails(type=kind, loc=(field, index, key), input=None)


def schedule(
    reminders: Sequence[Reminder], escalation: Sequence[EscalationStep], timeout: float | None
) -> dict[str, Any]:
    """What a hold keeps of it, in seconds after its opening; {} when nothing will happen.

    A workflow's common list may hold what does not fit this hold: that is left out.
    """
    found: dict[str, Any] = {}
    moments = sorted({at for each in reminders if (at := each.seconds(timeout)) is not None})
    if moments:
        found["reminders"] = moments
    steps = [
        each.model_dump(mode="json")
        for each in escalation
        if timeout is None or each.after_seconds < timeout
    ]
    if steps:
        found["escalation"] = steps
    return found
