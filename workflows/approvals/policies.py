"""The review of an external action: the policy of its name, which a caller can only tighten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from django.db.models import QuerySet
from pydantic import ValidationError

from workflows import conf
from workflows.engine.plans.dag import ExternalActionTask, ToolTask
from workflows.engine.plans.risk import Risk, highest_risk, task_risk
from workflows.engine.plans.validation import Problem, validation_problems
from workflows.engine.policy.floor import loosened_review
from workflows.engine.policy.policies import (
    AgentDecisions,
    LayerApproval,
    PlanReview,
    Policy,
    ReviewPolicy,
    ReviewRules,
    Speculation,
)
from workflows.executions.validation import InvalidRequest, installation_floor
from workflows.models import ApprovalPolicy
from workflows.planning.planner import known_tools

#: The field of a request for each field of the review that it may tighten.
_FIELDS: Final = ("groups", "quorum", "timeout_seconds", "on_timeout", "max_change_requests")
_MAX_INSTRUCTIONS: Final = 4000
#: The largest number of masked paths of a policy, and the depth to which a schema is searched.
_MAX_SECRETS, _MAX_DEPTH = 100, 20


@dataclass(frozen=True, slots=True)
class ActionPolicy:
    """The policy of one action: `row` is None if no policy matches its name."""

    row: ApprovalPolicy | None

    @classmethod
    def of(cls, name: str) -> ActionPolicy:
        """Return the enabled policy with the longest pattern that matches the name."""
        rows = [row for row in _enabled() if _matches(name, row)]
        return cls(max(rows, key=lambda row: (row.pattern == name, len(row.pattern)), default=None))

    @property
    def pattern(self) -> str:
        return self.row.pattern if self.row else ""

    @property
    def rules(self) -> ReviewRules:
        """The rules that are tried after the one of the review."""
        return self.row.review_rules() if self.row else ReviewRules()

    @property
    def calendar(self) -> str | None:
        """The name of the policy's calendar; None if it has none."""
        return self.row.calendar.name if self.row and self.row.calendar else None

    def review(self, asked: Mapping[str, Any], phase: str) -> ReviewPolicy:
        """Return the review of a request; raises InvalidRequest for a looser one."""
        floor = self.row.review() if self.row else ReviewPolicy()
        stated = {name: asked[name] for name in _FIELDS if name in asked}
        instructions = [floor.instructions, asked.get("instructions", "")]
        try:
            review = ReviewPolicy.model_validate(
                {
                    **floor.model_dump(),
                    **stated,
                    "trigger_phase": phase,
                    "instructions": "\n\n".join(filter(None, instructions))[:_MAX_INSTRUCTIONS],
                }
            )
        except ValidationError as error:
            raise InvalidRequest(validation_problems(error)) from error
        problems = tuple(self._problems(floor, review))
        if problems:
            raise InvalidRequest(problems)
        return review

    def _problems(self, floor: ReviewPolicy, review: ReviewPolicy) -> Iterator[Problem]:
        if self.row is None:
            if review.on_timeout == "approve" and not conf.approve_by_timeout():
                message = "no policy lets a timeout approve this action"
                yield Problem("on_timeout", "policy_loosened", message)
            return
        for name in loosened_review(floor, review):
            value = getattr(floor, name)
            shown = ", ".join(value) if isinstance(value, tuple) else value
            message = f"the policy {self.pattern} requires {shown}, and this is looser"
            yield Problem(name, "policy_loosened", message)

    def risk(self, name: str, stated: str) -> Risk:
        """Return the highest of the stated risk, the policy's floor and the tool's risk."""
        floor = self.row.minimum_risk if self.row else "low"
        return highest_risk((cast("Risk", stated or "high"), cast("Risk", floor), _tool_risk(name)))


def _tool_risk(name: str) -> Risk:
    """Return the risk of a task with the tool of this name; low if the catalogue has none."""
    tool = known_tools([name]).get(name)
    if tool is None:
        return "low"
    review = ReviewPolicy(always=True) if tool.can_destroy else None
    return task_risk(
        ToolTask(
            id="tool",
            type="tool",
            tool=name,
            permission_set=tool.permission_set,
            human_review=review,
        )
    )


def samples(review: ReviewPolicy, rules: ReviewRules) -> bool:
    """Whether a rule has people review a share of what it skips."""
    return any(each.sample is not None for each in (review, *rules.rules))


def _enabled() -> QuerySet[ApprovalPolicy]:
    return ApprovalPolicy.objects.filter(enabled=True).select_related("calendar")


def _matches(name: str, row: ApprovalPolicy) -> bool:
    pattern = row.pattern
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def execution_policy(task: ExternalActionTask, action: ActionPolicy) -> Policy:
    """Return the policy of an approval's execution: its review is the only hold.

    Rules and calendar are those of the action's policy; without one of its own, the installation's
    calendar applies. Four eyes, reminders, escalation and undo follow the installation.
    """
    floor = installation_floor()
    secrets = [*floor.secrets, *_secret_keys(task.argument_schema)]
    return floor.model_copy(
        update={
            "hil": LayerApproval(),
            "ail": AgentDecisions(),
            "per_layer_validation": False,
            "validate_last_layer": False,
            "speculation": Speculation(),
            "replan_review": PlanReview(),
            "review_rules": action.rules,
            "require_rejection_reason": True,
            "calendar": floor.calendar if action.calendar is None else action.calendar,
            # Lists and records know only the paths, not the caller's schema.
            "secrets": tuple(dict.fromkeys(secrets))[:_MAX_SECRETS],
        }
    )


def _secret_keys(schema: Any) -> Iterator[str]:
    """Yield the names of properties that the schema declares as secret."""
    waiting = [(schema, 0)]
    while waiting:
        rules, depth = waiting.pop()
        if isinstance(rules, list):
            waiting.extend((each, depth + 1) for each in rules)
        if not isinstance(rules, dict) or depth > _MAX_DEPTH:
            continue
        properties = rules.get("properties")
        for name, rule in properties.items() if isinstance(properties, dict) else ():
            secret = isinstance(rule, dict) and (
                rule.get("writeOnly") is True or rule.get("format") == "password"
            )
            if secret and name and "." not in name and len(name) <= 200:
                yield name
        waiting.extend((each, depth + 1) for each in rules.values())
