"""REST API of executions: start, list, read, fork; checkpoints, decisions and messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import F, OuterRef, QuerySet, Subquery
from django.http import Http404
from django.urls import reverse
from django.utils.module_loading import import_string
from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.commands import AddMessage
from workflows.executions import access, services
from workflows.executions.definitions import plan_for_intent
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.executions.selectors import (
    decisions_of,
    holds_of,
    runs_remotely,
    tasks_at_start,
    tasks_of,
)
from workflows.executions.validation import InvalidRequest
from workflows.models import Checkpoint, Execution, ExecutionEvent, Hold, Workflow

from . import examples
from .etags import execution_etag, not_modified_response
from .idempotency_header import idempotent
from .openapi import BODY, ETAG, EXECUTION_ID, IDEMPOTENCY_KEY, IF_NONE_MATCH, problems
from .pagination import MergedQuerysets
from .parsers import PlanJSONParser, query_params, validated_body
from .permission_classes import HasRole, HasScope, caller, require, token_of
from .serializers import (
    CheckpointSerializer,
    DecisionSerializer,
    ExecutionRowSerializer,
    ExecutionSerializer,
    FilterSerializer,
    ForkSerializer,
    MessageSerializer,
    OutcomeSerializer,
    RevealQuery,
    SaidSerializer,
    StartedSerializer,
    StartSerializer,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_DIGITS = re.compile(r"[0-9]{1,19}")
_MAX_BIGINT = 2**63 - 1


def parse_id(text: str) -> int:
    """Parse an id from a path or a body; raise Http404 for text that is no id."""
    if not _DIGITS.fullmatch(text) or int(text) > _MAX_BIGINT:
        raise Http404
    return int(text)


def visible_execution(request: Request, execution_id: str) -> Execution:
    """Return an execution with workflow and creator; raise Http404 if it is not visible."""
    execution = visible_executions(request).filter(pk=parse_id(execution_id)).first()
    if execution is None:
        raise Http404
    return execution


def visible_executions(request: Request) -> QuerySet[Execution]:
    """The executions the caller may see, with the task and phase of their oldest open hold."""
    oldest = Hold.objects.filter(execution=OuterRef("pk"), status=Hold.Status.OPEN)
    oldest = oldest.order_by("opened_seq")
    return (
        access.visible_to(request.user)
        .select_related("workflow", "created_by")
        .annotate(
            oldest_node=Subquery(oldest.values("task_id")[:1]),
            oldest_phase=Subquery(oldest.values("phase")[:1]),
        )
    )


def body_of(execution: Execution, *, is_new: bool = False) -> dict[str, Any]:
    """Return the execution with tasks and holds; secrets are masked.

    With `is_new`, the state before its first step, which needs no query.
    """
    masked_body: dict[str, Any] = _view("execution_view")(
        execution=execution, body=_unmasked_body(execution, is_new=is_new)
    )
    return masked_body


def _unmasked_body(execution: Execution, *, is_new: bool = False) -> dict[str, Any]:
    tasks = tasks_at_start(execution) if is_new else tasks_of(execution)
    execution.task_views = tasks  # type: ignore[attr-defined]
    execution.all_holds = [] if is_new else holds_of(execution)  # type: ignore[attr-defined]
    execution.masked = ()  # type: ignore[attr-defined]
    return dict(ExecutionSerializer(execution).data)


def _view(name: str) -> Any:
    """Import a callable of the app `reviews`, which knows who may see masked values."""
    return import_string(settings.HOLDPOINT[name])


def _reveal_response(request: Request, execution: Execution) -> Response:
    """Return the execution without masks to users with that right, after recording the access."""
    body = _view("execution_revealed")(
        execution=execution,
        body=_unmasked_body(execution),
        user=caller(request),
        token=token_of(request),
    )
    return Response(body, headers={"ETag": execution_etag(execution.version)})


def _created(execution: Execution, body: dict[str, Any]) -> StoredResponse:
    if warnings := services.run_warnings(execution):
        body["warnings"] = warnings
    text = json_text(body)
    location = reverse("execution", kwargs={"execution_id": str(execution.pk)})
    return StoredResponse(status=201, text=text, location=location)


def _by_last_change(rows: QuerySet[Execution]) -> MergedQuerysets:
    """Annotate `changed_at`: the end of ended executions, the last step of active ones.

    An index on `updated_at` would slow down each step, and few executions are active at once.
    """
    return MergedQuerysets(
        rows.filter(finished_at=None).annotate(changed_at=F("updated_at")),
        rows.exclude(finished_at=None).annotate(changed_at=F("finished_at")),
    )


class ExecutionsView(ListAPIView[Execution]):
    """List the visible executions, and start one."""

    permission_classes = (HasRole, HasScope("run"))
    parser_classes = (PlanJSONParser,)
    throttle_scope = "start"
    serializer_class = ExecutionRowSerializer
    # A start checks the caller's rights several times within milliseconds.
    reads_groups_once = True
    orderings = {
        "-created_at": ("-id",),
        "created_at": ("id",),
        "-updated_at": ("-changed_at", "-id"),
        "updated_at": ("changed_at", "id"),
    }

    def get_queryset(self) -> QuerySet[Execution] | MergedQuerysets:  # type: ignore[override]
        rows = self._filtered()
        by_last_change = "updated_at" in self.request.query_params.get("ordering", "")
        return _by_last_change(rows) if by_last_change else rows

    def _filtered(self) -> QuerySet[Execution]:
        filters = query_params(self.request, FilterSerializer)
        rows = visible_executions(self.request)
        if "status" in filters:
            rows = rows.filter(status=filters["status"])
        if "workflow" in filters:
            rows = rows.filter(workflow__name=filters["workflow"])
        if filters.get("created_by") == "me":
            rows = rows.filter(created_by=self.request.user.pk)
        elif "created_by" in filters:
            rows = rows.filter(created_by__username=filters["created_by"])
        if "created_from" in filters:
            rows = rows.filter(created_at__gte=filters["created_from"])
        if "created_to" in filters:
            rows = rows.filter(created_at__lt=filters["created_to"])
        return rows

    @extend_schema(
        operation_id="executions_list",
        summary="List executions",
        parameters=[FilterSerializer],
        responses={200: ExecutionRowSerializer(many=True), **problems(403, 404, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="executions_start",
        summary="Start an execution",
        parameters=[IDEMPOTENCY_KEY],
        request=StartSerializer,
        examples=examples.START,
        responses={201: StartedSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        require(access.may_start(request.user), "Your role does not start executions.")
        return idempotent(request, lambda: self._start(request))

    def _start(self, request: Request) -> StoredResponse:
        fields = validated_body(StartSerializer, request)
        name, plan, title = fields.get("workflow"), fields.get("plan"), fields.get("title", "")
        if "intent" in fields:
            intent = fields["intent"]
            plan = plan_for_intent(
                intent=intent, inputs=fields.get("inputs", {}), actor=caller(request)
            )
            title = title or intent
        execution = services.start_execution(
            actor=caller(request),
            workflow=get_workflow(caller(request), name) if name is not None else None,
            plan=plan,
            inputs=fields.get("inputs"),
            policy=fields.get("policy"),
            title=title,
        )
        return _created(execution, body_of(execution, is_new=True))


def get_workflow(user: User, name: str) -> Workflow:
    """Return the enabled workflow with this name or id; raise InvalidRequest."""
    rows = access.workflows_for(user).filter(enabled=True)
    workflow = rows.filter(name=name).first()
    if workflow is None and _DIGITS.fullmatch(name):
        workflow = rows.filter(pk=int(name)).first()
    if workflow is None:
        message = f"there is no workflow {name!r}, or it is disabled"
        raise InvalidRequest((Problem("workflow", "unknown_workflow", message),))
    return workflow


class ExecutionView(APIView):
    """One execution."""

    permission_classes = (HasRole, HasScope("read"))

    @extend_schema(
        operation_id="executions_get",
        summary="One execution with tasks and holds",
        description=(
            "Passwords, tokens and keys are masked; `masked` lists them. With `reveal=true` "
            "auditors and deciders of the execution's holds get the real values; each access is "
            "recorded."
        ),
        parameters=[EXECUTION_ID, RevealQuery, IF_NONE_MATCH, ETAG],
        responses={200: ExecutionSerializer, 304: None, **problems(403, 404)},
    )
    def get(self, request: Request, execution_id: str) -> Response:
        reveal = query_params(request, RevealQuery, also=frozenset())["reveal"]
        execution = visible_execution(request, execution_id)
        if reveal:
            return _reveal_response(request, execution)
        etag = execution_etag(execution.version)
        not_modified = not_modified_response(request, etag)
        if not_modified is not None and not runs_remotely(execution):
            return not_modified
        return Response(body_of(execution), headers={"ETag": etag})


class CheckpointsView(ListAPIView[Checkpoint]):
    """The checkpoints at which an execution can be forked."""

    permission_classes = (HasRole, HasScope("read"))
    orderings = {"-layer": ("-layer",), "layer": ("layer",)}
    serializer_class = CheckpointSerializer

    def get_queryset(self) -> QuerySet[Checkpoint]:
        query_params(self.request)
        execution = visible_execution(self.request, self.kwargs["execution_id"])
        rows = Checkpoint.objects.filter(execution=execution)
        return rows.select_related("execution__workflow")

    @extend_schema(
        operation_id="executions_checkpoints",
        summary="Checkpoints, newest first",
        parameters=[EXECUTION_ID],
        responses={200: CheckpointSerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class DecisionsView(ListAPIView[ExecutionEvent]):
    """The decisions of people and agents in an execution."""

    permission_classes = (HasRole, HasScope("read"))
    orderings = {"seq": ("place",), "-seq": ("-place",)}
    serializer_class = DecisionSerializer

    def get_queryset(self) -> QuerySet[ExecutionEvent]:
        query_params(self.request)
        execution = visible_execution(self.request, self.kwargs["execution_id"])
        return decisions_of(execution, self.request.user)

    @extend_schema(
        operation_id="executions_decisions",
        summary="Decisions of people and agents, oldest first",
        description=(
            "The list of a fork begins with the decisions of the executions that it comes from, up "
            "to the checkpoint of the fork. `execution_id` is the execution of the decision, `seq` "
            "its number there. Decisions of executions that the caller may not see are left out."
        ),
        parameters=[EXECUTION_ID],
        responses={200: DecisionSerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class MessagesView(ListAPIView[ExecutionEvent]):
    """The conversation of an execution."""

    permission_classes = (HasRole, HasScope("run"))
    orderings = {"seq": ("seq",), "-seq": ("-seq",)}
    serializer_class = SaidSerializer

    def get_queryset(self) -> QuerySet[ExecutionEvent]:
        query_params(self.request)
        execution = visible_execution(self.request, self.kwargs["execution_id"])
        return ExecutionEvent.objects.filter(execution=execution, kind="message_added")

    @extend_schema(
        operation_id="executions_messages",
        summary="Messages, oldest first",
        parameters=[EXECUTION_ID],
        responses={200: SaidSerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="executions_say",
        summary="Add a message to the conversation",
        parameters=[EXECUTION_ID, IDEMPOTENCY_KEY],
        request=MessageSerializer,
        responses={
            200: OutcomeSerializer,
            202: OutcomeSerializer,
            **problems(403, 404, 409, *BODY),
        },
    )
    def post(self, request: Request, execution_id: str) -> Response:
        execution = visible_execution(request, execution_id)
        require(access.may_start(request.user), "Your role can only read conversations.")
        return idempotent(request, lambda: self._say(request, execution))

    def _say(self, request: Request, execution: Execution) -> StoredResponse:
        message = validated_body(MessageSerializer, request)
        # A language model trusts messages under its own role, so that role needs more rights.
        if message.get("ask_agent") or message["role"] != "user":
            allowed = access.may_operate(request.user, execution)
            require(
                allowed,
                "Operators, admins and the user who started it may have its agent decide, and add"
                " messages as its agent or as a tool.",
            )
        result = services.submit_command(
            execution_id=execution.pk,
            command=AddMessage(**message, author=request.user.get_username()),
            actor=access.actor_of(request.user),
            source="rest",
        )
        body = {"outcome": result.outcome, "version": result.version, "status": result.status}
        return StoredResponse(200 if result.outcome == "applied" else 202, json_text(body))


class ForkView(APIView):
    """Fork an execution at a checkpoint."""

    permission_classes = (HasRole, HasScope("run"))
    throttle_scope = "start"

    @extend_schema(
        operation_id="executions_fork",
        summary="Fork at a checkpoint",
        parameters=[EXECUTION_ID, IDEMPOTENCY_KEY],
        request=ForkSerializer,
        responses={201: StartedSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request, execution_id: str) -> Response:
        execution = visible_execution(request, execution_id)
        allowed = access.may_operate(request.user, execution)
        require(allowed, "Operators, admins and the user who started it may fork an execution.")
        return idempotent(request, lambda: self._fork(request, execution))

    def _fork(self, request: Request, execution: Execution) -> StoredResponse:
        fields = validated_body(ForkSerializer, request)
        edits = fields.get("edits") or {}
        fork = services.fork_execution(
            execution=execution,
            checkpoint=_checkpoint(execution, fields["checkpoint"]),
            actor=caller(request),
            inputs=edits.get("inputs"),
            context=edits.get("context"),
        )
        visible = visible_execution(request, str(fork.pk))
        return _created(visible, body_of(visible))


def _checkpoint(execution: Execution, text: str) -> Checkpoint:
    try:
        return Checkpoint.objects.get(execution=execution, pk=parse_id(text))
    except (Http404, Checkpoint.DoesNotExist):
        message = "the execution has no such checkpoint"
        raise InvalidRequest((Problem("checkpoint", "unknown_checkpoint", message),)) from None
