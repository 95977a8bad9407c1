"""Reminders and escalation steps of a hold: their settings, validation and schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

_MAX_SECONDS = 31_536_000
#: Maximum number of reminders or steps of a hold, and of people or groups of a step.
MAX_ENTRIES, MAX_NAMED = 10, 50

Name = Annotated[str, Field(min_length=1, max_length=150)]
_Seconds = Annotated[float, Field(gt=0, le=_MAX_SECONDS)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Reminder(_Frozen):
    """A repeated notification of the people who may decide; exactly one of the three is set.

    `after_seconds` counts from the opening, `before_seconds` back from the deadline, and `at` is a
    fraction of the time in between (0 to 1).
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
        """Return seconds after the opening; None if a hold with this `timeout` ends earlier."""
        if self.after_seconds is not None:
            return self.after_seconds if timeout is None or self.after_seconds < timeout else None
        if timeout is None:
            return None
        if self.at is not None:
            return self.at * timeout
        before = self.before_seconds or 0
        return timeout - before if before < timeout else None


class EscalationStep(_Frozen):
    """After `after_seconds` without a decision, more groups may decide and people are notified.

    `groups` are added to the groups of the hold, never removed.  `tell` has user names; users who
    may not see the run are not notified.
    """

    after_seconds: _Seconds
    groups: tuple[Name, ...] = Field(default=(), max_length=MAX_NAMED)
    tell: tuple[Name, ...] = Field(default=(), max_length=MAX_NAMED)

    @model_validator(mode="after")
    def _somebody(self) -> EscalationStep:
        if not (self.groups or self.tell):
            words = "name groups that may decide then, or people to notify"
            raise PydanticCustomError("nobody", words)
        return self


Reminders = Annotated[tuple[Reminder, ...], Field(max_length=MAX_ENTRIES)]
Escalation = Annotated[tuple[EscalationStep, ...], Field(max_length=MAX_ENTRIES)]


def check(
    reminders: Sequence[Reminder] | None,
    escalation: Sequence[EscalationStep] | None,
    timeout: float | None,
) -> None:
    """Check that reminders and steps are due before `timeout` seconds (None: no deadline).

    Raises:
        pydantic.ValidationError: some would never happen; the errors have their paths.
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
            words = "must be more than after_seconds of the previous step"
            yield _problem("escalation", index, "after_seconds", words)


def _problem(field: str, index: int, key: str, words: str) -> InitErrorDetails:
    kind = PydanticCustomError("never_happens", "{words}", {"words": words})
    return InitErrorDetails(type=kind, loc=(field, index, key), input=None)


def schedule(
    reminders: Sequence[Reminder], escalation: Sequence[EscalationStep], timeout: float | None
) -> dict[str, Any]:
    """Return the reminders and steps that a hold stores, in seconds after its opening.

    Entries of a workflow's common list that are not due before this hold's timeout are left out.
    """
    due: dict[str, Any] = {}
    moments = sorted({at for each in reminders if (at := each.seconds(timeout)) is not None})
    if moments:
        due["reminders"] = moments
    steps = [
        each.model_dump(mode="json")
        for each in escalation
        if timeout is None or each.after_seconds < timeout
    ]
    if steps:
        due["escalation"] = steps
    return due
