"""RQ's entry points.  Arguments are ids; everything else is read from PostgreSQL."""

from __future__ import annotations

import logging

from workflows.engine.loop import step
from workflows.engine.ports import LeaseLost, StaleVersion
from workflows.models import Execution
from workflows.planning.learning import learn_from
from workflows.speculation.services import run_speculation

from . import dispatch
from .services import ports

logger = logging.getLogger(__name__)


def advance(execution_id: int) -> None:
    """Move the execution on for one time slice; put it on the queue again if there is more."""
    try:
        more = step(str(execution_id), ports())
    except (LeaseLost, StaleVersion):
        # Somebody else has it, or it was changed under an expired lease: nothing of ours landed.
        logger.info("lost execution %s to another worker", execution_id)
        return
    if more:
        dispatch.enqueue(dispatch.ADVANCE, execution_id)


def learn(execution_id: int) -> None:
    """Tell the tool graph what ran; low priority, repeatable."""
    learn_from(execution_id)


def speculate(execution_id: int) -> None:
    """Work ahead of an execution that rests at a hold; low priority, repeatable."""
    run_speculation(execution_id)


def run_to_rest(execution_id: int) -> Execution:
    """Advance in this process until the execution rests or ends, without a queue."""
    while step(str(execution_id), ports()):
        pass
    return Execution.objects.get(pk=execution_id)
