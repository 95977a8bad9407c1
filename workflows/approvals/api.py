"""REST API of approvals: ask, wait for the answer, cancel, submit again, report the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.http import Http404, HttpResponseBase
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.api import examples
from workflows.api.executions import parse_id
from workflows.api.idempotency_header import idempotency_key, idempotent
from workflows.api.openapi import BODY, IDEMPOTENCY_KEY, problems
from workflows.api.pagination import Orderings
from workflows.api.parsers import query_params, validated_body
from workflows.api.permission_classes import HasRole, caller, has_scope, require
from workflows.api.problems import IdempotencyMismatch
from workflows.api.serializers import ID_PATTERN, PlainSerializer, StrictSerializer
from workflows.engine.policy.policies import TriggerPhase
from workflows.executions import access
from workflows.executions.idempotency import KeyReused, StoredResponse, json_text
from workflows.models import Approval
from workflows.models.approvals import ACTION_NAME, ApprovalPolicy, ApprovalStatus

from . import services
from .selectors import approval_body, asked_with, expires_at, readable_approvals
from .waiting import MAX_WAIT_SECONDS, waiting_response

if TYPE_CHECKING:
    from django.contrib.auth.models import User

APPROVAL_ID = OpenApiParameter(
    "approval_id", str, OpenApiParameter.PATH, description="Digits.", pattern=ID_PATTERN
)
READS_ONLY = "Your role does not ask for approvals."
_OTHER_TOKEN = "Another token asked for this approval. Use that token, or sign in."  # noqa: S105
_MAX_SECONDS = 31_536_000
_DIGEST = r"^[0-9a-f]{64}$"


class MayAsk(BasePermission):
    """A token needs the scope `ask`, also for reading."""

    message = "This token does not have the scope 'ask'."

    def has_permission(self, request: Request, view: Any) -> bool:
        return has_scope(request, "ask")


# --- requests -------------------------------------------------------------------------------------


class ActionSerializer(StrictSerializer):
    """The action: its name, its arguments and the JSON Schema of the arguments."""

    name = serializers.RegexField(rf"^{ACTION_NAME}\Z", max_length=199, trim_whitespace=False)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    description = serializers.CharField(max_length=4000, required=False, allow_blank=True)
    arguments = serializers.DictField(default=dict)
    schema = serializers.DictField(required=False)
    output = serializers.JSONField(
        required=False, allow_null=True, help_text="The result, for AFTER_EXECUTION."
    )


class RequestedBySerializer(StrictSerializer):
    """The agent that asks; shown to reviewers."""

    agent = serializers.CharField(max_length=200, required=False, allow_blank=True)
    session = serializers.CharField(max_length=200, required=False, allow_blank=True)
    url = serializers.CharField(max_length=2000, required=False, allow_blank=True)


class CallbackSerializer(StrictSerializer):
    """The URL of one of the caller's webhook endpoints, which are sent how the run goes on."""

    url = serializers.CharField(max_length=2000)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "boolean"},
            {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^(/|$)"}},
        ]
    }
)
class EditableField(serializers.Field):  # type: ignore[type-arg]
    """True, false, or a list of JSON pointers."""

    default_error_messages = {
        "invalid": "must be true, false or a list of at most 100 JSON pointers such as /amount"
    }

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, bool):
            return data or ()
        if not isinstance(data, list) or len(data) > 100:
            self.fail("invalid")
        if not all(isinstance(each, str) and _is_pointer(each) for each in data):
            self.fail("invalid")
        return tuple(data)

    def to_representation(self, value: Any) -> Any:
        return value


def _is_pointer(text: str) -> bool:
    return len(text) <= 500 and (not text or text.startswith("/"))


class AskSerializer(StrictSerializer):
    """An action to approve."""

    action = ActionSerializer()
    phase = serializers.ChoiceField(
        choices=[each.value for each in TriggerPhase],
        default=TriggerPhase.BEFORE_EXECUTION.value,
        help_text="Whether people decide before the action runs, or about its output.",
    )
    risk = serializers.ChoiceField(
        choices=ApprovalPolicy.Risk.values,
        required=False,
        help_text="`high` if it is missing; never lower than that of the policy and the catalogue.",
    )
    groups = serializers.ListField(
        child=serializers.CharField(max_length=150), min_length=1, max_length=20, required=False
    )
    quorum = serializers.IntegerField(min_value=1, max_value=20, required=False)
    timeout_seconds = serializers.IntegerField(
        min_value=1, max_value=_MAX_SECONDS, required=False, allow_null=True
    )
    on_timeout = serializers.ChoiceField(choices=ApprovalPolicy.OnTimeout.values, required=False)
    editable = EditableField(
        required=False,
        help_text="What reviewers may change: true (default), or JSON pointers into the arguments.",
    )
    instructions = serializers.CharField(max_length=4000, required=False, allow_blank=True)
    context = serializers.CharField(  # type: ignore[assignment]
        max_length=50_000, required=False, allow_blank=True, help_text="Markdown for reviewers."
    )
    requested_by = RequestedBySerializer(required=False)
    callback = CallbackSerializer(required=False)


class CancelSerializer(StrictSerializer):
    """Why it is cancelled."""

    reason = serializers.CharField(max_length=4000, required=False, allow_blank=True, default="")


class ResubmitSerializer(StrictSerializer):
    """The new arguments, or the new output of an executed action."""

    arguments = serializers.DictField(required=False)
    output = serializers.JSONField(required=False, allow_null=True)


class ResultSerializer(StrictSerializer):
    """What happened.  The executed arguments, or their digest, are compared with the decision."""

    ok = serializers.BooleanField()
    output = serializers.JSONField(required=False, allow_null=True)
    error = serializers.CharField(max_length=10_000, required=False, allow_blank=True)
    arguments = serializers.DictField(required=False)
    arguments_digest = serializers.RegexField(_DIGEST, required=False)


class ApprovalFilterSerializer(PlainSerializer):
    """Filters of the list."""

    status = serializers.ChoiceField(choices=ApprovalStatus.choices, required=False)
    action = serializers.CharField(max_length=200, required=False, help_text="The action's name.")
    session = serializers.CharField(max_length=200, required=False)


class WaitSerializer(PlainSerializer):
    """How long to wait for an answer."""

    wait = serializers.IntegerField(
        min_value=0,
        max_value=MAX_WAIT_SECONDS,
        default=0,
        help_text="Seconds to wait while the status is `pending`.",
    )


# --- responses ------------------------------------------------------------------------------------


class ActionNameSerializer(PlainSerializer):
    """The action's name and title."""

    name = serializers.CharField()
    title = serializers.CharField(allow_blank=True)


class RequestedBySchema(PlainSerializer):
    """The agent that asked."""

    agent = serializers.CharField(allow_blank=True)
    session = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True)


class ReportedResultSerializer(PlainSerializer):
    """The reported result; `mismatch`: other arguments than the decided ones were executed."""

    ok = serializers.BooleanField()
    output = serializers.JSONField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    mismatch = serializers.BooleanField()
    reported_at = serializers.DateTimeField()


class GrantUseSerializer(PlainSerializer):
    """A standing answer: a reviewer approved similar actions of this agent for a time."""

    id = serializers.CharField()
    given_by = serializers.CharField()
    expires_at = serializers.DateTimeField()


class ApprovalSerializer(PlainSerializer):
    """An approval.

    `arguments` are final once the status is `approved`; `arguments_digest` is the SHA-256 of their
    canonical JSON.  `comment` is the reason of a rejection, or the wish of a request for changes.
    """

    id = serializers.CharField()
    status = serializers.ChoiceField(choices=ApprovalStatus.choices)
    action = ActionNameSerializer()
    phase = serializers.ChoiceField(choices=[each.value for each in TriggerPhase])
    risk = serializers.ChoiceField(choices=ApprovalPolicy.Risk.values)
    policy = serializers.CharField(allow_null=True, help_text="The pattern that applied.")
    arguments = serializers.DictField()
    arguments_digest = serializers.CharField()
    output = serializers.JSONField(allow_null=True)
    edited = serializers.BooleanField()
    comment = serializers.CharField(allow_blank=True)
    decided_by = serializers.CharField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    grant = GrantUseSerializer(
        allow_null=True, help_text="The standing answer that covered the action, if any."
    )
    execution_id = serializers.CharField()
    hold_id = serializers.CharField(allow_null=True)
    version = serializers.IntegerField()
    round = serializers.IntegerField()
    changes_left = serializers.IntegerField()
    review_url = serializers.CharField()
    expires_at = serializers.DateTimeField(allow_null=True)
    awaited = serializers.BooleanField(
        allow_null=True,
        help_text="Whether the hook of an agent still waits for the decision; null for others.",
    )
    requested_by = RequestedBySchema()
    result = ReportedResultSerializer(allow_null=True)
    created_at = serializers.DateTimeField()


class ApprovalRowSerializer(PlainSerializer):
    """An approval in a list."""

    id = serializers.CharField()
    status = serializers.ChoiceField(choices=ApprovalStatus.choices)
    action = serializers.SerializerMethodField()
    phase = serializers.ChoiceField(choices=[each.value for each in TriggerPhase])
    risk = serializers.ChoiceField(choices=ApprovalPolicy.Risk.values)
    execution_id = serializers.CharField()
    hold_id = serializers.CharField(allow_null=True)
    expires_at = serializers.SerializerMethodField()
    requested_by = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()

    @extend_schema_field(ActionNameSerializer)
    def get_action(self, row: Approval) -> dict[str, str]:
        return {"name": row.action, "title": row.title}

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_expires_at(self, row: Approval) -> str | None:
        shown = expires_at(row)
        return serializers.DateTimeField().to_representation(shown) if shown else None

    @extend_schema_field(RequestedBySchema)
    def get_requested_by(self, row: Approval) -> dict[str, str]:
        return {"agent": row.agent, "session": row.session, "url": row.url}


# --- views ----------------------------------------------------------------------------------------


def own_approval(request: Request, approval_id: str) -> Approval:
    """Return an approval that the caller may read; raise Http404 for any other."""
    approval = readable_approvals(caller(request)).filter(pk=parse_id(approval_id)).first()
    if approval is None:
        raise Http404
    return approval


def own_body(user: User, approval_id: int) -> dict[str, Any] | None:
    """Return an approval that the user may read, or None."""
    approval = readable_approvals(user).filter(pk=approval_id).first()
    return dict(ApprovalSerializer(approval_body(approval)).data) if approval else None


def _changed(request: Request, approval_id: int, status: int, location: str = "") -> StoredResponse:
    text = json_text(own_body(caller(request), approval_id))
    return StoredResponse(status, text, location=location, is_private=True)


class ApprovalsView(ListAPIView[Approval]):
    """List the caller's approvals, and ask for one."""

    permission_classes = (HasRole, MayAsk)
    throttle_scope = "start"
    serializer_class = ApprovalRowSerializer
    orderings: Orderings = {"-created_at": ("-id",), "created_at": ("id",)}

    def get_queryset(self) -> QuerySet[Approval]:
        filters = query_params(self.request, ApprovalFilterSerializer)
        return readable_approvals(caller(self.request)).filter(**filters)

    @extend_schema(
        operation_id="approvals_list",
        summary="List the approvals that you asked for",
        parameters=[ApprovalFilterSerializer],
        responses={200: ApprovalRowSerializer(many=True), **problems(403, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="approvals_ask",
        summary="Ask for the approval of an action",
        description=(
            "Opens a review of an action that you execute yourself. The policy of the action's "
            "name sets groups, quorum, deadline and risk; a request can only be stricter (422, "
            "`policy_loosened`). The status is `approved` at once if a rule or a standing answer "
            "skips the review."
        ),
        parameters=[IDEMPOTENCY_KEY],
        request=AskSerializer,
        examples=examples.ASK,
        responses={201: ApprovalSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        require(access.may_start(request.user), READS_ONLY)
        return idempotent(request, lambda: self._ask(request))

    def _ask(self, request: Request) -> StoredResponse:
        fields = validated_body(AskSerializer, request)
        try:
            approval = services.ask(
                actor=caller(request),
                fields=fields,
                key=idempotency_key(request) or "",
                body=request.data,
            )
        except KeyReused as error:
            raise IdempotencyMismatch from error
        location = reverse("approval", kwargs={"approval_id": str(approval.pk)})
        return _changed(request, approval.pk, 201, location)


class ApprovalView(APIView):
    """One approval."""

    permission_classes = (HasRole, MayAsk)

    @extend_schema(
        operation_id="approvals_get",
        summary="One approval; wait for its answer",
        description=(
            "With `wait` the response is sent as soon as the status is not `pending` any more, or "
            "after that many seconds. Waiting costs the server little: wait again at once."
        ),
        parameters=[APPROVAL_ID, WaitSerializer],
        responses={200: ApprovalSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, approval_id: str) -> HttpResponseBase:
        seconds = query_params(request, WaitSerializer, also=frozenset())["wait"]
        number = parse_id(approval_id)
        body = own_body(caller(request), number)
        if body is None:
            raise Http404
        if seconds and body["status"] == "pending":
            return waiting_response(
                request, body, seconds, read=lambda user: own_body(user, number)
            )
        return Response(body)


class _CommandView(APIView, ABC):
    """A POST to one approval of the caller; the response is the approval afterwards."""

    permission_classes = (HasRole, MayAsk)

    def respond(self, request: Request, approval_id: str) -> Response:
        return idempotent(request, lambda: self._respond(request, approval_id))

    def _respond(self, request: Request, approval_id: str) -> StoredResponse:
        approval = own_approval(request, approval_id)
        require(access.may_start(request.user), READS_ONLY)
        require(asked_with(caller(request), approval), _OTHER_TOKEN)
        self.perform(request, approval)
        return _changed(request, approval.pk, 200)

    @abstractmethod
    def perform(self, request: Request, approval: Approval) -> None:
        """Execute the command."""


class CancelView(_CommandView):
    """Cancel an approval."""

    @extend_schema(
        operation_id="approvals_cancel",
        summary="Cancel an approval that is not decided",
        parameters=[APPROVAL_ID, IDEMPOTENCY_KEY],
        request=CancelSerializer,
        responses={200: ApprovalSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request, approval_id: str) -> Response:
        return self.respond(request, approval_id)

    def perform(self, request: Request, approval: Approval) -> None:
        reason = validated_body(CancelSerializer, request)["reason"]
        services.cancel(approval=approval, actor=caller(request), reason=reason)


class ResubmitView(_CommandView):
    """Submit an action again."""

    @extend_schema(
        operation_id="approvals_resubmit",
        summary="Submit the action again after changes were requested",
        parameters=[APPROVAL_ID, IDEMPOTENCY_KEY],
        request=ResubmitSerializer,
        responses={200: ApprovalSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request, approval_id: str) -> Response:
        return self.respond(request, approval_id)

    def perform(self, request: Request, approval: Approval) -> None:
        fields = validated_body(ResubmitSerializer, request)
        services.resubmit(approval=approval, actor=caller(request), fields=fields)


class ResultView(_CommandView):
    """Report a result."""

    @extend_schema(
        operation_id="approvals_result",
        summary="Report what you executed",
        description=(
            "Accepted once, after the approval. The digest of the executed arguments becomes the "
            "receipt of the decision; `mismatch` says that it differs."
        ),
        parameters=[APPROVAL_ID, IDEMPOTENCY_KEY],
        request=ResultSerializer,
        responses={200: ApprovalSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request, approval_id: str) -> Response:
        return self.respond(request, approval_id)

    def perform(self, request: Request, approval: Approval) -> None:
        fields = validated_body(ResultSerializer, request)
        services.report(approval=approval, actor=caller(request), fields=fields)
