"""Tools that change a run: use cases, called with the caller's rights.

These functions use the database, so the server calls them in threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.http import Http404
from django.utils.module_loading import import_string
from rest_framework.exceptions import APIException

from workflows.api.executions import get_workflow
from workflows.engine.plans.validation import Problem
from workflows.engine.protocol import commands as cmd
from workflows.engine.values.bounded_json import BoundedJSONError
from workflows.executions import access, services
from workflows.executions.definitions import plan_for_intent
from workflows.executions.idempotency import StoredResponse, json_text, respond_once
from workflows.executions.selectors import open_holds
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution

from . import argument_models
from .authentication import CallContext, Caller

SOURCE = "mcp"


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call did, and how to respond to it.

    Attributes:
        since: the version of the execution before the call.
        command: the kind of command that was submitted, if any.
        notice: text to put before the message of the response.
        waits: whether to wait for the next stop before responding.
        starts: whether the call started a run; the response then has the run's warnings.
        response_options: keyword arguments for `responses.execution_response`.
    """

    workflow_id: str
    since: int
    command: str = ""
    notice: str = ""
    waits: bool = True
    starts: bool = False
    response_options: Mapping[str, Any] = field(default_factory=dict)


# --- starting -------------------------------------------------------------------------------------


def execute(caller: Caller, arguments: argument_models.Execute) -> CallResult:
    """Start a run, or return the run that the same idempotency key started."""
    context = caller.context()
    context.require("run")
    context.require_start()
    kinds = [
        name for name in ("workflow", "plan", "intent") if getattr(arguments, name) is not None
    ]
    if len(kinds) != 1:
        where = kinds[1] if kinds else "workflow"
        message = "give exactly one of workflow, plan and intent"
        raise InvalidRequest((Problem(where, "required", message),))
    execution_id = _once(context, arguments, "execute", lambda: str(_start(context, arguments).pk))
    return CallResult(workflow_id=execution_id, since=0, starts=True)


def _start(context: CallContext, arguments: argument_models.Execute) -> Execution:
    plan, title = arguments.plan, arguments.config.title
    if arguments.intent is not None:
        plan = plan_for_intent(intent=arguments.intent, inputs=arguments.inputs, actor=context.user)
        title = title or arguments.intent
    policy = dict(arguments.config.policy)
    if arguments.config.per_layer_validation is not None:
        policy["per_layer_validation"] = arguments.config.per_layer_validation
    return services.start_execution(
        actor=context.user,
        workflow=get_workflow(context.user, arguments.workflow)
        if arguments.workflow is not None
        else None,
        plan=plan,
        inputs=arguments.inputs,
        policy=policy,
        title=title,
    )


def _once(context: CallContext, arguments: Any, tool: str, perform: Callable[[], str]) -> str:
    """Return the text of `perform`, or of the first call with the same key and arguments."""
    if arguments.idempotency_key is None:
        return perform()
    body = arguments.model_dump(mode="json", exclude={"wait_seconds", "idempotency_key"})
    body.get("config", {}).pop("wait_seconds", None)
    return respond_once_by_key(context, arguments.idempotency_key, tool, body, perform)


def respond_once_by_key(
    context: CallContext, key: str, tool: str, body: Any, perform: Callable[[], str]
) -> str:
    """Return the text of `perform`, or of the first call of `tool` with this key and body."""
    answer = respond_once(
        user=context.user,
        key=key,
        route=f"MCP {tool}",
        body=body,
        perform=lambda: StoredResponse(status=200, text=perform()),
    )
    return answer.text


# --- commands -------------------------------------------------------------------------------------


def continue_(caller: Caller, arguments: argument_models.Continue) -> CallResult:
    return _command(caller, arguments, cmd.Continue(reason=arguments.reason))


def abort(caller: Caller, arguments: argument_models.Abort) -> CallResult:
    return _command(caller, arguments, cmd.Abort(reason=arguments.reason))


def replan(caller: Caller, arguments: argument_models.Replan) -> CallResult:
    command = cmd.Replan(
        new_requirement=arguments.new_requirement, available_context=arguments.available_context
    )
    return _command(caller, arguments, command)


def _command(caller: Caller, arguments: Any, command: Any) -> CallResult:
    context = caller.context()
    context.require("run")
    execution = context.execution(arguments.workflow_id)
    context.require_operate(execution)

    def submit() -> str:
        services.submit_command(
            execution_id=execution.pk,
            command=command,
            actor=access.actor_of(context.user),
            source=SOURCE,
            version=arguments.version,
        )
        return json_text({"since": execution.version})

    stored = json.loads(_once(context, arguments, f"{command.kind} {execution.pk}", submit))
    return CallResult(str(execution.pk), since=stored["since"], command=command.kind)


def approval_response(caller: Caller, arguments: argument_models.ApprovalResponse) -> CallResult:
    """Decide a hold; without the scope `decide`, only report where a person decides it."""
    context = caller.context()
    execution = context.execution(arguments.workflow_id)
    if not context.has("decide"):
        context.require("read")
        notice = "Nothing was decided: this token does not have the scope 'decide'."
        return CallResult(str(execution.pk), since=execution.version, notice=notice, waits=False)
    command = services.parse_command(
        {
            "kind": "approval_response",
            "hold": _requested_hold(execution, arguments),
            "approved": arguments.approved,
            "request_changes": arguments.request_changes,
            "edits": arguments.edits,
            "set_output_null": arguments.set_output_null,
            "feedback": arguments.feedback,
            "grant_scope": arguments.grant_scope,
            "grant_seconds": arguments.grant_seconds,
        }
    )

    def decide() -> str:
        decision = import_string(settings.HOLDPOINT["decision_service"])(
            execution=execution,
            command=command,
            user=context.user,
            token=context.token,
            source=SOURCE,
            version=arguments.version,
        )
        return json_text(
            {"warnings": [f"{each.path} {each.message}" for each in decision.warnings]}
        )

    stored = json.loads(_once(context, arguments, f"approval_response {execution.pk}", decide))
    warnings = stored.get("warnings")
    notice = f"Decided, but {'; '.join(warnings)}." if warnings else ""
    return CallResult(str(execution.pk), since=execution.version, notice=notice)


def _requested_hold(execution: Execution, arguments: argument_models.ApprovalResponse) -> str:
    """Return the id of the hold to decide; raise InvalidRequest if the ids do not name one."""
    named = arguments.checkpoint_id
    if named is None:
        return arguments.hold_id or _only_hold(execution)
    if not execution.holds.filter(pk=named).exists():
        named = _hold_since_checkpoint(execution, named)
    if arguments.hold_id not in (None, named):
        message = "names another hold than hold_id"
        raise InvalidRequest((Problem("checkpoint_id", "another_hold", message),))
    return named


def _hold_since_checkpoint(execution: Execution, checkpoint_id: str) -> str:
    """Return the only hold that opened since the newest checkpoint, or raise InvalidRequest.

    If several holds opened since then, the caller may have seen a hold that is already decided.
    """
    newest = execution.checkpoints.order_by("-version").first()
    if newest is None or checkpoint_id != str(newest.pk):
        message = "is no hold of this run, and not its present checkpoint"
        raise InvalidRequest((Problem("checkpoint_id", "not_present", message),))
    since = execution.holds.filter(decider="human", opened_seq__gt=newest.version)
    if since.count() > 1:
        message = "several holds opened since this checkpoint; name one with hold_id"
        raise InvalidRequest((Problem("checkpoint_id", "ambiguous", message),))
    return _only_hold(execution)


def _only_hold(execution: Execution) -> str:
    people = [hold.id for hold in open_holds(execution) if hold.decider == "human"]
    if len(people) == 1:
        return people[0]
    message = f"name one of {', '.join(people)}" if people else "no hold waits for a person"
    raise InvalidRequest((Problem("hold_id", "required", message),))


# --- rejected calls ------------------------------------------------------------------------------

_COMMANDS = ("continue", "abort", "replan", "approval_response")


def log_invalid_command(
    caller: Caller, tool: str, workflow_id: str | None, error: Exception
) -> None:
    """Write a malformed command to the command log of its run, as REST and pages do."""
    malformed = isinstance(error, InvalidRequest | BoundedJSONError)
    if tool not in _COMMANDS or workflow_id is None or not malformed:
        return
    try:
        context = caller.context()
        execution = context.execution(workflow_id)
    except (Http404, APIException):
        return
    services.log_refusal(
        execution_id=execution.pk,
        kind=tool,
        actor=access.actor_of(context.user),
        source=SOURCE,
        reason=str(error),
        outcome="invalid",
    )
