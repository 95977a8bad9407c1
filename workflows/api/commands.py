"""REST API of the nine commands to an execution."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.decide import Refused
from workflows.executions import access, services
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution

from . import examples
from .etags import if_match_version
from .executions import visible_execution
from .idempotency_header import idempotent
from .openapi import BODY, EXECUTION_ID, IDEMPOTENCY_KEY, IF_MATCH, problems
from .parsers import PlanJSONParser, object_body
from .permission_classes import (
    HasRole,
    caller,
    require,
    require_scope,
    session_confirmed_at,
    token_of,
)
from .serializers import OutcomeSerializer, PlainSerializer

DECISIONS = ("approval_response", "checkpoint_response")
_KINDS = (
    "continue",
    "abort",
    "replan",
    *DECISIONS,
    "inject_task",
    "skip_layer",
    "modify_args",
    "update_state",
)
_MAX_BIGINT = 2**63 - 1


class CommandSerializer(PlainSerializer):
    """A command; `kind` determines the other fields."""

    kind = serializers.ChoiceField(choices=_KINDS)
    version = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=_MAX_BIGINT,
        help_text="The version that the caller has read.",
    )
    reason = serializers.CharField(required=False, help_text="continue, abort, skip_layer")
    hold = serializers.CharField(required=False, help_text="approval_response: the hold's id")
    approved = serializers.BooleanField(required=False, help_text="approval_response")
    edits = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="approval_response; absent or null: no change",
    )
    set_output_null = serializers.BooleanField(
        required=False, help_text="approval_response after a task: its output becomes null"
    )
    feedback = serializers.CharField(required=False, help_text="approval_response")
    grant_scope = serializers.ChoiceField(
        choices=["task", "execution", "capability", "until"],
        required=False,
        help_text="approval_response of an escalation; default: task",
    )
    grant_seconds = serializers.FloatField(
        required=False, help_text="approval_response with grant_scope until"
    )
    new_requirement = serializers.CharField(required=False, help_text="replan")
    available_context = serializers.DictField(
        required=False, allow_null=True, help_text="replan; absent or null: none"
    )
    task = serializers.DictField(required=False, help_text="inject_task: as in a plan")
    layer = serializers.IntegerField(required=False, help_text="skip_layer; default: the next")
    task_id = serializers.CharField(required=False, help_text="modify_args")
    arguments = serializers.DictField(required=False, help_text="modify_args")
    updates = serializers.DictField(required=False, help_text="update_state")


class CommandsView(APIView):
    """Submit a command; a decision requires the scope `decide`, other commands `run`."""

    permission_classes = (HasRole,)
    parser_classes = (PlanJSONParser,)
    throttle_scope = "decide"

    @extend_schema(
        operation_id="executions_command",
        summary="Command an execution",
        parameters=[EXECUTION_ID, IDEMPOTENCY_KEY, IF_MATCH],
        request=CommandSerializer,
        examples=examples.COMMAND,
        responses={
            200: OutcomeSerializer,
            202: OutcomeSerializer,
            **problems(403, 404, 409, *BODY),
        },
    )
    def post(self, request: Request, execution_id: str) -> Response:
        execution = visible_execution(request, execution_id)
        body = object_body(request.data)
        is_decision = body.get("kind") in DECISIONS
        require_scope(request, "decide" if is_decision else "run")
        if not is_decision:
            allowed = access.may_operate(request.user, execution)
            require(
                allowed, "Operators, admins and the user who started it may command an execution."
            )
        try:
            version = _version(body, request)
            command = services.parse_command({k: v for k, v in body.items() if k != "version"})
        except InvalidRequest as invalid:
            _log_malformed(request, execution, body, invalid)
            raise
        response = idempotent(request, lambda: _perform(request, execution, command, version))
        if response.status_code == 409:
            # Raised outside of the transaction, so that the attempt is not rolled back.
            raise Refused("replan_failed", response.data["failure"])
        return response


def _perform(
    request: Request, execution: Execution, command: Any, version: int | None
) -> StoredResponse:
    extra: dict[str, Any] = {}
    if command.kind in DECISIONS:
        result = _decision(request, execution, command, version)
        outcome = "applied"
        extra["warnings"] = [asdict(each) for each in result.warnings]
    else:
        result = services.submit_command(
            execution_id=execution.pk,
            command=command,
            actor=access.actor_of(request.user),
            source="rest",
            version=version,
        )
        if result.failure:
            return StoredResponse(status=409, text=json_text({"failure": str(result.failure)}))
        outcome = result.outcome
        if command.kind == "replan":
            extra["questions"] = list(result.questions)
    body = {"outcome": outcome, "version": result.version, "status": result.status, **extra}
    return StoredResponse(status=200 if outcome == "applied" else 202, text=json_text(body))


def _decision(request: Request, execution: Execution, command: Any, version: int | None) -> Any:
    """Decide through the app `reviews`, which checks rights and edits and writes the record.

    The setting `HOLDPOINT["decision_service"]` names the callable. It takes these keyword arguments
    and returns an object with the resulting `version` and `status`, and `warnings`.
    """
    decide = import_string(settings.HOLDPOINT["decision_service"])
    return decide(
        execution=execution,
        command=command,
        user=caller(request),
        token=token_of(request),
        source="rest",
        version=version,
        confirmed_at=session_confirmed_at(request),
    )


def _version(body: dict[str, Any], request: Request) -> int | None:
    """Return the version that the caller has read, from the body or If-Match; None without one."""
    version = body.get("version")
    if version is None:
        return if_match_version(request)
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= _MAX_BIGINT:
        raise InvalidRequest(
            (
                Problem(
                    "version", "not_a_version", "must be a whole number, the version you have read"
                ),
            )
        )
    return version


def _log_malformed(
    request: Request,
    execution: Execution,
    body: dict[str, Any],
    invalid: InvalidRequest,
) -> None:
    kind = body.get("kind")
    services.log_refusal(
        execution_id=execution.pk,
        kind=str(kind) if kind in _KINDS else "unknown",
        actor=access.actor_of(request.user),
        source="rest",
        reason=str(invalid),
        outcome="invalid",
    )
