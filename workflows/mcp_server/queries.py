"""Tools that read: the state of a run, pending decisions, the tool catalogue."""

from __future__ import annotations

from django.conf import settings
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from workflows.common.keyset import BadCursor, past_row
from workflows.common.redaction import mask_secrets
from workflows.engine.plans.validation import Problem
from workflows.executions import services
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, ExecutionEvent, Hold
from workflows.planning.planner import next_tools
from workflows.planning.planner import search_tools as search_catalogue

from . import argument_models
from .authentication import CallContext, Caller
from .commands import CallResult
from .errors import CommandFailed
from .responses import execution_response, hold_options, isoformat, review_url, started_by_caller
from .result_models import (
    Answer,
    FoundTool,
    FoundTools,
    PastDecision,
    PastDecisions,
    Pending,
    PendingHold,
    PredictedTool,
    PredictedTools,
)


def get_execution(caller: Caller, arguments: argument_models.GetExecution) -> CallResult:
    context = caller.context()
    context.require("read")
    execution = context.execution(arguments.workflow_id)
    response_options = {"all_layers": arguments.all_layers, "max_chars": arguments.max_output_chars}
    return CallResult(
        str(execution.pk),
        since=execution.version,
        waits=bool(arguments.wait_seconds),
        response_options=response_options,
    )


def response_after(caller: Caller, result: CallResult) -> Answer:
    """Return the state of the run after a call; raise CommandFailed if the command failed."""
    context = caller.context()
    execution = context.execution(result.workflow_id)
    replanned = _plan_revised(context, execution, result) if result.command else None
    answer = execution_response(context, execution, replanned=replanned, **result.response_options)
    if result.starts:
        warnings = services.run_warnings(execution)
        answer = answer.model_copy(update={"warnings": warnings})
    if result.notice:
        answer = answer.model_copy(update={"message": f"{result.notice} {answer.message}"})
    return answer


_OUTCOMES = ("plan_revised", "replan_failed", "command_refused")


def _plan_revised(
    context: CallContext, execution: Execution, result: CallResult
) -> ExecutionEvent | None:
    """Return the event of this caller's new plan, if any; raise CommandFailed if it failed."""
    events = ExecutionEvent.objects.filter(
        execution=execution, seq__gt=result.since, kind__in=_OUTCOMES, actor_id=context.user.pk
    )
    for event in events.order_by("seq"):
        if event.kind == "plan_revised":
            return event if result.command == "replan" else None
        answer = execution_response(context, execution)
        no_plan = event.kind == "replan_failed"
        reason = "The planner found no new plan" if no_plan else f"{result.command} was refused"
        state = f"The run is as it was. {answer.message}" if no_plan else answer.message
        error = event.payload["error"]
        detail = error if started_by_caller(context, execution) else mask_secrets(error)
        raise CommandFailed(f"{reason}: {detail} {state}", answer.model_dump())
    return None


# --- lists ----------------------------------------------------------------------------------------


def list_pending(caller: Caller, arguments: argument_models.ListPending) -> Pending:
    """List the open holds of the runs that the caller may see, oldest first."""
    context = caller.context()
    context.require("read")
    holds = Hold.objects.filter(status=Hold.Status.OPEN, execution__in=context.executions())
    if arguments.workflow_id is not None:
        holds = holds.filter(execution=context.execution(arguments.workflow_id))
    if arguments.decider != "any":
        holds = holds.filter(decider=arguments.decider)
    if arguments.cursor:
        holds = _after_cursor(holds, arguments.cursor)
    holds = holds.select_related("execution").order_by("opened_at", "pk")
    rows = list(holds.defer("payload")[: arguments.limit + 1])
    page = rows[: arguments.limit]
    more = len(rows) > len(page)
    return Pending(
        pending=[_row(hold, context) for hold in page],
        next=f"{page[-1].opened_at.isoformat()}|{page[-1].pk}" if more else None,
    )


def _after_cursor(holds: QuerySet[Hold], cursor: str) -> QuerySet[Hold]:
    opened, _, hold_id = cursor.partition("|")
    try:
        return holds.filter(past_row("opened_at", opened, hold_id, "gt"))
    except BadCursor as error:
        message = "is not the `next` of an earlier answer"
        raise InvalidRequest((Problem("cursor", "malformed", message),)) from error


def _row(hold: Hold, context: CallContext) -> PendingHold:
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
        expires_at=isoformat(hold.expires_at),
        on_timeout=hold.on_timeout,
        options=hold_options(hold, context),
        review_url=review_url(hold) if is_human else None,
    )


def predict_next(caller: Caller, arguments: argument_models.PredictNext) -> PredictedTools:
    """Predict the tools that run next, from past runs."""
    _require_catalogue(caller.context())
    tools = [
        PredictedTool(
            name=each.tool, confidence=each.confidence, observed=each.observed, runs=each.runs
        )
        for each in next_tools(arguments.done, limit=arguments.limit)
    ]
    return PredictedTools(tools=tools)


def similar_decisions(caller: Caller, arguments: argument_models.SimilarDecisions) -> PastDecisions:
    """Return what people decided about similar calls, in runs that the caller may see."""
    context = caller.context()
    context.require("read")
    found = import_string(settings.HOLDPOINT["episodes"])(
        context.user,
        tool=arguments.tool,
        arguments=arguments.arguments,
        phase="BEFORE_EXECUTION" if arguments.arguments is not None else "",
        limit=arguments.limit,
    )
    return PastDecisions(
        decisions=[
            PastDecision(
                workflow_id=each.execution_id,
                workflow_title=each.workflow_title,
                trigger_phase=each.phase,
                similarity=each.similarity,
                decision=each.decision,
                edited=list(each.edited),
                comment=each.comment,
                decided_at=each.decided_at.isoformat(),
                outcome=each.outcome,
            )
            for each in found
        ]
    )


def search_tools(caller: Caller, arguments: argument_models.SearchTools) -> FoundTools:
    """Search the tool catalogue with a question in plain words."""
    _require_catalogue(caller.context())
    matches = search_catalogue(
        arguments.query, limit=arguments.limit, read_only=arguments.read_only
    )
    tools = [
        FoundTool(
            name=each.tool.name,
            title=each.tool.title,
            description=each.tool.description,
            permission_set=each.tool.permission_set,
            read_only=each.tool.read_only,
            destructive=each.tool.destructive,
            input_schema=dict(each.tool.input_schema),
            output_schema=each.tool.output_schema,
            similarity=round(each.similarity, 4),
        )
        for each in matches.found
    ]
    return FoundTools(tools=tools, warnings=list(matches.warnings))


def _require_catalogue(context: CallContext) -> None:
    """Raise PermissionDenied for a token with neither the scope `run` nor `read`."""
    if not context.has("run"):
        context.require("read")
