"""Start, fork and command executions.

REST, pages, the MCP gateway and management commands call these functions; none of them writes an
execution in another way.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, connection, transaction
from django.http import Http404
from psycopg.errors import ForeignKeyViolation
from pydantic import ValidationError
from structlog.contextvars import bound_contextvars

from workflows import conf
from workflows.agents import RegisteredAgents
from workflows.calendars.services import with_business_hours
from workflows.common.crashpoints import crashpoint
from workflows.common.redaction import mask_secrets
from workflows.engine.plans.dag import CapabilityTask, ToolTask
from workflows.engine.plans.validation import PlanInvalid, Problem, validation_problems
from workflows.engine.policy.floor import Change
from workflows.engine.policy.policies import Policy, ReviewRules
from workflows.engine.protocol.actors import SYSTEM, Actor
from workflows.engine.protocol.commands import (
    FailExecution,
    InjectTask,
    ModifyArgs,
    Replan,
    load_command,
)
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.loop import submit
from workflows.engine.protocol.ports import Busy, Ports, Run, StaleVersion
from workflows.engine.values.reasons import Reason, load_reason, reason_fields
from workflows.journal import writer as journal_writer
from workflows.models import Checkpoint, CommandLog, Execution, ExecutionEvent, Workflow
from workflows.permissions import capabilities
from workflows.planning.catalogue_validation import checked_task
from workflows.planning.planner import CataloguePlanner, tool_schemas, with_required_reviews
from workflows.remote.live_output import logs_of as remote_logs
from workflows.remote.services import results as remote_results
from workflows.review_rules import active_rules
from workflows.speculation import store as speculation_store
from workflows.speculation.services import SpeculativeRunner, request_speculation

from . import access
from .dispatch import enqueue_advance_on_commit, enqueue_speculation_on_commit
from .layer_runner import LayerRunner
from .layer_summaries import summarise
from .queued_rights import lost_right
from .selectors import replan_questions
from .validation import (
    InvalidRequest,
    PolicyFloor,
    check_groups,
    check_inputs,
    check_plan,
    check_task,
    group_warnings,
    recheck_plan,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: How often a command without an expected version is retried while a worker advances the execution.
_MAX_TRIES = 20


@dataclass(frozen=True, slots=True)
class CommandResult:
    """`outcome` is "applied", or "queued" if a worker will apply the command after the layer."""

    outcome: str
    version: int
    status: str
    #: Why the planner found no new plan, if an applied replan changed nothing.
    failure: Reason | str = ""
    #: What the planner is unsure of, if an applied replan changed the plan.
    questions: tuple[str, ...] = ()


def ports() -> Ports:
    """Return the implementations that the engine uses in this process."""
    return Ports(
        journal=journal_writer.DjangoJournal(owner=_lease_owner()),
        runner=SpeculativeRunner(LayerRunner()),
        agents=RegisteredAgents(),
        planner=CataloguePlanner(),
        summarise=summarise,
        max_replans=conf.max_replans(),
        max_failed_replans=conf.max_failed_replans(),
        capability_code=capabilities.capability_code,
        with_required_reviews=with_required_reviews,
        lost_right=lost_right,
        remote_results=remote_results,
        remote_logs=remote_logs,
        at_rest=request_speculation,
    )


def _lease_owner() -> str:
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
    """Start a workflow or an ad-hoc plan, and enqueue a worker on commit.

    `policy` overrides fields of the workflow's policy, or of the installation's if there is no
    workflow.  The execution stores its effective policy and the list of overrides.

    Raises InvalidRequest for invalid fields, including fields that loosen the policy without the
    permission to do so, and PermissionDenied if the actor's token is limited to other workflows.
    """
    if (workflow is None) == (plan is None):
        raise InvalidRequest((Problem("workflow", "required", "pass either a workflow or a plan"),))
    _check_token_limit(actor, workflow)
    values = {**(workflow.default_inputs if workflow else {}), **(inputs or {})}
    check_inputs(workflow, values)
    floor = PolicyFloor.of(workflow)
    if workflow is not None:
        valid_plan = check_plan(workflow.plan)
    else:
        valid_plan = check_plan(plan, chosen_by=actor, reviewers=floor.reviewers_for(actor))
    effective = floor.overridden_by(dict(policy or {}))
    changes = floor.changes(effective)
    floor.check(changes, actor)
    floor.check_escalation(valid_plan, effective, actor)
    check_groups(plan=valid_plan, policy=effective)
    name = title or (workflow.title if workflow else "Ad-hoc run")
    rules = active_rules.current_rules(workflow) if workflow else ReviewRules()
    effective = with_business_hours(effective.model_copy(update={"review_rules": rules}))
    try:
        # One statement: it needs no transaction of its own.
        execution = journal_writer.create(
            workflow=workflow,
            plan=valid_plan,
            policy=effective,
            policy_overrides=_override_rows(changes, _username(actor)),
            inputs=values,
            title=mask_secrets(name)[:200],
            created_by=actor,
        )
    except IntegrityError as error:
        # A lock on the workflow would cost each start a statement.
        if workflow is None or not isinstance(error.__cause__, ForeignKeyViolation):
            raise
        message = f"the workflow {workflow.name!r} was deleted meanwhile"
        raise InvalidRequest((Problem("workflow", "unknown_workflow", message),)) from None
    enqueue_advance_on_commit(execution.pk)
    return execution


def run_warnings(execution: Execution) -> list[str]:
    """Return a warning for each group of an execution that has no member who may decide."""
    plan = journal_writer.load_revision(execution.pk, execution.revision).plan
    return group_warnings(plan=plan, policy=Policy.model_validate(execution.policy))


def _username(actor: User | None) -> str:
    return actor.get_username() if actor is not None else "system"


def _check_token_limit(actor: User | None, workflow: Workflow | None) -> None:
    only = access.allowed_workflow_ids(actor) if actor is not None else None
    if only is not None and (workflow is None or workflow.pk not in only):
        raise PermissionDenied("This token is limited to other workflows.")


def _override_rows(
    changes: Iterable[Change], by: str, earlier: Iterable[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return policy overrides as an execution stores them; earlier ones keep their author."""
    authors = {each["field"]: each["by"] for each in earlier}
    return [
        {
            "field": each.path,
            "from": each.floor,
            "to": each.sent,
            "loosens": each.loosens,
            "by": authors.get(each.path, by),
        }
        for each in changes
    ]


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
    """Start a new execution from a checkpoint of another one.

    `inputs` and `context` update the original ones, or replace them if `whole` is set.  The fork
    copies the results of tasks that settled before the checkpoint, and opens holds after it again.
    The other tasks get the reviews that the catalogue requires now.  The fork copies the policy,
    which is compared with the workflow's present policy as at a start.  It does not copy
    permissions that were granted to the original execution.

    Raises InvalidRequest as `start_execution` does, and Http404 if the execution is erased
    meanwhile.
    """
    if not whole:
        inputs = {**execution.inputs, **(inputs or {})}
        context = {**checkpoint.context, **(context or {})}
    inputs, context = dict(inputs or {}), dict(context or {})
    check_inputs(execution.workflow, inputs)
    floor = PolicyFloor.of(execution.workflow)
    changes = floor.changes(Policy.model_validate(execution.policy))
    floor.check(changes, actor)
    revision = journal_writer.load_revision(execution.pk, checkpoint.revision)
    begun = frozenset(name for layer in revision.layers[: checkpoint.layer + 1] for name in layer)
    plan = recheck_plan(revision.plan, begun, floor.reviewers_for(actor))
    starter = _username(execution.created_by)
    with transaction.atomic():
        # Retention erases no run while this lock is held, and then not while the fork has data.
        kept = Execution.objects.select_for_update(no_key=True).filter(erased_at=None)
        if not kept.filter(pk=execution.pk).exists():
            raise Http404
        fork = journal_writer.fork(
            parent=execution,
            checkpoint=checkpoint,
            plan=plan,
            inputs=inputs,
            context=context,
            policy_overrides=_override_rows(changes, starter, execution.policy_overrides),
            created_by=actor,
        )
        enqueue_advance_on_commit(fork.pk)
    return fork


# --- commands -----------------------------------------------------------------------------------


def parse_command(data: Any) -> Any:
    """Parse a command from JSON data; raises InvalidRequest with field paths."""
    try:
        return load_command(data)
    except ValidationError as error:
        kind = data.get("kind") if isinstance(data, dict) else None
        raise InvalidRequest(_without_kind(validation_problems(error), kind)) from error


def _without_kind(problems: tuple[Problem, ...], kind: Any) -> tuple[Problem, ...]:
    """Remove the kind of the command, with which pydantic starts each path."""
    prefix = f"{kind}."
    return tuple(
        replace(each, path="kind" if each.path == "plan" else each.path.removeprefix(prefix))
        for each in problems
    )


def submit_command(
    *,
    execution_id: int,
    command: Any,
    actor: Actor,
    source: str,
    version: int | None = None,
) -> CommandResult:
    """Apply a command now, or queue it while a worker holds the execution's lease.

    Raises StaleVersion if `version` is given and not the present one, Refused, InvalidRequest, or
    ExecutionNotFound.  Every command and refusal is logged.  A caller that rolls back its
    transaction after a refusal calls `log_refusal` again, because the log entry is rolled back too.
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
            reason=error.reason if isinstance(error, Refused) else str(error),
            outcome="invalid" if isinstance(error, InvalidRequest) else "refused",
        )
        raise


def _roles_of(actor: Actor) -> frozenset[str]:
    """Return the roles of the user who sends a command; agents have none."""
    user = access.read_user(actor.id) if actor.id is not None else None
    return access.roles_of(user) if user is not None else frozenset()


def _checked(execution_id: int, command: Any, actor: Actor) -> Any:
    """Validate tasks and arguments of a command against the catalogue."""
    try:
        if isinstance(command, InjectTask):
            workflow = Workflow.objects.filter(executions=execution_id).first()
            reviewers = PolicyFloor.of(workflow).reviewers
            task = check_task(command.task, _roles_of(actor), reviewers)
            return command.model_copy(update={"task": task})
        if isinstance(command, ModifyArgs):
            _check_arguments(execution_id, command)
    except PlanInvalid as invalid:
        raise InvalidRequest(invalid.problems) from invalid
    return command


def _check_arguments(execution_id: int, command: ModifyArgs) -> None:
    revision = Execution.objects.filter(pk=execution_id).values_list("revision", flat=True).first()
    if revision is None:
        raise journal_writer.ExecutionNotFound
    task = journal_writer.load_revision(execution_id, revision).plan.by_id.get(command.task_id)
    if isinstance(task, ToolTask | CapabilityTask):
        name = "arguments" if isinstance(task, ToolTask) else "inputs"
        changed = task.model_copy(update={name: {**task.values, **command.arguments}})
        checked_task(changed, tool_schemas, capabilities.known, "")


def _apply_or_queue(
    execution_id: int, command: Any, actor: Actor, source: str, version: int | None
) -> CommandResult:
    for _ in range(_MAX_TRIES):
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
            run.publish(at_once=True)
            # The command may have changed which tasks run next.
            request_speculation(run)
            status = run.state.status.value
            replanned = _replan_outcome(run) if isinstance(command, Replan) else ("", ())
            return CommandResult("applied", run.state.version, status, *replanned)
    raise StaleVersion


def fail_lost_execution(*, execution_id: int, version: int, lost: int, error: str) -> bool:
    """End an execution that lost `lost` workers in a row as FAILED.

    Returns False if the execution has advanced, or if a worker holds its lease.
    """
    command = FailExecution(lost=lost, error=error)
    try:
        with bound_contextvars(execution_id=str(execution_id)):
            run = submit(
                str(execution_id),
                command,
                ports(),
                actor=SYSTEM,
                source="sweeper",
                expected_version=version,
            )
    except (Busy, Refused, StaleVersion):
        return False
    run.publish(at_once=True)
    return True


_REPLANNED = ("plan_revised", "plan_proposed", "replan_failed")


def _replan_outcome(run: Run) -> tuple[Reason | str, tuple[str, ...]]:
    """Return why the replan that was just applied failed, and its questions.

    The reason is "" if it changed the plan.
    """
    rows = ExecutionEvent.objects.filter(
        execution_id=int(run.execution_id), seq__lte=run.state.version, kind__in=_REPLANNED
    )
    event = rows.order_by("-seq").only("kind", "payload").first()
    if event is None or event.kind != "replan_failed":
        return "", replan_questions(event.payload) if event else ()
    reason = load_reason(event.payload.get("error_code"), event.payload.get("error_params"))
    return reason or str(event.payload["error"]), ()


def _queue(
    execution_id: int, command: Any, actor: Actor, source: str, version: int | None
) -> CommandResult | None:
    """Queue a command; returns None if the worker has released the lease since."""
    position = journal_writer.queue_command(execution_id, command, actor=actor, source=source)
    return None if position is None else CommandResult("queued", *position)


def restart_speculation(*, execution: Execution) -> int:
    """Resume speculation for this execution's workflow, ignoring earlier hits and misses.

    Returns how many results are ignored from now on.  The totals on pages still count them.
    """
    with transaction.atomic():
        ignored = speculation_store.reset_statistics(execution.pk)
        enqueue_speculation_on_commit(execution.pk)
    return ignored


def log_refusal(
    *,
    execution_id: int,
    kind: str,
    actor: Actor,
    source: str,
    reason: Reason | str,
    outcome: Literal["refused", "invalid"] = "refused",
) -> None:
    """Record a refused command in the command log."""
    if connection.in_atomic_block and connection.needs_rollback:
        return
    detail = reason if isinstance(reason, Reason) else mask_secrets(reason)[:2000]
    CommandLog.objects.create(
        execution_id=execution_id,
        kind=kind,
        actor=actor.name,
        actor_id=actor.id,
        source=source,
        outcome=outcome,
        **reason_fields("detail", detail),
    )
