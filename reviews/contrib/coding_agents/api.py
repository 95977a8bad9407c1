"""REST endpoints for the permission hooks of coding agents: ask, wait, answer in their format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

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
from workflows.approvals.api import READS_ONLY, AskSerializer, MayAsk, own_body
from workflows.approvals.waiting import MAX_WAIT_SECONDS, waiting_response
from workflows.executions import access
from workflows.executions.idempotency import KeyReused

from . import hook_formats, services

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from .models import HookCall

AGENT = OpenApiParameter("agent", str, OpenApiParameter.PATH, enum=list(hook_formats.AGENTS))


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


class HookStopQuerySerializer(PlainSerializer):
    """Which call."""

    call = serializers.RegexField(
        r"^[A-Za-z0-9_-]{1,100}$", required=False, help_text="The id of the call, as it was asked."
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
        query = query_params(request, HookQuerySerializer, also=frozenset())
        event = _Event(request, agent, query.get("call", ""))
        call = event.ask(query["wait"])
        if call is None or call.approval_id is None:
            denial = hook_formats.denial(event.agent, "The hook has stopped waiting for this call.")
            return Response({"status": "cancelled", "output": denial})

        number = call.approval_id

        def read(user: User) -> dict[str, Any] | None:
            body = own_body(user, number)
            return None if body is None else services.allowed_once(call, body)

        def render(body: Mapping[str, Any]) -> dict[str, Any]:
            output = hook_formats.answer(event.agent, event.data, body)
            return {"status": body["status"], "output": output} if query["envelope"] else output

        body = read(caller(request))
        if body is None:
            raise Http404
        if query["wait"] and body["status"] == "pending":
            return waiting_response(request, body, query["wait"], read=read, render=render)
        return Response(render(body))


class HookStopView(APIView):
    """Stop waiting for the approval of a call."""

    permission_classes = (HasRole, MayAsk)
    throttle_scope = "start"

    @extend_schema(
        operation_id="hooks_stop",
        summary="Stop waiting for the approval of a call",
        description=(
            "Takes the event and the `call` of the request for approval, and cancels an approval "
            "that is not decided and that no other hook waits for. The answer is that of the "
            "request: a decision that was made meanwhile counts."
        ),
        parameters=[AGENT, HookStopQuerySerializer],
        request=HookEventSerializer,
        responses={200: HookAnswerSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request, agent: str) -> Response:
        query = query_params(request, HookStopQuerySerializer, also=frozenset())
        event = _Event(request, agent, query.get("call", ""))
        user = caller(request)
        call = services.stop_waiting(actor=user, request=event.request, key=event.key)
        body = own_body(user, call.approval_id) if call.approval_id is not None else None
        if body is None:
            denial = hook_formats.denial(event.agent, "The hook has stopped waiting for this call.")
            return Response({"status": "cancelled", "output": denial})
        body = services.allowed_once(call, body)
        output = hook_formats.answer(event.agent, event.data, body)
        return Response({"status": body["status"], "output": output})


class _Event:
    """The event of a request, the id of its call, and the approval that it asks for."""

    def __init__(self, request: Request, agent: str, call: str) -> None:
        known = hook_formats.AGENTS.get(agent)
        if known is None:
            raise Http404
        require(access.may_start(request.user), READS_ONLY)
        self.agent = known
        self.data = object_body(request.data)
        key = f"hook:{known.name}:{call}" if call else hook_formats.key_of(known, self.data)
        self.key = key or f"hook:{uuid4().hex}"
        self.request = hook_formats.request_of(known, self.data)
        self._user = caller(request)

    def ask(self, wait: float) -> HookCall | None:
        """Return the call with its approval; None if its hook has stopped waiting."""
        serializer = AskSerializer(data=self.request)
        serializer.is_valid(raise_exception=True)
        try:
            return services.ask(
                actor=self._user,
                request=self.request,
                fields=dict(serializer.validated_data),
                key=self.key,
                wait=wait,
            )
        except services.StoppedWaiting:
            return None
        except KeyReused as error:
            raise IdempotencyMismatch from error
