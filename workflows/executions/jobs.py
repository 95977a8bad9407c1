"""Functions that RQ calls.  Arguments are ids; all other data is read from PostgreSQL."""

from __future__ import annotations

import logging

from workflows.engine.protocol.loop import step
from workflows.engine.protocol.ports import LeaseLost, StaleVersion
from workflows.models import Execution
from workflows.planning.learning import learn_from, learn_from_all
from workflows.speculation.services import run_speculation
from workflows.tools.mcp_client import end_run

from . import dispatch
from .services import ports

logger = logging.getLogger(__name__)


def advance(execution_id: int) -> None:
    """Advance an execution for one time slice, and enqueue the next slice if there is one."""
    try:
        more = step(str(execution_id), ports())
    except (LeaseLost, StaleVersion):
        # Another worker has the lease, or changed the execution after this one's lease expired:
        # nothing that this worker did was written.
        logger.info("lost execution %s to another worker", execution_id)
        return
    finally:
        end_run(str(execution_id))
    if more:
        dispatch.enqueue(dispatch.ADVANCE, execution_id)


def learn(*execution_ids: int) -> None:
    """Let the tool graph learn from ended executions; idempotent."""
    if len(execution_ids) == 1:
        learn_from(execution_ids[0])
        return
    for execution_id in learn_from_all(execution_ids):
        dispatch.enqueue(dispatch.LEARN, execution_id, queue=dispatch.LOW)


def speculate(execution_id: int) -> None:
    """Run tasks behind the open holds of an execution in advance; idempotent."""
    try:
        run_speculation(execution_id)
    finally:
        end_run(str(execution_id))


def run_to_rest(execution_id: int) -> Execution:
    """Advance an execution in this process, without a queue, until it rests or ends."""
    try:
        while step(str(execution_id), ports()):
            pass
    finally:
        end_run(str(execution_id))
    return Execution.objects.get(pk=execution_id)
