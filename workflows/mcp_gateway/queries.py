"""What the tools tell: where a run stands, what waits, which tools there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

from workflows.common.redaction import mask_secrets
from workflows.engine.plan_validation import Problem
from workflows.executions import services
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, ExecutionEvent, Hold
from workflows.planning.planner import search_tools as search_catalogue

from . import inputs as given
from .callers import CallContext, Caller
from .calls import CallResult
from .outputs import Answer, FoundTool, FoundTools, Pending, PendingHold
from .responses import answer_of, is_own, moment, options_on, review_url


class CommandFailed(Exception):
    """A command was accepted and came to nothing; `state` says where the run stands."""

    code = "not_done"

    def __init__(self, message: str, state: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.message = message
        self.state = state


def look(caller: Caller, wanted: given.GetExecution) -> CallResult:
    acting = caller.now()
    acting.require("read")
    execution = acting.execution(wanted.workflow_id)
    shown = {"all_layers": wanted.all_layers, "max_chars": wanted.max_output_chars}
    return CallResult(
        str(execution.pk),
        since=execution.version,
        waits=bool(wanted.wait_seconds),
        shown=shown,
    )


def told(caller: Caller, acted: CallResult) -> Answer:
    """Where the run stands after the call; raises CommandFailed when a command came to nothing."""
    acting = caller.now()
    execution = acting.execution(acted.workflow_id)
    replanned = _what_became(acting, execution, acted) if acted.command else None
    answer = answer_of(acting, execution, replanned=replanned, **acted.shown)
    if acted.starts:
        warnings = services.run_warnings(execution)
        answer = answer.model_copy(update={"warnings": warnings})
    if acted.news:
        answer = answer.model_copy(update={"message": f"{acted.news} {answer.message}"})
    return answer


_NEWS = ("plan_revised", "replan_failed", "command_refused")


def _what_became(
    acting: CallContext, execution: Execution, acted: CallResult
) -> ExecutionEvent | None:
    """The new plan of this caller's replan, if there is one."""
    events = ExecutionEvent.objects.filter(
        execution=execution, seq__gt=acted.since, kind__in=_NEWS, actor=acting.name
    )
    for event in events.order_by("seq"):
        if event.kind == "plan_revised":
            return event if acted.command == "replan" else None
        answer = answer_of(acting, execution)
        planner = event.kind == "replan_failed"
        why = "The planner found no new plan" if planner else f"{acted.command} was refused"
        still = f"The run is as it was. {answer.message}" if planner else answer.message
        error = event.payload["error"]
        told = error if is_own(acting, execution) else mask_secrets(error)
        raise CommandFailed(f"{why}: {told} {still}", answer.model_dump())
    return None


# --- lists ----------------------------------------------------------------------------------------


def list_pending(caller: Caller, wanted: given.ListPending) -> Pending:
    """Open holds of the runs this caller sees, oldest first."""
    acting = caller.now()
    acting.require("read")
    holds = Hold.objects.filter(status=Hold.Status.OPEN, execution__in=acting.executions())
    if wanted.workflow_id is not None:
        holds = holds.filter(execution=acting.execution(wanted.workflow_id))
    if wanted.decider != "any":
        holds = holds.filter(decider=wanted.decider)
    if wanted.cursor:
        holds = _behind(holds, wanted.cursor)
    holds = holds.select_related("execution").order_by("opened_at", "pk")
    rows = list(holds.defer("payload")[: wanted.limit + 1])
    page = rows[: wanted.limit]
    more = len(rows) > len(page)
    return Pending(
        pending=[_row(hold, acting) for hold in page],
        next=f"{page[-1].opened_at.isoformat()}|{page[-1].pk}" if more else None,
    )


def _behind(holds: QuerySet[Hold], cursor: str) -> QuerySet[Hold]:
    opened, _, hold_id = cursor.partition("|")
    try:
        at = parse_datetime(opened)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not hold_id or "\0" in hold_id:
        message = "is not the `next` of an earlier answer"
        raise InvalidRequest((Problem("cursor", "malformed", message),))
    return holds.filter(Q(opened_at__gt=at) | Q(opened_at=at, pk__gt=hold_id))


def _row(hold: Hold, acting: CallContext) -> PendingHold:
    is_human = hold.decider == "human"
    return PendingHold(
        hold_id=hold.id,
        workflow_id=str(hold.execution_id),
        title=hold.execution.title,
        node_id=hold.task_id or None,
        trigger_phase=hold.phase or None,
        decider="human" if is_human else "agent",
        decision_type="HIL" if is_human else "AIL",
        reason=hold.reason,
        why=hold.why,
        opened_at=hold.opened_at.isoformat(),
        expires_at=moment(hold.expires_at),
        on_timeout=hold.on_timeout,
        options=options_on(hold, acting),
        review_url=review_url(hold) if is_human else None,
    )


def search_tools(caller: Caller, wanted: given.SearchTools) -> FoundTools:
    """Tools of the catalogue that fit a question in plain words."""
    acting = caller.now()
    if not acting.has("run"):
        acting.require("read")
    found = search_catalogue(wanted.query, limit=wanted.limit, read_only=wanted.read_only)
    tools = [
        FoundTool(
            name=each.tool.name,
            title=each.tool.title,
            description=each.tool.description,
            permission_set=each.tool.permission_set,
            read_only=each.tool.read_only,
            input_schema=dict(each.tool.input_schema),
            output_schema=each.tool.output_schema,
            similarity=round(each.similarity, 4),
        )
        for each in found.found
    ]
    return FoundTools(tools=tools, warnings=list(found.warnings))
