"""`handle_command`: returns the events of a command; a replan asks the planner first."""

from __future__ import annotations

from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.values.reasons import reason_fields

from . import events as ev
from .actors import Actor
from .commands import Replan, RevisePlan
from .decide import DecisionContext, decide
from .ports import Planner, Ports, Run


def handle_command(run: Run, command: object, ports: Ports, actor: Actor) -> tuple[ev.Event, ...]:
    """Return the events of `command`; a replan asks the planner first."""
    ctx = DecisionContext(
        revision=run.revision,
        policy=run.policy,
        actor=actor,
        max_replans=ports.max_replans,
        max_failed_replans=ports.max_failed_replans,
        now=run.now(),
        finished_tasks=run.finished_tasks,
        with_required_reviews=ports.with_required_reviews,
    )
    if isinstance(command, Replan):
        decide(run.state, command, ctx)
        command = ask_planner(run, ports.planner, command)
    return decide(run.state, command, ctx)


def ask_planner(run: Run, planner: Planner, command: Replan) -> RevisePlan:
    """Return the planner's answer as a command; a failure leaves the plan unchanged."""
    revision, layer = run.revision, run.state.layer
    begun = [name for each in revision.layers[: layer + 1] for name in each]
    try:
        found = planner.replan(
            plan=revision.plan,
            finished=run.finished_tasks(begun),
            begun=frozenset(begun),
            requirement=command.new_requirement,
            context={**run.context, **command.available_context},
            inputs=run.inputs,
            execution_id=run.execution_id,
        )
    except TaskFailed as failure:
        fields = reason_fields("error", failure.reason or failure.message)
        return RevisePlan(requirement=command.new_requirement, **fields)
    return RevisePlan(
        requirement=command.new_requirement,
        plan=found.plan,
        why=dict(found.why),
        available_context=command.available_context,
    )
