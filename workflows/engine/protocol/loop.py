"""The loop: choose the next move, execute it, record its events.

A worker calls `step` to advance an execution; `submit` applies one command to an execution at rest.
"""

from __future__ import annotations

from workflows.engine.values.reasons import reason_fields

from . import events as ev
from .actors import Actor
from .decide import Refused
from .execute_move import collect_remote, execute_move
from .handle_command import handle_command
from .moves import ApplyCommands, Rest, next_move
from .ports import Ports, QueuedCommand, Run


def step(execution_id: str, ports: Ports) -> bool:
    """Claim the execution and advance it until it rests or the time slice ends.

    Returns True if the execution still has work for a worker.
    """
    with ports.journal.claim(execution_id) as run:
        if run is None:
            return False
        collect_remote(run, ports)
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
                    execute_move(run, move, ports)
        if not run.rest(None):
            return True
        ports.at_rest(run)
        return not run.state.status.is_final


def submit(
    execution_id: str,
    command: object,
    ports: Ports,
    *,
    actor: Actor,
    source: str,
    expected_version: int | None = None,
) -> Run:
    """Apply one command to an execution at rest.

    Raises:
        StaleVersion: the execution is no longer at `expected_version`.
        Refused: the command does not apply.
    """
    with ports.journal.open(execution_id, expected_version=expected_version) as run:
        with run.acting_as(actor, source):
            run.record(*handle_command(run, command, ports, actor))
        run.log_command(command, actor, source)
        run.commit()
        return run


def apply_queued(run: Run, ports: Ports) -> None:
    """Apply the commands queued while the layer ran; a refusal becomes an event.

    A sender who has lost the right to send the command since is refused too.
    """
    for queued in run.take_commands():
        with run.acting_as(queued.actor, queued.source):
            run.record(*_handle_queued(run, queued, ports))
        # Commit after each command: after a crash, it is either still queued or fully applied.
        run.commit()


def _handle_queued(run: Run, queued: QueuedCommand, ports: Ports) -> tuple[ev.Event, ...]:
    command = queued.command
    try:
        if (lost := ports.lost_right(run.execution_id, queued)) is not None:
            raise Refused("right_lost", lost)
        return handle_command(run, command, ports, queued.actor)
    except Refused as refusal:
        if run.state.status.is_final:
            return ()
        kind = getattr(command, "kind", type(command).__name__)
        return (ev.CommandRefused(command=kind, **reason_fields("error", refusal.reason)),)
