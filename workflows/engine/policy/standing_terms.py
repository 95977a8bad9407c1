"""Standing answers: the approval of an external action that also covers later, similar ones."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from workflows.engine.values.bounded_json import canonical

#: The longest standing answer that a policy may allow, in hours.
MAX_HOURS: Final = 720
#: How many actions a standing answer covers unless it says otherwise, and at most.
USES: Final = 20
MAX_USES: Final = 1000


class UpTo(BaseModel):
    """A number from 0 to `up_to`; over all uses together at most `in_all`, if it is set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    up_to: float = Field(ge=0, allow_inf_nan=False, strict=True)
    in_all: float | None = Field(default=None, ge=0, allow_inf_nan=False, strict=True)


Rule = Literal["exact", "any"] | UpTo


_ADAPTER: Final[TypeAdapter[Rule]] = TypeAdapter(Rule)


def parse_rule(value: Any) -> Rule:
    """Return a rule from parsed JSON; raises ValueError."""
    return _ADAPTER.validate_python(value)


class StandingTerms(BaseModel):
    """For how long and how often an approval covers later actions, and which arguments may differ.

    An argument without a rule has to be exactly the approved one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float = Field(gt=0, le=MAX_HOURS * 3600)
    max_uses: int = Field(default=USES, ge=1, le=MAX_USES)
    arguments: dict[str, Rule] = Field(default={}, max_length=100)


class StandingUse(BaseModel):
    """The standing answer that covers an action: the id of its grant, its giver and its end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grant: str
    given_by: str
    expires_at: str


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def covers(
    rules: Mapping[str, Rule], approved: Mapping[str, Any], asked: Mapping[str, Any]
) -> bool:
    """Return whether an approval of `approved` with these rules covers the arguments `asked`.

    Both have the same names: an argument that the reviewer did not see is never covered.
    """
    if approved.keys() != asked.keys():
        return False
    return all(_fits(rules.get(name, "exact"), approved[name], asked[name]) for name in asked)


def _fits(rule: Rule, approved: Any, asked: Any) -> bool:
    if isinstance(rule, UpTo):
        return is_number(asked) and 0 <= asked <= rule.up_to
    return rule == "any" or canonical(asked) == canonical(approved)


def sums_after(
    rules: Mapping[str, Rule], sums: Mapping[str, Any], asked: Mapping[str, Any]
) -> dict[str, str] | None:
    """Return the sums of the limited arguments after this use; None if one is above its limit.

    Sums are decimal numbers in text, so that many small amounts add up exactly.
    """
    after = {}
    for name, rule in rules.items():
        if isinstance(rule, UpTo) and rule.in_all is not None:
            total = Decimal(sums.get(name, "0")) + Decimal(str(asked[name]))
            if total > Decimal(str(rule.in_all)):
                return None
            after[name] = str(total)
    return after
