"""The policy floor: an override may make a run stricter, never looser.

`RULES` has one rule for each field of `Policy`, by its path.  A rule compares two whole policies,
because the effect of a field often depends on others: `hil.groups` has no effect while `hil` is
off.  The relation "at least as strict" is reflexive and transitive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .permissions import NAMED
from .policies import LayerApproval, PlanReview, Policy, ReviewPolicy
from .reminder_schedule import EscalationStep, Reminder

#: Whether the second policy is at least as strict as the first one, in one respect.
Rule = Callable[[Policy, Policy], bool]


@dataclass(frozen=True, slots=True)
class Change:
    """A field whose value in an override differs from the floor; both values as JSON."""

    path: str
    floor: Any
    sent: Any
    loosens: bool


def changes(
    floor: Policy,
    wanted: Policy,
    *,
    installation_undo_seconds: float,
    bound: Collection[str] | None = None,
) -> tuple[Change, ...]:
    """Return the fields in which `wanted` differs from `floor`, and whether each loosens it.

    `installation_undo_seconds` is the value of `undo_seconds` for a policy without one.
    """
    before, after = floor.model_dump(mode="json"), wanted.model_dump(mode="json")
    compared = [_with_undo(each, installation_undo_seconds) for each in (floor, wanted)]
    found = []
    for path, rule in RULES.items():
        is_bound = bound is None or path.partition(".")[0] in bound
        loosens = is_bound and not rule(compared[0], compared[1])
        old, new = _at(before, path), _at(after, path)
        if loosens or old != new:
            found.append(Change(path, old, new, loosens))
    return tuple(found)


def _with_undo(policy: Policy, seconds: float) -> Policy:
    if policy.undo_seconds is not None:
        return policy
    return policy.model_copy(update={"undo_seconds": seconds})


def _at(policy: Any, path: str) -> Any:
    for key in path.split("."):
        policy = policy[key]
    return policy


def loosened_review(floor: ReviewPolicy, wanted: ReviewPolicy) -> tuple[str, ...]:
    """Return the fields in which the review `wanted` is looser than `floor`."""
    sooner = _approves_after(wanted) < _approves_after(floor)
    # An approval by timeout is loosened by the field that causes it.
    timer = "on_timeout" if floor.on_timeout != "approve" else "timeout_seconds"
    fields = {
        "groups": not _fewer_groups(floor, wanted),
        "quorum": wanted.quorum < floor.quorum,
        timer: sooner,
    }
    return tuple(name for name, is_looser in fields.items() if is_looser)


# --- comparing ------------------------------------------------------------------------------------


def _signs_layers(policy: Policy) -> bool:
    """Whether the policy requires people to approve layers."""
    return policy.hil.enabled and policy.hil.approval_required != "never"


def _while(is_on: Callable[[Policy], bool], rule: Rule) -> Rule:
    """Return the rule, applied only while the floor enables its section."""
    return lambda floor, wanted: not is_on(floor) or rule(floor, wanted)


def _rank(value: str, order: Sequence[str]) -> int:
    """Return the position of a value in an order from loose to strict."""
    return order.index(value)


def _approves_after(section: LayerApproval | PlanReview | ReviewPolicy) -> float:
    """Return the seconds until a timeout approves; infinite if a timeout does not approve."""
    if section.on_timeout != "approve" or section.timeout_seconds is None:
        return math.inf
    return section.timeout_seconds


def _fewer_groups(
    floor: LayerApproval | PlanReview | ReviewPolicy,
    wanted: LayerApproval | PlanReview | ReviewPolicy,
) -> bool:
    """Whether the groups are a non-empty subset of the floor's.

    If a timeout approves, the groups must stay the same: the remaining groups might have no members
    who can decide, and only the timeout would.
    """
    before, after = set(floor.groups), set(wanted.groups)
    if after == before:
        return True
    return _approves_after(wanted) == math.inf and bool(after) and after <= before


def _keeps_text(floor: str, wanted: str) -> bool:
    """Whether the instructions begin with the floor's instructions."""
    return wanted.startswith(floor)


def _keeps_reminders(floor: Sequence[Reminder], wanted: Sequence[Reminder]) -> bool:
    return all(each in wanted for each in floor)


def _keeps_escalation(floor: Sequence[EscalationStep], wanted: Sequence[EscalationStep]) -> bool:
    """Whether each step is kept, and no new step adds groups that decide."""
    return all(each in wanted for each in floor) and all(
        each in floor or not each.groups for each in wanted
    )


def _confidence(policy: Policy) -> tuple[float, float]:
    """Return the lowest and the highest confidence that speculation may use."""
    value = policy.speculation.confidence
    return (0.70, 0.95) if isinstance(value, str) else (value, value)


def _at_least_as_confident(floor: Policy, wanted: Policy) -> bool:
    same = floor.speculation.confidence == wanted.speculation.confidence
    return same or _confidence(wanted)[0] >= _confidence(floor)[1]


def _narrower(floor: str, wanted: str) -> bool:
    """Whether a named set allows only what the floor's allows; unknown names allow everything."""
    if floor == wanted:
        return True
    return floor in NAMED and wanted in NAMED and NAMED[floor].covers(NAMED[wanted])


def _either(floor: Policy, wanted: Policy) -> bool:
    """Accept every value: none is looser than another."""
    return True


def _has_plan_review(policy: Policy) -> bool:
    return policy.replan_review.enabled


def _has_agent(policy: Policy) -> bool:
    return policy.ail.enabled


def _hil_timers(policy: Policy) -> tuple[Sequence[Reminder], Sequence[EscalationStep]]:
    return policy.timers_of(policy.hil)


def _plan_timers(policy: Policy) -> tuple[Sequence[Reminder], Sequence[EscalationStep]]:
    return policy.timers_of(policy.replan_review)


def _speculates(policy: Policy) -> bool:
    return policy.speculation.enabled


# --- the table ------------------------------------------------------------------------------------

_REQUIRED: Final = ("never", "critical_only", "always")
_REASON: Final = (False, None, True)
_POINTS: Final = ("manual", "on_error", "per_layer")

_HIL: Final[dict[str, Rule]] = {
    # A required approval cannot be switched off.
    "enabled": lambda floor, wanted: wanted.hil.enabled,
    # never < critical_only < always
    "approval_required": lambda floor, wanted: (
        _rank(wanted.hil.approval_required, _REQUIRED)
        >= _rank(floor.hil.approval_required, _REQUIRED)
    ),
    # Time approves not at all, or not earlier. When it only ends the run, its length is free.
    "timeout_seconds": lambda floor, wanted: (
        _approves_after(wanted.hil) >= _approves_after(floor.hil)
    ),
    "on_timeout": lambda floor, wanted: _approves_after(wanted.hil) >= _approves_after(floor.hil),
    # The same groups, or some of them where time does not approve.
    "groups": lambda floor, wanted: _fewer_groups(floor.hil, wanted.hil),
    # Each reminder is kept; more may be added.
    "reminders": lambda floor, wanted: _keeps_reminders(
        _hil_timers(floor)[0], _hil_timers(wanted)[0]
    ),
    # Each step is kept; steps that only notify may be added.
    "escalation": lambda floor, wanted: _keeps_escalation(
        _hil_timers(floor)[1], _hil_timers(wanted)[1]
    ),
}
_AIL: Final[dict[str, Rule]] = {
    "enabled": lambda floor, wanted: wanted.ail.enabled,
    # manual < on_error < per_layer
    "decision_points": lambda floor, wanted: (
        _rank(wanted.ail.decision_points, _POINTS) >= _rank(floor.ail.decision_points, _POINTS)
    ),
    # Another agent, or other settings, is another check: no order between them.
    "agent": lambda floor, wanted: wanted.ail.agent == floor.ail.agent,
    "settings": lambda floor, wanted: wanted.ail.settings == floor.ail.settings,
    # A run goes on without an agent that is late, so the agent may only get more time.
    "timeout_seconds": lambda floor, wanted: (
        wanted.ail.timeout_seconds >= floor.ail.timeout_seconds
    ),
}
_REPLAN: Final[dict[str, Rule]] = {
    "enabled": lambda floor, wanted: wanted.replan_review.enabled,
    "groups": lambda floor, wanted: _fewer_groups(floor.replan_review, wanted.replan_review),
    "quorum": lambda floor, wanted: wanted.replan_review.quorum >= floor.replan_review.quorum,
    # Reviewers still read the instructions; more may follow.
    "instructions": lambda floor, wanted: _keeps_text(
        floor.replan_review.instructions, wanted.replan_review.instructions
    ),
    "timeout_seconds": lambda floor, wanted: (
        _approves_after(wanted.replan_review) >= _approves_after(floor.replan_review)
    ),
    "on_timeout": lambda floor, wanted: (
        _approves_after(wanted.replan_review) >= _approves_after(floor.replan_review)
    ),
    "reminders": lambda floor, wanted: _keeps_reminders(
        _plan_timers(floor)[0], _plan_timers(wanted)[0]
    ),
    "escalation": lambda floor, wanted: _keeps_escalation(
        _plan_timers(floor)[1], _plan_timers(wanted)[1]
    ),
}
_SPECULATION: Final[dict[str, Rule]] = {
    # Speculation runs tasks before a person has decided: it can be switched off, not on.
    "enabled": lambda floor, wanted: floor.speculation.enabled,
    "confidence": _at_least_as_confident,
    "max_tasks": lambda floor, wanted: wanted.speculation.max_tasks <= floor.speculation.max_tasks,
}


def _section(name: str, is_on: Callable[[Policy], bool], rules: dict[str, Rule]) -> dict[str, Rule]:
    return {f"{name}.{key}": _while(is_on, rule) for key, rule in rules.items()}


def _while_speculating(rule: Rule) -> Rule:
    return lambda floor, wanted: not _speculates(wanted) or rule(floor, wanted)


#: Path of each field of a policy -> when an override of it is at least as strict.
RULES: Final[Mapping[str, Rule]] = {
    **_section("hil", _signs_layers, _HIL),
    **_section("ail", _has_agent, _AIL),
    "per_layer_validation": lambda floor, wanted: (
        wanted.per_layer_validation or not floor.per_layer_validation
    ),
    "validate_last_layer": lambda floor, wanted: (
        wanted.validate_last_layer or not floor.validate_last_layer
    ),
    # A validation that nobody answers ends the run: nothing passes, whenever that is.
    "validation_timeout_seconds": _either,
    **{f"speculation.{key}": _while_speculating(rule) for key, rule in _SPECULATION.items()},
    **_section("replan_review", _has_plan_review, _REPLAN),
    "four_eyes": lambda floor, wanted: wanted.four_eyes or not floor.four_eyes,
    "reminders": lambda floor, wanted: _keeps_reminders(floor.reminders, wanted.reminders),
    "escalation": lambda floor, wanted: _keeps_escalation(floor.escalation, wanted.escalation),
    # A decision can be taken back for at least as long.
    "undo_seconds": lambda floor, wanted: (wanted.undo_seconds or 0) >= (floor.undo_seconds or 0),
    # false < null (on pages) < true
    "require_rejection_reason": lambda floor, wanted: (
        _REASON.index(wanted.require_rejection_reason)
        >= _REASON.index(floor.require_rejection_reason)
    ),
    "permission_ceiling": lambda floor, wanted: _narrower(
        floor.permission_ceiling, wanted.permission_ceiling
    ),
    # A run may keep its files to itself; sharing them is for the workflow to say.
    "files": lambda floor, wanted: wanted.files in ("run", floor.files),
    # Rules that skip reviews are published for a workflow; no override has any.
    "review_rules.version": lambda floor, wanted: (
        wanted.review_rules.version == floor.review_rules.version
    ),
    "review_rules.rules": lambda floor, wanted: (
        wanted.review_rules.rules == floor.review_rules.rules
    ),
    # Another calendar moves every deadline, and with it what a timeout approves.
    "calendar": lambda floor, wanted: wanted.calendar == floor.calendar,
    "business_hours": lambda floor, wanted: wanted.business_hours == floor.business_hours,
    # Which arguments a list shows decides nothing.
    "key_arguments": _either,
    # Each listed value stays masked; more may be.
    "secrets": lambda floor, wanted: set(floor.secrets) <= set(wanted.secrets),
}
