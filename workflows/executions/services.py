"""What people and programs do to executions: start, command, fork.  Thin skins call these."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from pydantic import ValidationError
from structlog.contextvars import bound_contextvars

from workflows import conf
from workflows.agents import RegisteredAgents, agent_names
from workflows.common.crashpoints import crashpoint
from workflows.common.schemas import schema_errors
from workflows.engine.commands import FailExecution, InjectTask, ModifyArgs, Replan, load_command
from workflows.engine.dag import CapabilityTask, Plan, ToolTask
from workflows.engine.decide import Refused
from workflows.engine.loop import submit
from workflows.engine.permissions import NAMED
from workflows.engine.plan_validation import PlanInvalid, Problem, validation_problems
from workflows.engine.policy import Policy, ReviewRules
from workflows.engine.policy_floor import Change
from workflows.engine.policy_floor import changes as policy_changes
from workflows.engine.ports import Busy, Ports, Run, StaleVersion
from workflows.engine.reminders import EscalationStep
from workflows.journal import writer as journal_writer
from workflows.models import Checkpoint, CommandLog, Execution, ExecutionEvent, Workflow
from workflows.permissions import capabilities, grants
from workflows.planning.plan_validation import above_ceiling, checked_plan, checked_task
from workflows.planning.planner import CataloguePlanner, tool_schemas
from workflows.review_rules import active_rules
from workflows.speculation import store as speculation_store
from workflows.speculation.services import SpeculativeRunner, request_speculation
from workflows.tools import registry

from . import access
from .dispatch import enqueue_advance_on_commit, enqueue_speculation_on_commit
from .idempotency import json_text
from .layer_runner import LayerRunner
from .layer_summaries import summarise

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: A command without a version is tried again when a worker moves on in between.
_TRIES = 20


class InvalidRequest(Exception):
    """What was asked for is malformed; `problems` names the fields."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{each.path}: {each.message}" for each in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class CommandResult:
    """`outcome` is "applied", or "queued" when a worker will apply it at its next boundary."""

    outcome: str
    version: int
    status: str
    #: Why an applied replan changed nothing: the planner found nothing.
    failure: str = ""


def ports() -> Ports:
    """The engine's surroundings in this process."""
    return Ports(
        journal=journal_writer.DjangoJournal(owner=_owner()),
        runner=SpeculativeRunner(LayerRunner()),
        agents=RegisteredAgents(),
        planner=CataloguePlanner(),
        summarise=summarise,
        max_replans=conf.max_replans(),
        max_failed_replans=conf.max_failed_replans(),
        abandoned_ttl_seconds=conf.abandoned_ttl_seconds(),
        program=capabilities.program,
        at_rest=request_speculation,
    )


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"[:100]


# --- start --------------------------------------------------------------------------------------


def start_execution(
    *,
    actor: User | None,
    workflow: Workflow | None = None,
    plan: Any = None,
    inputs: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    title: str = "",
) -> Execution:
    """Start a workflow, or a plan of its own; a worker is sent for on commit.

    The policy is laid over that of the workflow, or over the installation's floor, and is kept with
    what it changes.  Raises InvalidRequest naming every field at fault, among them those that are
    looser than the floor when the actor may not loosen, and PermissionDenied when the actor came
    with a token that is for other workflows.
    """
    if (workflow is None) == (plan is None):
        raise InvalidRequest((Problem("workflow", "required", "give a workflow or a plan"),))
    _check_limit(actor, workflow)
    values = {**(workflow.default_inputs if workflow else {}), **(inputs or {})}
    _check_inputs(workflow, values)
    checked = check_plan(workflow.plan) if workflow else check_plan(plan, chosen_by=actor)
    floor, override = _Floor.of(workflow), dict(policy or {})
    merged = _usable(override, lambda: floor.policy.overridden_by(override))
    changes = floor.changes(merged)
    floor.check(changes, actor)
    check_groups(plan=checked, policy=merged)
    name = title or (workflow.title if workflow else "Ad-hoc run")
    rules = active_rules.current_rules(workflow) if workflow else ReviewRules()
    with transaction.atomic():
        execution = journal_writer.create(
            workflow=workflow,
            plan=checked,
            policy=merged.model_copy(update={"review_rules": rules}),
            policy_overrides=_override_rows(changes, _name(actor)),
            inputs=values,
            title=name[:200],
            created_by=actor,
        )
        enqueue_advance_on_commit(execution.pk)
    return execution


@dataclass(frozen=True, slots=True)
class _GroupList:
    """Groups that a plan or policy names at `path`.

    A hold has to name some; a step of an escalation may name people to tell instead.
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
            message = f"{' and '.join(sorted(set(self.names)))} decide nothing"
            yield Problem(self.path, "no_deciding_group", message)


def check_groups(*, plan: Plan | None = None, policy: Policy | None = None) -> None:
    """Raise InvalidRequest for groups that do not exist, or none of which ever decides a hold."""
    _check_lists(_group_lists(plan, policy))


def group_warnings(*, plan: Plan | None = None, policy: Policy | None = None) -> list[str]:
    """Name the groups of a plan or policy without an active member who may decide."""
    named = {name for each in _group_lists(plan, policy) for name in each.names}
    people = get_user_model().objects.filter(is_active=True).exclude(groups__name=access.AUDITOR)
    deciding = Group.objects.filter(name__in=named - access.NON_DECIDING_ROLES, user__in=people)
    empty = sorted(named.difference(deciding.values_list("name", flat=True)))
    return [f"The group {name!r} has no active member who may decide." for name in empty]


def run_warnings(execution: Execution) -> list[str]:
    """Name the groups that a run may ask and that have no active member who may decide."""
    plan = journal_writer.load_revision(execution.pk, execution.revision).plan
    return group_warnings(plan=plan, policy=Policy.model_validate(execution.policy))


def _check_lists(lists: Iterable[_GroupList]) -> None:
    asked = list(lists)
    found = Group.objects.filter(name__in={name for each in asked for name in each.names})
    known = {*access.ROLES, *found.values_list("name", flat=True)}
    problems = tuple(problem for each in asked for problem in each.problems(known))
    if problems:
        raise InvalidRequest(problems)


def _group_lists(plan: Plan | None, policy: Policy | None) -> list[_GroupList]:
    tasks = plan.tasks if plan else ()
    lists = [
        each for at, task in enumerate(tasks) for each in _lists_of_task(task, f"plan.tasks[{at}]")
    ]
    return [*lists, *(_lists_of_policy(policy) if policy else ())]


def _lists_of_task(task: Any, path: str) -> Iterator[_GroupList]:
    """The groups that a task's holds ask: a review that is switched off names those of grants."""
    review = task.human_review
    if review is not None:
        yield _GroupList(f"{path}.human_review.groups", review.groups)
        yield from _lists_of_steps(f"{path}.human_review", review.escalation or ())


def _lists_of_policy(policy: Policy) -> Iterator[_GroupList]:
    for path, section in (("hil", policy.hil), ("replan_review", policy.replan_review)):
        if section.enabled:
            yield _GroupList(f"policy.{path}.groups", section.groups)
            yield from _lists_of_steps(f"policy.{path}", section.escalation or ())
    yield from _lists_of_steps("policy", policy.escalation)


def _lists_of_steps(path: str, steps: Iterable[EscalationStep]) -> Iterator[_GroupList]:
    for number, step in enumerate(steps):
        yield _GroupList(f"{path}.escalation[{number}].groups", step.groups, may_be_empty=True)


def _name(actor: User | None) -> str:
    return actor.get_username() if actor is not None else "system"


def _check_limit(actor: User | None, workflow: Workflow | None) -> None:
    only = access.allowed_workflow_ids(actor) if actor is not None else None
    if only is not None and (workflow is None or workflow.pk not in only):
        raise PermissionDenied("This token is for certain workflows alone, and not for this.")


def check_plan(data: Any, *, chosen_by: User | None = None) -> Plan:
    """The plan, checked against the catalogue; raises InvalidRequest with paths below "plan".

    Permission sets that the plan itself chooses have to lie below a ceiling of the person who
    brings it (`chosen_by`), if one does.
    """
    try:
        plan = checked_plan(data, tool_schemas, capabilities.known, registry.confines)
    except PlanInvalid as invalid:
        raise InvalidRequest(_below("plan", invalid.problems)) from invalid
    if chosen_by is not None:
        named = [(f"tasks[{index}]", task) for index, task in enumerate(plan.tasks)]
        problems = _chosen_above(named, access.roles_of(chosen_by))
        if problems:
            raise InvalidRequest(_below("plan", problems))
    return plan


def _chosen_above(tasks: Sequence[tuple[str, Any]], roles: Collection[str]) -> tuple[Problem, ...]:
    return above_ceiling(tasks, grants.selectable_sets(roles), tool_schemas)


def check_policy(data: Mapping[str, Any]) -> Policy:
    """The policy that `data` is; raises InvalidRequest with paths below "policy"."""
    return _usable(data, lambda: Policy.model_validate(data))


def installation_floor() -> Policy:
    """The policy that plans without a workflow start from."""
    return check_policy(conf.policy_floor())


def _usable(written: Mapping[str, Any], make: Callable[[], Policy]) -> Policy:
    """The policy that `make` gives, if this installation can follow it."""
    if "review_rules" in written:
        message = "rules that spare reviews are published for a workflow, not given with a policy"
        raise InvalidRequest((Problem("policy.review_rules", "published_only", message),))
    try:
        policy = make()
    except ValidationError as error:
        raise InvalidRequest(validation_problems(error, "policy")) from error
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


@dataclass(frozen=True, slots=True)
class _Floor:
    """The policy that a run may not be looser than: its workflow's, or the installation's.

    `bound` are the top-level fields that bind; None stands for all of them.
    """

    policy: Policy
    bound: frozenset[str] | None
    source: str

    @classmethod
    def of(cls, workflow: Workflow | None) -> _Floor:
        if workflow is not None:
            return cls(check_policy(workflow.policy), None, "the workflow")
        written = conf.policy_floor()
        return cls(check_policy(written), frozenset(written), "this installation")

    def changes(self, policy: Policy) -> tuple[Change, ...]:
        """What `policy` changes; the rules of a workflow are nobody's to override."""
        return policy_changes(
            self.policy,
            policy.model_copy(update={"review_rules": self.policy.review_rules}),
            installation_undo_seconds=conf.undo_seconds(),
            bound=self.bound,
        )

    def check(self, changes: Iterable[Change], actor: User | None) -> None:
        """Raise InvalidRequest when the actor loosens something and may not; None is ourselves."""
        problems = tuple(self._problem(each) for each in changes if each.loosens)
        if problems and actor is not None and not access.may_loosen(actor):
            raise InvalidRequest(problems)

    def _problem(self, change: Change) -> Problem:
        floor, sent = json_text(change.floor), json_text(change.sent)
        message = (
            f"{self.source} asks for {floor}, and {sent} is looser; that takes the permission"
            " loosen_policy, and with a token the scope loosen as well"
        )
        return Problem(f"policy.{change.path}", "policy_loosened", message)


def _override_rows(
    changes: Iterable[Change], by: str, earlier: Iterable[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Overrides as an execution keeps them; who made an earlier one is not forgotten."""
    made_by = {each["field"]: each["by"] for each in earlier}
    return [
        {
            "field": each.path,
            "from": each.floor,
            "to": each.sent,
            "loosens": each.loosens,
            "by": made_by.get(each.path, by),
        }
        for each in changes
    ]


def _check_inputs(workflow: Workflow | None, values: Mapping[str, Any]) -> None:
    schema = workflow.inputs_schema if workflow else {}
    errors = schema_errors(schema, values) if schema else ()
    if errors:
        raise InvalidRequest(
            tuple(Problem(_join("inputs", e.path), "schema_mismatch", e.message) for e in errors)
        )


def _below(prefix: str, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
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


# --- fork ---------------------------------------------------------------------------------------


def fork_execution(
    *,
    execution: Execution,
    checkpoint: Checkpoint,
    actor: User | None,
    inputs: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    whole: bool = False,
) -> Execution:
    """A new execution that goes on from a checkpoint, with edited inputs or context if given.

    They are laid over the old ones, or with `whole` take their place.  Settled tasks up to the
    checkpoint are taken over and do not run again.  The fork has the policy of the old execution,
    which is measured against what the workflow asks for now, as at a start.  Permissions that were
    granted to the old execution stay with it, and every hold behind the checkpoint opens anew.
    """
    if not whole:
        inputs = {**execution.inputs, **(inputs or {})}
        context = {**checkpoint.context, **(context or {})}
    values, seen = dict(inputs or {}), dict(context or {})
    _check_inputs(execution.workflow, values)
    floor = _Floor.of(execution.workflow)
    changes = floor.changes(Policy.model_validate(execution.policy))
    floor.check(changes, actor)
    starter = _name(execution.created_by)
    with transaction.atomic():
        fork = journal_writer.fork(
            parent=execution,
            checkpoint=checkpoint,
            inputs=values,
            context=seen,
            policy_overrides=_override_rows(changes, starter, execution.policy_overrides),
            created_by=actor,
        )
        enqueue_advance_on_commit(fork.pk)
    return fork


# --- commands -----------------------------------------------------------------------------------


def parse_command(data: Any) -> Any:
    """A command from parsed JSON; raises InvalidRequest with field paths."""
    try:
        return load_command(data)
    except ValidationError as error:
        kind = data.get("kind") if isinstance(data, dict) else None
        raise InvalidRequest(_without_kind(validation_problems(error), kind)) from error


def _without_kind(problems: tuple[Problem, ...], kind: Any) -> tuple[Problem, ...]:
    """Paths without the name of the command, which pydantic puts in front."""
    prefix = f"{kind}."
    return tuple(
        replace(each, path="kind" if each.path == "plan" else each.path.removeprefix(prefix))
        for each in problems
    )


def submit_command(
    *,
    execution_id: int,
    command: Any,
    actor: str,
    source: str,
    version: int | None = None,
) -> CommandResult:
    """Apply a command now, or queue it while a worker holds the execution.

    Raises StaleVersion when `version` is not the present one, Refused with the reason, or
    journal.ExecutionNotFound, InvalidRequest.  Whatever happens is logged; a refusal inside a
    transaction is rolled back with it, and its owner logs it again (`log_refusal`).
    """
    try:
        with bound_contextvars(execution_id=str(execution_id)):
            command = _checked(execution_id, command, actor)
            return _apply_or_queue(execution_id, command, actor, source, version)
    except (Refused, StaleVersion, InvalidRequest) as error:
        log_refusal(
            execution_id=execution_id,
            kind=command.kind,
            actor=actor,
            source=source,
            why=str(error),
            outcome="invalid" if isinstance(error, InvalidRequest) else "refused",
        )
        raise


def _roles_of_name(actor: str) -> frozenset[str]:
    """Roles of the person who gives a command; none for an agent or somebody unknown."""
    person = get_user_model().objects.filter(username=actor).first()
    return access.roles_of(person) if person is not None else frozenset()


def _checked(execution_id: int, command: Any, actor: str) -> Any:
    """Tasks and arguments that come with a command meet the catalogue before anything else."""
    try:
        if isinstance(command, InjectTask):
            task = checked_task(
                command.task, tool_schemas, capabilities.known, "task", registry.confines
            )
            problems = _chosen_above([("task", task)], _roles_of_name(actor))
            if problems:
                raise InvalidRequest(problems)
            _check_lists(_lists_of_task(task, "task"))
            return command.model_copy(update={"task": task})
        if isinstance(command, ModifyArgs):
            _check_arguments(execution_id, command)
    except PlanInvalid as invalid:
        raise InvalidRequest(invalid.problems) from invalid
    return command


def _check_arguments(execution_id: int, command: ModifyArgs) -> None:
    found = Execution.objects.filter(pk=execution_id).values_list("revision", flat=True).first()
    if found is None:
        raise journal_writer.ExecutionNotFound
    task = journal_writer.load_revision(execution_id, found).plan.by_id.get(command.task_id)
    if isinstance(task, ToolTask | CapabilityTask):
        name = "arguments" if isinstance(task, ToolTask) else "inputs"
        changed = task.model_copy(update={name: {**task.values, **command.arguments}})
        checked_task(changed, tool_schemas, capabilities.known, "")


def _apply_or_queue(
    execution_id: int, command: Any, actor: str, source: str, version: int | None
) -> CommandResult:
    for _ in range(_TRIES):
        try:
            run = submit(
                str(execution_id),
                command,
                ports(),
                actor=actor,
                source=source,
                expected_version=version,
            )
        except Busy:
            queued = _queue(execution_id, command, actor, source, version)
            if queued is not None:
                return queued
        except StaleVersion:
            if version is not None:
                raise
        else:
            crashpoint("command.applied")
            if not run.state.status.is_final and not run.state.status.is_resting:
                enqueue_advance_on_commit(execution_id)
            run.tell(at_once=True)
            # A command may change what lies ahead.
            request_speculation(run)
            failure = _replan_failure(run) if isinstance(command, Replan) else ""
            return CommandResult("applied", run.state.version, run.state.status.value, failure)
    raise StaleVersion


def fail_lost_execution(*, execution_id: int, version: int, lost: int, error: str) -> bool:
    """End an execution as FAILED that has lost `lost` workers in a row, with the reason.

    False when it has moved on, or a worker holds it after all: then it is not lost.
    """
    command = FailExecution(lost=lost, error=error)
    try:
        with bound_contextvars(execution_id=str(execution_id)):
            run = submit(
                str(execution_id),
                command,
                ports(),
                actor="system",
                source="sweeper",
                expected_version=version,
            )
    except (Busy, Refused, StaleVersion):
        return False
    run.tell(at_once=True)
    return True


def _replan_failure(run: Run) -> str:
    """Why the replan that was just applied found nothing; "" when it changed the plan."""
    rows = ExecutionEvent.objects.filter(
        execution_id=int(run.execution_id), seq=run.state.version, kind="replan_failed"
    )
    payload = rows.values_list("payload", flat=True).first()
    return str(payload["error"]) if payload else ""


def _queue(
    execution_id: int, command: Any, actor: str, source: str, version: int | None
) -> CommandResult | None:
    """None when the worker let go of the execution in between."""
    held = journal_writer.queue_command(execution_id, command, actor=actor, source=source)
    return None if held is None else CommandResult("queued", *held)


def restart_speculation(*, execution: Execution) -> int:
    """Work ahead again for this execution's workflow: earlier hits and misses are not weighed.

    How many were forgotten; they stay in the counts.
    """
    with transaction.atomic():
        forgotten = speculation_store.reset_statistics(execution.pk)
        enqueue_speculation_on_commit(execution.pk)
    return forgotten


def log_refusal(
    *,
    execution_id: int,
    kind: str,
    actor: str,
    source: str,
    why: str,
    outcome: Literal["refused", "invalid"] = "refused",
) -> None:
    """Keep in the command log what was not done: who wanted it, from where, and why not."""
    if connection.in_atomic_block and connection.needs_rollback:
        return
    CommandLog.objects.create(
        execution_id=execution_id,
        kind=kind,
        actor=actor,
        source=source,
        outcome=outcome,
        detail=why[:2000],
    )
