"""Feedback to the tool graph after a run: what followed what.  Off the critical path."""

from __future__ import annotations

import logging

from graphrag.learning import learn, learned_keys

from . import journal
from .engine.dag import CapabilityTask, Revision, ToolTask
from .engine.events import GraphUpdateFailed
from .engine.status import ExecutionStatus, TaskStatus
from .models import Execution, ExecutionEvent, TaskAttempt

logger = logging.getLogger(__name__)


def learn_from(execution_id: int) -> None:
    """Count the edges of one ended execution; once, however often it is called.

    What goes wrong is an event on the execution and nothing else: the run is over and stays so.
    """
    execution = Execution.objects.get(pk=execution_id)
    ran = TaskAttempt.objects.filter(
        execution=execution, settled=True, status=TaskStatus.SUCCEEDED.value
    )
    revision = journal.load_revision(execution.pk, execution.revision)
    tools = _tools(revision, set(ran.values_list("task_id", flat=True)))
    try:
        learn(
            execution_key=str(execution.pk),
            layers=[{tools[name] for name in layer if name in tools} for layer in revision.layers],
            edges=_data_edges(revision, tools),
        )
    except Exception as error:
        logger.exception("the tool graph learned nothing from execution %s", execution_id)
        _tell(execution_id, f"{type(error).__name__}: {error}"[:2000])


def unlearned(limit: int = 200) -> list[int]:
    """Executions among the last that completed from which the graph has not learned yet."""
    recent = Execution.objects.filter(status=ExecutionStatus.COMPLETED.value)
    ids = list(recent.order_by("-id").values_list("pk", flat=True)[:limit])
    known = learned_keys([str(each) for each in ids])
    # Those that failed once are not tried for ever; the event says why.
    told = ExecutionEvent.objects.filter(execution__in=ids, kind="graph_update_failed")
    known |= {str(each) for each in told.values_list("execution_id", flat=True)}
    return [each for each in reversed(ids) if str(each) not in known]


def _tools(revision: Revision, succeeded: set[str]) -> dict[str, str]:
    """Task id → its name in the catalogue, for tools and capabilities that succeeded."""
    names = {}
    for task in revision.plan.tasks:
        if task.id in succeeded and isinstance(task, ToolTask):
            names[task.id] = task.tool
        elif task.id in succeeded and isinstance(task, CapabilityTask):
            names[task.id] = f"capability.{task.capability}"
    return names


def _data_edges(revision: Revision, tools: dict[str, str]) -> list[tuple[str, str]]:
    """Pairs of tools that are joined by what one waits for of the other."""
    return [
        (tools[need], tools[task.id])
        for task in revision.plan.tasks
        if task.id in tools
        for need in task.needs
        if need in tools
    ]


def _tell(execution_id: int, error: str) -> None:
    with journal.DjangoJournal().open(str(execution_id), expected_version=None) as run:
        run.record(GraphUpdateFailed(error=error))
        run.commit()
        run.tell(at_once=True)
