"""From a command to its events; a replan is taken to the planner on the way."""

from __future__ import annotations

from . import events as ev
from .commands import Replan, RevisePlan
from .decide import Facts, decide
from .ports import Planner, Ports, Run
from .task_errors import TaskFailed


def events_for(run: Run, command: object, ports: Ports, actor: str) -> tuple[ev.Event, ...]:
    """What `command` causes; a replan is taken to the planner first."""
    facts = Facts(
        revision=run.revision,
        policy=run.policy,
        actor=actor,
        max_replans=ports.max_replans,
        max_failed_replans=ports.max_failed_replans,
        settled=run.settled,
    )
    if isinstance(command, Replan):
        decide(run.state, command, facts)
        command = ask_planner(run, ports.planner, command)
    return decide(run.state, command, facts)


def ask_planner(run: Run, planner: Planner, command: Replan) -> RevisePlan:
    """The planner's answer as a command; its failure leaves the run as it was."""
    revision, layer = run.revision, run.state.layer
    begun = [name for each in revision.layers[: layer + 1] for name in each]
    try:
        found = planner.replan(
            plan=revision.plan,
            settled=run.settled(begun),
            begun=frozenset(begun),
            requirement=command.new_requirement,
            context={**run.context, **command.available_context},
            inputs=run.inputs,
        )
    except TaskFailed as failure:
        return RevisePlan(requirement=command.new_requirement, error=failure.message)
    return RevisePlan(
        requirement=command.new_requirement,
        plan=found.plan,
        why=dict(found.why),
        available_context=command.available_context,
    )
