"""REST endpoints for the permission hooks of coding agents: ask, wait, answer in their format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.api.openapi import BODY, problems
from workflows.api.parsers import object_body, query_params
from workflows.api.permission_classes import HasRole, caller, require
from workflows.api.problems import IdempotencyMismatch
from workflows.api.serializers import PlainSerializer
from workflows.executions import access
from workflows.executions.idempotency import KeyReused

from . import hooks, services
from .api import READS_ONLY, AskSerializer, MayAsk, own_body
from .waiting import MAX_WAIT_SECONDS, waiting_response

AGENT = OpenApiParameter("agent", str, OpenApiParameter.PATH, enum=list(hooks.AGENTS))


class HookQuerySerializer(PlainSerializer):
    """How long to wait, and how to answer."""

    wait = serializers.IntegerField(
        min_value=0,
        max_value=MAX_WAIT_SECONDS,
        default=MAX_WAIT_SECONDS,
        help_text="Seconds to wait for a decision; after them the call is denied for now.",
    )
    call = serializers.RegexField(
        r"^[A-Za-z0-9_-]{1,100}$",
        required=False,
        help_text="An id of the call, for events without one: the same id continues the same one.",
    )
    envelope = serializers.BooleanField(
        default=False, help_text="Answer `{status, output}`, so that a script can wait again."
    )


class HookEventSerializer(serializers.Serializer[Any]):
    """The event of a hook as the agent sends it; other fields are ignored."""

    hook_event_name = serializers.CharField(help_text="PreToolUse or PermissionRequest.")
    tool_name = serializers.CharField()
    tool_input = serializers.DictField()
    tool_use_id = serializers.CharField(required=False)
    session_id = serializers.CharField(required=False)
    cwd = serializers.CharField(required=False)


class HookAnswerSerializer(PlainSerializer):
    """The agent's format; with `envelope`, `{status, output}` with it as `output`."""

    hookSpecificOutput = serializers.DictField(required=False)
    status = serializers.CharField(required=False)
    output = serializers.DictField(required=False)


class HookView(APIView):
    """Ask for the approval of a call of a tool that a coding agent is about to run."""

    permission_classes = (HasRole, MayAsk)
    throttle_scope = "start"

    @extend_schema(
        operation_id="hooks_ask",
        summary="Answer the permission hook of a coding agent",
        description=(
            "`claude-code` takes PreToolUse events of Claude Code, `codex` PermissionRequest "
            "events of Codex. The answer allows a call only if people approved it; a call that is "
            "still pending after `wait` seconds is denied, and the same call continues the same "
            "approval."
        ),
        parameters=[AGENT, HookQuerySerializer],
        request=HookEventSerializer,
        responses={200: HookAnswerSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request, agent: str) -> HttpResponseBase:
        known = hooks.AGENTS.get(agent)
        if known is None:
            raise Http404
        require(access.may_start(request.user), READS_ONLY)
        query = query_params(request, HookQuerySerializer, also=frozenset())
        event = object_body(request.data)
        number = _ask(request, known, event, query.get("call", ""))

        def render(body: Mapping[str, Any]) -> dict[str, Any]:
            output = hooks.answer(known, event, body)
            return {"status": body["status"], "output": output} if query["envelope"] else output

        body = own_body(caller(request), number)
        if body is None:
            raise Http404
        if query["wait"] and body["status"] == "pending":
            return waiting_response(
                request,
                body,
                query["wait"],
                read=lambda user: own_body(user, number),
                render=render,
            )
        return Response(render(body))


def _ask(request: Request, agent: hooks.Agent, event: Mapping[str, Any], call: str) -> int:
    """Ask for the approval of the event's call, or find it; return its id."""
    asked = hooks.request_of(agent, event)
    serializer = AskSerializer(data=asked)
    serializer.is_valid(raise_exception=True)
    key = f"hook:{agent.name}:{call}" if call else hooks.key_of(agent, event)
    try:
        approval = services.ask(
            actor=caller(request), fields=dict(serializer.validated_data), key=key, body=asked
        )
    except KeyReused as error:
        raise IdempotencyMismatch from error
    return approval.pk
