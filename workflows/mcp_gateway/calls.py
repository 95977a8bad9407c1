"""What the tools do: use cases with the caller's rights.  Called in threads, for the database."""

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
from workflows.engine import commands as cmd
from workflows.engine.bounded_json import BoundedJSONError
from workflows.engine.plan_validation import Problem
from workflows.executions import services
from workflows.executions.definitions import plan_for_intent
from workflows.executions.idempotency import StoredResponse, json_text, respond_once
from workflows.executions.selectors import open_holds
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution

from . import inputs as given
from .callers import CallContext, Caller

SOURCE = "mcp"


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call did: `since` is the version before it; `news` precedes the answer's message.

    The answer to a call that starts a run warns of groups in which nobody may decide.
    """

    workflow_id: str
    since: int
    command: str = ""
    news: str = ""
    waits: bool = True
    starts: bool = False
    shown: Mapping[str, Any] = field(default_factory=dict)


# --- starting -------------------------------------------------------------------------------------


def execute(caller: Caller, wanted: given.Execute) -> CallResult:
    """Start a run, or find the one that the same idempotency key started."""
    acting = caller.now()
    acting.require("run")
    acting.require_start()
    kinds = [name for name in ("workflow", "plan", "intent") if getattr(wanted, name) is not None]
    if len(kinds) != 1:
        where = kinds[1] if kinds else "workflow"
        message = "give exactly one of workflow, plan and intent"
        raise InvalidRequest((Problem(where, "required", message),))
    told = _once(acting, wanted, "execute", lambda: str(_start(acting, wanted).pk))
    return CallResult(workflow_id=told, since=0, starts=True)


def _start(acting: CallContext, wanted: given.Execute) -> Execution:
    plan, title = wanted.plan, wanted.config.title
    if wanted.intent is not None:
        plan = plan_for_intent(intent=wanted.intent, inputs=wanted.inputs)
        title = title or wanted.intent[:200]
    policy = dict(wanted.config.policy)
    if wanted.config.per_layer_validation is not None:
        policy["per_layer_validation"] = wanted.config.per_layer_validation
    return services.start_execution(
        actor=acting.user,
        workflow=get_workflow(acting.user, wanted.workflow)
        if wanted.workflow is not None
        else None,
        plan=plan,
        inputs=wanted.inputs,
        policy=policy,
        title=title,
    )


def _once(acting: CallContext, wanted: Any, tool: str, perform: Callable[[], str]) -> str:
    """The text of `perform`, or of the first call with the same key and arguments."""
    if wanted.idempotency_key is None:
        return perform()
    body = wanted.model_dump(mode="json", exclude={"wait_seconds", "idempotency_key"})
    body.get("config", {}).pop("wait_seconds", None)
    answer = respond_once(
        user=acting.user,
        key=wanted.idempotency_key,
        route=f"MCP {tool}",
        body=body,
        perform=lambda: StoredResponse(status=200, text=perform()),
    )
    return answer.text


# --- commands -------------------------------------------------------------------------------------


def continue_(caller: Caller, wanted: given.Continue) -> CallResult:
    return _command(caller, wanted, cmd.Continue(reason=wanted.reason))


def abort(caller: Caller, wanted: given.Abort) -> CallResult:
    return _command(caller, wanted, cmd.Abort(reason=wanted.reason))


def replan(caller: Caller, wanted: given.Replan) -> CallResult:
    command = cmd.Replan(
        new_requirement=wanted.new_requirement, available_context=wanted.available_context
    )
    return _command(caller, wanted, command)


def _command(caller: Caller, wanted: Any, command: Any) -> CallResult:
    acting = caller.now()
    acting.require("run")
    execution = acting.execution(wanted.workflow_id)
    acting.require_operate(execution)

    def submit() -> str:
        services.submit_command(
            execution_id=execution.pk,
            command=command,
            actor=acting.name,
            source=SOURCE,
            version=wanted.version,
        )
        return json_text({"since": execution.version})

    remembered = json.loads(_once(acting, wanted, f"{command.kind} {execution.pk}", submit))
    return CallResult(str(execution.pk), since=remembered["since"], command=command.kind)


def approval_response(caller: Caller, wanted: given.ApprovalResponse) -> CallResult:
    """Decide a hold with the scope `decide`; without it say who decides, and where."""
    acting = caller.now()
    execution = acting.execution(wanted.workflow_id)
    if not acting.has("decide"):
        acting.require("read")
        news = "Nothing was decided: this token does not have the scope 'decide'."
        return CallResult(str(execution.pk), since=execution.version, news=news, waits=False)
    command = services.parse_command(
        {
            "kind": "approval_response",
            "hold": _meant_hold(execution, wanted),
            "approved": wanted.approved,
            "request_changes": wanted.request_changes,
            "edits": wanted.edits,
            "set_output_null": wanted.set_output_null,
            "feedback": wanted.feedback,
            "grant_scope": wanted.grant_scope,
            "grant_seconds": wanted.grant_seconds,
        }
    )

    def decide() -> str:
        decided = import_string(settings.HOLDPOINT["decision_service"])(
            execution=execution,
            command=command,
            user=acting.user,
            token=acting.token,
            source=SOURCE,
            version=wanted.version,
        )
        return json_text({"warnings": [f"{each.path} {each.message}" for each in decided.warnings]})

    told = json.loads(_once(acting, wanted, f"approval_response {execution.pk}", decide))
    news = f"Decided, but {'; '.join(told['warnings'])}." if told.get("warnings") else ""
    return CallResult(str(execution.pk), since=execution.version, news=news)


def _meant_hold(execution: Execution, wanted: given.ApprovalResponse) -> str:
    """The hold that is decided; raises InvalidRequest when the ids do not name one."""
    named = wanted.checkpoint_id
    if named is None:
        return wanted.hold_id or _only_hold(execution)
    if not execution.holds.filter(pk=named).exists():
        named = _hold_behind(execution, named)
    if wanted.hold_id not in (None, named):
        message = "names another hold than hold_id"
        raise InvalidRequest((Problem("checkpoint_id", "another_hold", message),))
    return named


def _hold_behind(execution: Execution, checkpoint_id: str) -> str:
    """The only hold that opened since the newest checkpoint; raises InvalidRequest.

    With several of them the caller may have seen another one than is open now.
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


# --- refusals -------------------------------------------------------------------------------------

_COMMANDS = ("continue", "abort", "replan", "approval_response")


def note_refusal(caller: Caller, tool: str, workflow_id: str | None, error: Exception) -> None:
    """Keep a malformed command in the command log of its run, as every door does."""
    malformed = isinstance(error, InvalidRequest | BoundedJSONError)
    if tool not in _COMMANDS or workflow_id is None or not malformed:
        return
    try:
        acting = caller.now()
        execution = acting.execution(workflow_id)
    except (Http404, APIException):
        return
    services.log_refusal(
        execution_id=execution.pk,
        kind=tool,
        actor=acting.name,
        source=SOURCE,
        reason=str(error),
        outcome="invalid",
    )
