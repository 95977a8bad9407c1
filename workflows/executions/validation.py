"""Validate what callers send to start or change an execution: plans, policies, groups, inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from pydantic import ValidationError

from workflows import conf
from workflows.agents import agent_names
from workflows.calendars.services import calendar_names
from workflows.common.schemas import schema_errors
from workflows.engine.plans.dag import Plan
from workflows.engine.plans.validation import (
    PlanInvalid,
    Problem,
    parse_plan,
    validation_problems,
)
from workflows.engine.policy.floor import Change
from workflows.engine.policy.floor import changes as policy_changes
from workflows.engine.policy.permissions import NAMED
from workflows.engine.policy.policies import Policy
from workflows.engine.policy.reminder_schedule import EscalationStep
from workflows.models import Workflow
from workflows.permissions import capabilities, grants
from workflows.planning.catalogue_validation import (
    above_ceiling,
    checked_plan,
    checked_task,
    other_reviewers,
    required_reviews,
)
from workflows.planning.planner import tool_schemas, with_required_reviews
from workflows.tools import registry

from . import access
from .idempotency import json_text

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class InvalidRequest(Exception):
    """A request is malformed; `problems` names each invalid field."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{each.path}: {each.message}" for each in problems))
        self.problems = problems


# --- plans and tasks ----------------------------------------------------------------------------


def check_plan(
    data: Any, *, chosen_by: User | None = None, reviewers: Collection[str] | None = None
) -> Plan:
    """Validate a plan against the catalogue of tools and capabilities.

    The permission sets that the plan chooses must lie below a ceiling of `chosen_by`, if given, and
    the reviews that the catalogue requires must be for `reviewers`, if given.  Raises
    InvalidRequest; its paths start with "plan".
    """
    try:
        plan = checked_plan(
            data, tool_schemas, capabilities.known, registry.confines, reviewers=reviewers
        )
    except PlanInvalid as invalid:
        raise InvalidRequest(_prefixed("plan", invalid.problems)) from invalid
    if chosen_by is not None:
        named = [(f"tasks[{index}]", task) for index, task in enumerate(plan.tasks)]
        problems = _above_ceiling(named, access.roles_of(chosen_by))
        if problems:
            raise InvalidRequest(_prefixed("plan", problems))
    return plan


def recheck_plan(
    plan: Plan, begun: Collection[str], reviewers: Collection[str] | None = None
) -> Plan:
    """Return the plan of a fork with the reviews that the catalogue requires now.

    Tasks in `begun` stay as they are.  Raises InvalidRequest if a task has a looser review than the
    catalogue allows; its paths start with "plan".
    """
    try:
        return with_required_reviews(plan, begun, reviewers=reviewers)
    except PlanInvalid as invalid:
        raise InvalidRequest(_prefixed("plan", invalid.problems)) from invalid


def check_task(data: Any, roles: Collection[str], reviewers: Collection[str]) -> Any:
    """Validate a task that a user with these roles adds to a plan.

    A review that the catalogue requires must be for `reviewers`.  Raises InvalidRequest, and
    PlanInvalid for problems with the task itself; paths start with "task".
    """
    task = checked_task(
        data,
        tool_schemas,
        capabilities.known,
        "task",
        registry.confines,
        reviewers=reviewers,
        is_added=True,
    )
    problems = _above_ceiling([("task", task)], roles)
    if problems:
        raise InvalidRequest(problems)
    _check_group_lists(_task_group_lists(task, "task"))
    return task


def _above_ceiling(tasks: Sequence[tuple[str, Any]], roles: Collection[str]) -> tuple[Problem, ...]:
    return above_ceiling(tasks, grants.selectable_sets(roles), tool_schemas)


def check_inputs(workflow: Workflow | None, values: Mapping[str, Any]) -> None:
    """Validate inputs against the workflow's schema; raises InvalidRequest."""
    schema = workflow.inputs_schema if workflow else {}
    errors = schema_errors(schema, values) if schema else ()
    if errors:
        raise InvalidRequest(
            tuple(Problem(_join("inputs", e.path), "schema_mismatch", e.message) for e in errors)
        )


def _prefixed(prefix: str, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            prefix if each.path == "plan" else _join(prefix, each.path), each.code, each.message
        )
        for each in problems
    )


def _join(prefix: str, path: str) -> str:
    if not path:
        return prefix
    return f"{prefix}{path}" if path.startswith("[") else f"{prefix}.{path}"


# --- deciding groups ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _GroupList:
    """The groups that a plan or policy names at `path`.

    A hold must name at least one group.  An escalation step may name people to notify instead.
    """

    path: str
    names: tuple[str, ...]
    may_be_empty: bool = False

    def problems(self, known: Collection[str]) -> Iterator[Problem]:
        for index, name in enumerate(self.names):
            if name not in known:
                message = f"there is no group {name!r}"
                yield Problem(f"{self.path}[{index}]", "unknown_group", message)
        if not self.names and not self.may_be_empty:
            yield Problem(self.path, "no_deciding_group", "name at least one group that decides")
        elif self.names and access.NON_DECIDING_ROLES.issuperset(self.names):
            names = " and ".join(sorted(set(self.names)))
            message = f"name a group that may decide: {names} may not"
            yield Problem(self.path, "no_deciding_group", message)


def check_groups(*, plan: Plan | None = None, policy: Policy | None = None) -> None:
    """Raise InvalidRequest for unknown groups and for lists without a group that may decide."""
    _check_group_lists(_group_lists(plan, policy))


def group_warnings(*, plan: Plan | None = None, policy: Policy | None = None) -> list[str]:
    """Return a warning for each group of a plan or policy that has no member who may decide."""
    named = {name for each in _group_lists(plan, policy) for name in each.names}
    if not named:
        return []
    people = get_user_model().objects.filter(is_active=True).exclude(groups__name=access.AUDITOR)
    deciding = Group.objects.filter(name__in=named - access.NON_DECIDING_ROLES, user__in=people)
    empty = sorted(named.difference(deciding.values_list("name", flat=True)))
    return [f"The group {name!r} has no active member who may decide." for name in empty]


def _check_group_lists(lists: Iterable[_GroupList]) -> None:
    lists = list(lists)
    named = {name for each in lists for name in each.names}
    known = {*access.ROLES}
    if not named <= known:
        known |= set(Group.objects.filter(name__in=named).values_list("name", flat=True))
    problems = tuple(problem for each in lists for problem in each.problems(known))
    if problems:
        raise InvalidRequest(problems)


def _group_lists(plan: Plan | None, policy: Policy | None) -> list[_GroupList]:
    tasks = plan.tasks if plan else ()
    lists = [
        each
        for index, task in enumerate(tasks)
        for each in _task_group_lists(task, f"plan.tasks[{index}]")
    ]
    return [*lists, *(_policy_group_lists(policy) if policy else ())]


def _task_group_lists(task: Any, path: str) -> Iterator[_GroupList]:
    # A disabled review counts too: its groups decide about the permissions that the task requests.
    review = task.human_review
    if review is not None:
        yield _GroupList(f"{path}.human_review.groups", review.groups)
        yield from _escalation_group_lists(f"{path}.human_review", review.escalation or ())


def _policy_group_lists(policy: Policy) -> Iterator[_GroupList]:
    for path, section in (("hil", policy.hil), ("replan_review", policy.replan_review)):
        if section.enabled:
            yield _GroupList(f"policy.{path}.groups", section.groups)
            yield from _escalation_group_lists(f"policy.{path}", section.escalation or ())
    yield from _escalation_group_lists("policy", policy.escalation)


def _escalation_group_lists(path: str, steps: Iterable[EscalationStep]) -> Iterator[_GroupList]:
    for number, step in enumerate(steps):
        yield _GroupList(f"{path}.escalation[{number}].groups", step.groups, may_be_empty=True)


# --- policies -----------------------------------------------------------------------------------


def check_policy(data: Mapping[str, Any]) -> Policy:
    """Validate a policy; raises InvalidRequest with paths that start with "policy"."""
    return _checked_policy(data, lambda: Policy.model_validate(data))


def installation_floor() -> Policy:
    """Return the policy that executions without a workflow start from."""
    return check_policy(conf.policy_floor())


def _checked_policy(written: Mapping[str, Any], make: Callable[[], Policy]) -> Policy:
    """Return the policy that `make` builds if this installation supports it."""
    if "review_rules" in written:
        message = "review rules are published for a workflow and cannot be part of a policy"
        raise InvalidRequest((Problem("policy.review_rules", "published_only", message),))
    if "business_hours" in written:
        message = "business hours come from a calendar and cannot be part of a policy"
        raise InvalidRequest((Problem("policy.business_hours", "calendar_only", message),))
    try:
        policy = make()
    except ValidationError as error:
        raise InvalidRequest(validation_problems(error, "policy")) from error
    if policy.calendar and policy.calendar not in calendar_names():
        message = f"there is no calendar {policy.calendar!r}"
        raise InvalidRequest((Problem("policy.calendar", "unknown_calendar", message),))
    if policy.permission_ceiling not in NAMED:
        message = f"must be one of {', '.join(NAMED)}"
        raise InvalidRequest(
            (Problem("policy.permission_ceiling", "unknown_permission_set", message),)
        )
    if policy.ail.enabled and policy.ail.agent not in agent_names():
        known = ", ".join(sorted(agent_names()))
        message = f"no agent is registered as {policy.ail.agent!r}; there are: {known}"
        raise InvalidRequest((Problem("policy.ail.agent", "unknown_agent", message),))
    return policy


def _groups_of_plan(plan: Mapping[str, Any]) -> frozenset[str]:
    """Return the groups that the reviews of a stored plan name."""
    try:
        tasks = parse_plan(plan).tasks
    except PlanInvalid:
        return frozenset()
    return frozenset(
        name for each in tasks if each.human_review for name in each.human_review.groups
    )


@dataclass(frozen=True, slots=True)
class PolicyFloor:
    """The policy that an execution may tighten: its workflow's, or the installation's.

    `bound` names the top-level fields that an execution may not loosen; None means all of them.
    """

    policy: Policy
    bound: frozenset[str] | None
    source: str

    #: The groups that the workflow names in the reviews of its plan.
    plan_groups: frozenset[str] = frozenset()

    @classmethod
    def of(cls, workflow: Workflow | None) -> PolicyFloor:
        if workflow is not None:
            policy, groups = check_policy(workflow.policy), _groups_of_plan(workflow.plan)
            return cls(policy, None, "the workflow", groups)
        written = conf.policy_floor()
        return cls(check_policy(written), frozenset(written), "this installation")

    @property
    def reviewers(self) -> frozenset[str]:
        """The groups to which an author may give the reviews that the catalogue requires."""
        sections = (self.policy.hil, self.policy.replan_review)
        groups = [each.groups for each in sections if each.enabled]
        groups += [step.groups for step in self.policy.escalation]
        named = {name for each in groups for name in each}
        return frozenset({access.REVIEWER, *named, *self.plan_groups})

    def reviewers_for(self, actor: User | None) -> frozenset[str] | None:
        """Return `reviewers`, or None for an actor who may name any group."""
        return None if actor is None or access.may_loosen(actor) else self.reviewers

    def check_escalation(self, plan: Plan, policy: Policy, actor: User | None) -> None:
        """Refuse an escalation of the policy that gives required reviews to other groups."""
        reviewers = self.reviewers_for(actor)
        problems = [
            problem
            for number, step in enumerate(policy.escalation)
            if step not in self.policy.escalation
            for problem in other_reviewers(
                step.groups, reviewers, f"policy.escalation[{number}].groups"
            )
        ]
        if problems and required_reviews(plan, tool_schemas, capabilities.known):
            raise InvalidRequest(tuple(problems))

    def overridden_by(self, override: Mapping[str, Any]) -> Policy:
        """Return the floor with `override` applied; raises InvalidRequest."""
        return _checked_policy(override, lambda: self.policy.overridden_by(override))

    def changes(self, policy: Policy) -> tuple[Change, ...]:
        """Return where `policy` differs from the floor, apart from what an execution copies."""
        copied = {name: getattr(self.policy, name) for name in ("review_rules", "business_hours")}
        return policy_changes(
            self.policy,
            policy.model_copy(update=copied),
            installation_undo_seconds=conf.undo_seconds(),
            bound=self.bound,
        )

    def check(self, changes: Iterable[Change], actor: User | None) -> None:
        """Raise InvalidRequest if a change loosens the floor and the actor may not do that.

        An actor of None stands for the product itself, which may.
        """
        problems = tuple(self._problem(each) for each in changes if each.loosens)
        if problems and actor is not None and not access.may_loosen(actor):
            raise InvalidRequest(problems)

    def _problem(self, change: Change) -> Problem:
        floor, sent = json_text(change.floor), json_text(change.sent)
        message = (
            f"{self.source} requires {floor}, and {sent} is looser; this needs the permission"
            " loosen_policy, and for a token also the scope loosen"
        )
        return Problem(f"policy.{change.path}", "policy_loosened", message)
