"""The loop: ask for the next move, make it, record what happened.

`step` is what a worker does with an execution; `submit` is what a command does to one at rest.
"""

from __future__ import annotations

from . import events as ev
from .decide import Refused
from .execute_move import act
from .handle_command import events_for
from .moves import ApplyCommands, Rest, next_move
from .ports import Ports, Run


def step(execution_id: str, ports: Ports) -> bool:
    """Claim the execution and move it on until it rests or the time slice ends.

    True when a worker should come back for more.
    """
    with ports.journal.claim(execution_id) as run:
        if run is None:
            return False
        while not run.slice_over():
            move = next_move(run.state, run.revision, run.policy, queued=run.queued, now=run.now())
            match move:
                case Rest():
                    if run.rest(move.until):
                        ports.at_rest(run)
                        return False
                case ApplyCommands():
                    apply_queued(run, ports)
                case _:
                    act(run, move, ports)
        if not run.rest(None):
            return True
        ports.at_rest(run)
        return not run.state.status.is_final


def submit(
    execution_id: str,
    command: object,
    ports: Ports,
    *,
    actor: str,
    source: str,
    expected_version: int | None = None,
) -> Run:
    """Apply one command to an execution at rest, at the version its sender saw.

    Raises StaleVersion when it has moved on, Refused when the command does not apply.
    """
    with ports.journal.open(execution_id, expected_version=expected_version) as run:
        with run.speaks_as(actor, source):
            run.record(*events_for(run, command, ports, actor))
        run.answers(command, actor, source)
        run.commit()
        return run


def apply_queued(run: Run, ports: Ports) -> None:
    """Apply what was commanded while the layer ran; a refusal is an event, never an error."""
    for queued in run.take_commands():
        with run.speaks_as(queued.actor, queued.source):
            run.record(*_answer(run, queued.command, ports, queued.actor))
        # One step each: what counts as taken has had its effect, wherever a crash comes.
        run.commit()


def _answer(run: Run, command: object, ports: Ports, actor: str) -> tuple[ev.Event, ...]:
    try:
        return events_for(run, command, ports, actor)
    except Refused as refusal:
        if run.state.status.is_final:
            return ()
        kind = getattr(command, "kind", type(command).__name__)
        return (ev.CommandRefused(command=kind, error=refusal.message),)
