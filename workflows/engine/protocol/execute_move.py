"""`execute_move(run, move, ports)`: carries out one move and records its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import singledispatch

from pydantic import ValidationError

from workflows.engine.plans.dag import ExternalActionTask, reads_context
from workflows.engine.plans.task_errors import (
    PermissionEscalationNeeded,
    TaskFailed,
    attempt_reason,
)
from workflows.engine.plans.validation import validation_problems
from workflows.engine.policy.permissions import NAMED, admits
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.values.bounded_json import Limits, check_value, digest
from workflows.engine.values.reasons import Reason, reason_fields

from . import events as ev
from .actors import Actor
from .actors import agent as agent_actor
from .commands import MAX_MESSAGE_LENGTH, Abort, AddMessage, Replan, shortened
from .decide import DecisionContext, Refused, decide
from .handle_command import handle_command
from .hold_opening import hold_opened
from .moves import (
    AskAgent,
    Begin,
    CloseLayer,
    EndWait,
    Finish,
    Move,
    OpenHolds,
    RecordLayerSkip,
    RunTasks,
    StartLayer,
)
from .ports import (
    AgentAnswer,
    AgentQuestion,
    Failure,
    Ports,
    Run,
    SpeculationOutcome,
    Submitted,
    Success,
    TaskCall,
    TaskResult,
)
from .review_rules import skipped_reviews
from .state import HoldReason, RemoteCall, SkipReason
from .status import ExecutionStatus, TaskStatus
from .task_inputs import Spec, as_submitted, skip_reason, task_inputs

#: An answer may repeat the question, which holds all results of a layer.  Its messages are cut to
#: `MAX_MESSAGE_LENGTH` characters together, of which each takes at most six bytes as JSON.
_ANSWER = Limits(nodes=100_000, string_length=2_000_000, max_bytes=16_000_000)

#: Limits on the decisions shown to an agent: the newest ones, with shortened comments.
_MAX_DECISIONS, _MAX_COMMENT_LENGTH = 100, 1_000


def execute_move(run: Run, move: Move, ports: Ports) -> None:
    """Carry out the move."""
    _execute(move, run, ports)


@singledispatch
def _execute(move: object, run: Run, ports: Ports) -> None:
    raise TypeError(f"not a move: {move!r}")


@_execute.register
def _(move: Begin, run: Run, ports: Ports) -> None:
    layers = run.revision.layers
    total = sum(len(layer) for layer in layers)
    run.record(ev.ExecutionStarted(total_layers=len(layers), total_tasks=total))


@_execute.register
def _(move: Finish, run: Run, ports: Ports) -> None:
    run.record(ev.ExecutionFailed() if move.failed else ev.ExecutionCompleted())


@_execute.register
def _(move: EndWait, run: Run, ports: Ports) -> None:
    run.record(ev.ExecutionAborted(**reason_fields("reason", Reason("not_resubmitted"))))


@_execute.register
def _(move: CloseLayer, run: Run, ports: Ports) -> None:
    state = run.state
    accepted = [name for name in state.tasks if _output_was_accepted(run, name)]
    # Read the stored output: later tasks read it, not the decision.
    outputs = run.finished_tasks(accepted) if accepted else {}
    digests = {name: digest(each.output) for name, each in outputs.items()}
    run.record(
        ev.LayerClosed(layer=state.layer, failed=state.layer_failed, executed_digests=digests)
    )


def _output_was_accepted(run: Run, task_id: str) -> bool:
    """Return whether a reviewer or a review rule accepted the task's output."""
    task = run.state.tasks[task_id]
    if task.status is not TaskStatus.SUCCEEDED or not task.cleared:
        return False
    return _is_reviewed(run.revision.plan.by_id[task_id], TriggerPhase.AFTER_EXECUTION)


def _is_reviewed(task: Spec, phase: TriggerPhase) -> bool:
    review = task.human_review
    return review is not None and review.enabled and review.trigger_phase is phase


@_execute.register
def _(move: RecordLayerSkip, run: Run, ports: Ports) -> None:
    run.record(ev.LayerSkipped(layer=move.layer, tasks=run.revision.layers[move.layer]))


@_execute.register
def _(move: OpenHolds, run: Run, ports: Ports) -> None:
    skipped = skipped_reviews(run, move.gates)
    if skipped:
        # Tasks whose review is skipped go on first; the next move opens holds for the rest.
        run.record(*skipped)
        run.commit()
        return
    for gate in move.gates:
        if gate.reason is HoldReason.LAYER_APPROVAL and _runs_nothing(run, run.state.layer + 1):
            _execute(StartLayer(run.state.layer + 1), run, ports)
            continue
        try:
            opened = hold_opened(run, gate, ports)
        except TaskFailed as failure:
            # The inputs to show to the reviewer cannot be resolved: the task fails instead.
            if gate.task_id is None:
                raise
            run.record(
                _failed(
                    run, gate.task_id, Failure(failure.message, reason=failure.reason), call=None
                )
            )
        else:
            run.record(opened)


# --- layers -------------------------------------------------------------------------------------


@_execute.register
def _(move: StartLayer, run: Run, ports: Ports) -> None:
    tasks = run.revision.tasks(move.layer)
    skips, errors = _skips_of_layer(run, move.layer)
    leaves = run.revision.plan.leaves
    failed = [name for name, why in skips.items() if why is SkipReason.UPSTREAM_FAILED]
    run.record(
        ev.LayerStarted(
            layer=move.layer,
            tasks=tuple(task.id for task in tasks),
            skips=skips,
            failed_leaf=any(name in leaves for name in failed),
        ),
        *errors,
    )


def _runs_nothing(run: Run, layer: int) -> bool:
    """Return whether every task of the layer will be skipped, so that nobody has to approve it."""
    skips, _errors = _skips_of_layer(run, layer)
    return len(skips) == len(run.revision.layers[layer])


def _skips_of_layer(run: Run, layer: int) -> tuple[dict[str, SkipReason], list[ev.TaskErrored]]:
    """Return the tasks of a layer that will be skipped, and those whose condition fails."""
    tasks = run.revision.tasks(layer)
    finished = run.finished_tasks(sorted({need for task in tasks for need in task.needs}))
    leaves = run.revision.plan.leaves
    skips: dict[str, SkipReason] = {}
    errors: list[ev.TaskErrored] = []
    for task in tasks:
        try:
            reason = skip_reason(task, finished, run)
        except TaskFailed as failure:
            is_leaf = task.id in leaves
            failed = Reason("condition_failed", {"error": failure.reason or failure.message})
            error = ev.TaskErrored(
                task_id=task.id, attempt=1, **reason_fields("error", failed), is_leaf=is_leaf
            )
            errors.append(error)
            continue
        if reason is not None:
            skips[task.id] = reason
    return skips, errors


# --- tasks --------------------------------------------------------------------------------------


@_execute.register
def _(move: RunTasks, run: Run, ports: Ports) -> None:
    # What was recorded so far must be durable before anything with an effect runs.
    run.commit()
    calls = []
    for task_id in move.task_ids:
        try:
            calls.append(call_for(run, task_id))
        except TaskFailed as failure:
            run.record(
                _failed(run, task_id, Failure(failure.message, reason=failure.reason), call=None)
            )
    is_start_published = False
    for batch in ports.runner.run(calls, run.heartbeat):
        for result in batch:
            run.record(_result_event(run, result), *_speculation_events(result))
        if len(batch) < len(calls):
            run.commit()
            if not is_start_published:
                # A layer that finishes within the commit window is over before anybody sees it.
                done = {result.call.task.id for result in batch}
                run.publish_started([call.task.id for call in calls if call.task.id not in done])
                is_start_published = True


def collect_remote(run: Run, ports: Ports) -> None:
    """Record the results of remote tasks that have ended or exceeded their time limit."""
    state = run.state
    if state.status is not ExecutionStatus.RUNNING or state.holds:
        return
    waiting = {name: task.remote for name, task in state.tasks.items() if task.remote is not None}
    if not waiting:
        return
    outcomes = ports.remote_results(list(waiting.values()))
    for name, remote in waiting.items():
        outcome = outcomes.get(remote.handle) or _timed_out(remote, run.now(), ports)
        if outcome is not None:
            duration = max(0.0, run.now() - remote.since) * 1000
            run.record(_remote_event(run, name, replace(outcome, duration_ms=duration)))


def _timed_out(remote: RemoteCall, now: float, ports: Ports) -> Failure | None:
    if now < remote.until:
        return None
    reason = Reason("task_timed_out", {"seconds": f"{remote.until - remote.since:g}"})
    logs = ports.remote_logs(remote.handle)
    return Failure(reason.text, retryable=True, logs=logs, reason=reason)


def _remote_event(run: Run, task_id: str, outcome: Success | Failure) -> ev.Event:
    try:
        call = call_for(run, task_id)
    except TaskFailed as failure:
        # The context has changed so that a reference of the task cannot be resolved any more.
        failed = Failure(
            failure.message, outcome.duration_ms, logs=outcome.logs, reason=failure.reason
        )
        return _failed(run, task_id, failed, call=None)
    return _result_event(run, TaskResult(call, outcome))


def call_for(run: Run, task_id: str) -> TaskCall:
    """The call that runs this task now; raises TaskFailed when its inputs cannot be resolved."""
    task = run.revision.plan.by_id[task_id]
    state = run.state.tasks[task_id]
    attempt = state.attempt + 1
    submitted = state.remote.inputs if state.remote else None
    inputs = task_inputs(run, task_id) if submitted is None else submitted
    grants = (*run.state.grants, *state.grants)
    # Without the revision: a plan that changes between a crash and the repetition keeps what began.
    key = f"{run.execution_id}:{task_id}:{attempt}"
    ceiling = run.policy.permission_ceiling
    speculates = run.policy.speculation.enabled
    # The caller of an external action reports later what it executed.
    is_reviewed = _is_reviewed(task, TriggerPhase.BEFORE_EXECUTION) and not isinstance(
        task, ExternalActionTask
    )
    return TaskCall(
        as_submitted(task, state),
        inputs,
        attempt,
        key,
        run.execution_id,
        grants,
        ceiling,
        speculates,
        feedback=state.feedback,
        digest=digest(inputs) if is_reviewed else "",
    )


def _result_event(run: Run, result: TaskResult) -> ev.Event:
    call, outcome = result.call, result.outcome
    match outcome:
        case PermissionEscalationNeeded():
            never = _unattainable_reason(run, outcome)
            if never is not None:
                failure = Failure(never.text, logs=outcome.logs, reason=never)
                return _failed(run, call.task.id, failure, call=call)
            return ev.TaskEscalated(
                task_id=call.task.id,
                operation=outcome.operation,
                resource=outcome.resource,
                current=outcome.current.model_dump(mode="json"),
                requested=outcome.requested.model_dump(mode="json"),
                line=outcome.line,
            )
        case Failure():
            return _failed(run, call.task.id, outcome, call=call)
        case Submitted():
            now = run.now()
            return ev.TaskSubmitted(
                task_id=call.task.id,
                attempt=call.attempt,
                runner=outcome.runner,
                handle=outcome.handle,
                since=now,
                until=now + outcome.seconds,
                shown=call.inputs if reads_context(call.task) else None,
            )
    return ev.TaskSucceeded(
        task_id=call.task.id,
        attempt=call.attempt,
        duration_ms=round(outcome.duration_ms, 3),
        executed_digest=call.digest,
        inputs=call.inputs,
        output=outcome.output,
        logs=outcome.logs,
    )


def _speculation_events(result: TaskResult) -> tuple[ev.Event, ...]:
    """Return the event that records whether the task used its speculative result."""
    task_id = result.call.task.id
    match result.speculation:
        case None:
            return ()
        case SpeculationOutcome(hit=True, seconds=seconds):
            return (ev.SpeculationHit(task_id=task_id, seconds=seconds),)
        case SpeculationOutcome(reason=reason, seconds=seconds):
            fields = reason_fields("reason", reason)
            return (ev.SpeculationMiss(task_id=task_id, seconds=seconds, **fields),)


def _unattainable_reason(run: Run, need: PermissionEscalationNeeded) -> Reason | None:
    """Return why no grant can help (already granted, or above the ceiling), or None."""
    attempt = attempt_reason(need.operation, need.resource)
    missing = need.requested.difference(need.current)
    if missing.is_empty:
        return Reason("permission_is_granted", {"attempt": attempt})
    ceiling = run.policy.permission_ceiling
    if not admits(NAMED.get(ceiling, NAMED["minimal"]), missing):
        return Reason("permission_above_ceiling", {"attempt": attempt, "ceiling": ceiling})
    return None


def _failed(run: Run, task_id: str, failure: Failure, *, call: TaskCall | None) -> ev.TaskErrored:
    """Return the event of a failed attempt; `call` is None if the inputs could not be resolved."""
    task = run.revision.plan.by_id[task_id]
    attempt = run.state.tasks[task_id].attempt + 1
    # Attempts before a reviewer sent the task back do not count toward the retry limit.
    tries = attempt - run.state.tasks[task_id].sent_back_at
    again = failure.retryable and tries < task.retry.max_attempts
    return ev.TaskErrored(
        task_id=task_id,
        attempt=attempt,
        **reason_fields("error", failure.reason or failure.message),
        duration_ms=round(failure.duration_ms, 3),
        retry_at=run.now() + task.retry.delay(tries) if again else None,
        is_leaf=task_id in run.revision.plan.leaves,
        executed_digest=call.digest if call else "",
        inputs=call.inputs if call else None,
        logs=failure.logs,
    )


# --- agents -------------------------------------------------------------------------------------


@_execute.register
def _(move: AskAgent, run: Run, ports: Ports) -> None:
    run.commit()
    actor = agent_actor(move.agent)
    try:
        answer = ports.agents.ask(agent_question(run, move.agent), run.heartbeat)
        events, command = _events_and_command(run, answer, move.agent, actor)
    except TaskFailed as failure:
        fields = reason_fields("error", failure.reason or failure.message)
        run.record(ev.AgentFailed(agent=move.agent, **fields))
        return
    with run.acting_as(actor, "agent"):
        run.record(*events)
        if command is None:
            return
        try:
            run.record(*handle_command(run, command, ports, actor))
        except Refused as refusal:
            run.record(
                ev.CommandRefused(command=command.kind, **reason_fields("error", refusal.reason))
            )


def agent_question(run: Run, agent: str) -> AgentQuestion:
    """Return the agent's question: the layer's results, the context and the history, unfiltered."""
    state, layers = run.state, run.revision.layers
    following = state.layer + 1
    return AgentQuestion(
        agent=agent,
        execution_id=run.execution_id,
        layer=state.layer,
        total_layers=state.total_layers,
        results=run.finished_tasks(layers[state.layer]),
        next_layer=layers[following] if following < len(layers) else (),
        context=run.context,
        inputs=run.inputs,
        conversation=run.conversation(),
        decisions=tuple(
            {**each, "comment": str(each["comment"])[:_MAX_COMMENT_LENGTH]}
            for each in run.decisions()[-_MAX_DECISIONS:]
        ),
        settings=run.policy.ail.settings,
        timeout_seconds=run.policy.ail.timeout_seconds,
    )


def _events_and_command(
    run: Run, answer: object, agent: str, actor: Actor
) -> tuple[Sequence[ev.Event], Abort | Replan | None]:
    """Return the events and the command of an agent's answer.

    Nothing is recorded before the whole answer has been validated.

    Raises:
        TaskFailed: the answer is malformed.
    """
    try:
        if not isinstance(answer, AgentAnswer):
            raise TypeError("it is no AgentAnswer")
        answer = _with_short_messages(answer)
        check_value(asdict(answer), _ANSWER)
        decided = ev.AgentDecided(agent=agent, decision=answer.decision, reason=answer.reason)
        return (*_message_events(run, answer, actor), decided), _command_from_answer(answer)
    except (ValueError, TypeError) as error:
        raise TaskFailed(f"malformed answer: {_error_summary(error)}", retryable=False) from error


def _with_short_messages(answer: AgentAnswer) -> AgentAnswer:
    """Shorten long messages instead of refusing the answer."""
    share = MAX_MESSAGE_LENGTH // max(1, len(answer.messages))
    messages = tuple(
        {
            key: shortened(text, share) if isinstance(text, str) else text
            for key, text in each.items()
        }
        for each in answer.messages
    )
    return replace(answer, messages=messages)


def _error_summary(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{each.path}: {each.message}" for each in validation_problems(error))
    return str(error)


def _message_events(run: Run, answer: AgentAnswer, actor: Actor) -> Sequence[ev.Event]:
    ctx = DecisionContext(revision=run.revision, policy=run.policy, actor=actor)
    events: list[ev.Event] = []
    for message in answer.messages:
        events.extend(decide(run.state, AddMessage.model_validate(dict(message)), ctx))
    return events


def _command_from_answer(answer: AgentAnswer) -> Abort | Replan | None:
    if answer.decision == "abort":
        return Abort(reason=answer.reason)
    if answer.decision == "replan":
        requirement = answer.requirement or answer.reason or "replan"
        return Replan(new_requirement=requirement, available_context=dict(answer.available_context))
    return None
