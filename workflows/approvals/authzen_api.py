"""Endpoints of the AuthZEN Access Request and Approval Profile, see `authzen`.

They are not in the OpenAPI document: the draft defines them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.api.idempotency_header import idempotent
from workflows.api.parsers import object_body, reject_query_params
from workflows.api.permission_classes import HasRole, caller, require
from workflows.api.problems import CONTENT_TYPE, IdempotencyMismatch
from workflows.api.serializers import PlainSerializer
from workflows.engine.decide import Refused
from workflows.engine.policy import ReviewPolicy, ReviewRules
from workflows.engine.policy_floor import loosened_review
from workflows.executions import access
from workflows.executions.idempotency import KeyReused, StoredResponse, json_text
from workflows.models import Approval

from . import authzen, services
from .api import READS_ONLY, AskSerializer, MayAsk
from .authzen import Access, AccessRequestError
from .policies import ActionPolicy
from .selectors import action_of, approval_body, approvals_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Seconds that a client should wait before it reads a pending task again.
_POLL_SECONDS = 5
#: What the caller should do after a re-evaluation was denied for this reason.
_NEXT_ACTIONS = {
    "approval_expired": "request",
    "out_of_scope": "request",
    "approval_unverifiable": "none",
}


# --- requests: members that the draft does not define are ignored ---------------------------------


class TextField(serializers.CharField):
    """Text without conversion from numbers: the body is used as it was sent."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class EntitySerializer(PlainSerializer):
    """A resource, or what a subject shares with it."""

    type = TextField(max_length=200, trim_whitespace=False)
    id = TextField(max_length=2000, trim_whitespace=False)
    properties = serializers.DictField(required=False)


class SubjectSerializer(EntitySerializer):
    """A subject; its properties may have an actor."""

    def validate_properties(self, value: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(value.get("act", {}), dict):
            raise serializers.ValidationError({"act": ["must be an object"]})
        return value


class AuthzenActionSerializer(PlainSerializer):
    """An action."""

    name = TextField(max_length=200, trim_whitespace=False)
    properties = serializers.DictField(required=False)


class EvaluationSerializer(PlainSerializer):
    """An access evaluation."""

    subject = SubjectSerializer()
    resource = EntitySerializer()
    action = AuthzenActionSerializer()
    context = serializers.DictField(required=False)  # type: ignore[assignment]


class ActorSerializer(PlainSerializer):
    """The actor for whom the client asks; shown to reviewers, and not verified."""

    id = serializers.CharField()


class ClientSerializer(PlainSerializer):
    """The program that asks; shown to reviewers."""

    id = serializers.CharField(required=False)
    name = serializers.CharField(required=False)
    actor = ActorSerializer(required=False)
    source = serializers.DictField(required=False)  # type: ignore[assignment]


class AccessCallbackSerializer(PlainSerializer):
    """The URL of one of the caller's webhook endpoints."""

    endpoint = serializers.CharField(max_length=2000)
    state = serializers.CharField(
        max_length=2000, required=False, allow_blank=True, trim_whitespace=False
    )
    events = serializers.ListField(child=serializers.CharField(), required=False)


class AccessRequestSerializer(EvaluationSerializer):
    """An access request; `denial` is checked by `authzen.verified_denial`."""

    requested_access = serializers.DictField(required=False)
    client = ClientSerializer(required=False)
    callback = AccessCallbackSerializer(required=False)

    def validate_requested_access(self, value: dict[str, Any]) -> dict[str, Any]:
        # Nothing enforces other limits, and a reviewer would rely on them.
        message = "is not supported; only requested_until limits an approval"
        if unknown := {name: [message] for name in value if name != "requested_until"}:
            raise serializers.ValidationError(unknown)
        try:
            until = authzen.requested_until(value)
        except ValueError as error:
            raise serializers.ValidationError({"requested_until": [str(error)]}) from error
        if until is not None and until <= timezone.now():
            raise serializers.ValidationError({"requested_until": ["must be in the future"]})
        return value

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        if "items" in self.initial_data:
            message = "send one access request for each item; items are not supported"
            raise serializers.ValidationError({"items": [message]})
        return values


class CancellationSerializer(PlainSerializer):
    """Why a task is cancelled."""

    reason = serializers.CharField(max_length=1000, required=False, allow_blank=True)
    comment = serializers.CharField(max_length=2000, required=False, allow_blank=True)


# --- views ----------------------------------------------------------------------------------------


class AuthzenView(APIView):
    """A view whose errors have the problem types of the profile."""

    permission_classes = (HasRole, MayAsk)
    throttle_scope = "start"
    schema = None

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, KeyReused | IdempotencyMismatch):
            message = "This Idempotency-Key or binding token was used with another body."
            exc = AccessRequestError("duplicate_request", message)
        if isinstance(exc, AccessRequestError):
            return _problem(exc)
        response = super().handle_exception(exc)
        if response.status_code == 422:
            response.status_code = response.data["status"] = 400
            response.data["title"] = "Bad Request"
        return response


def _problem(error: AccessRequestError) -> Response:
    body = {
        "type": f"{authzen.PROBLEM}{error.kind}",
        "title": error.kind.replace("_", " ").capitalize(),
        "status": error.status,
        "detail": error.message,
    }
    return Response(body, status=error.status, content_type=CONTENT_TYPE)


def _validated(shape: type[PlainSerializer], request: Request) -> dict[str, Any]:
    """Return the body as it was sent, once it is valid: it is compared member by member."""
    reject_query_params(request)
    body = object_body(request.data)
    shape(data=body).is_valid(raise_exception=True)
    return body


class EvaluationView(AuthzenView):
    """Whether a subject may perform an action on a resource."""

    def post(self, request: Request) -> Response:
        require(access.may_start(request.user), READS_ONLY)
        body = _validated(EvaluationSerializer, request)
        return Response(evaluate(caller(request), body))


def evaluate(user: User, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the decision: allowed by an approval, or by a rule, or denied and requestable."""
    asked = Access.of(body)
    approval = (body.get("context") or {}).get("approval")
    reason = ""
    if approval is not None:
        reason, approved = _presented(user, asked, approval)
        if approved is not None:
            return _allowed(approved)
    denial = authzen.denial_of(asked, user)
    skipped = _allowed_by_rule(user, asked, denial["evaluation_id"])
    if skipped is not None:
        return _allowed(skipped)
    if reason:
        denial |= {"reason": reason, "next_action": _NEXT_ACTIONS[reason]}
        if denial["next_action"] == "none":
            del denial["access_request"]
    return {"decision": False, "context": denial}


def _allowed(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"decision": True, "context": {"approval": authzen.approval_ref(body)}}


def _presented(user: User, asked: Access, approval: Any) -> tuple[str, dict[str, Any] | None]:
    """Return ("", the approval) if the presented one applies, and else (the reason, None)."""
    row = _find(user, authzen.read_approval_ref(approval))
    body = approval_body(row) if row is not None else None
    if row is None or body is None or authzen.status_of(body) != "approved":
        return "approval_unverifiable", None
    if authzen.approved_until(body) <= timezone.now() or not _is_current(row, body):
        return "approval_expired", None
    if "subject" not in body["arguments"] or not asked.equals(Access.of(body["arguments"])):
        return "out_of_scope", None
    return "", body


def _find(user: User, approval_id: str | None) -> Approval | None:
    return None if approval_id is None else approvals_of(user).filter(pk=approval_id).first()


def _is_current(row: Approval, body: Mapping[str, Any]) -> bool:
    """Whether the policy is not stricter now than when the approval was given.

    The rules that skipped the review must still be the same ones.
    """
    task = action_of(row.execution)
    review = task.human_review or ReviewPolicy()
    policy = ActionPolicy.of(row.action)
    floor = policy.review({}, row.phase)
    if policy.risk(row.action, row.risk) != row.risk:
        return False
    same_rule = (review.skip_when, review.sample) == (floor.skip_when, floor.sample)
    same_rules = _rules_of(row).rules == policy.rules.rules
    # Whether a standing answer is in force is asked anew each time.
    if body["grant"] is not None or loosened_review(floor, review):
        return False
    return body["decided_by"] is not None or (same_rule and same_rules)


def _rules_of(row: Approval) -> ReviewRules:
    """Return the rules of the policy with which the action was asked."""
    return ReviewRules.model_validate(row.execution.policy.get("review_rules", {}))


def _allowed_by_rule(user: User, asked: Access, evaluation_id: str) -> dict[str, Any] | None:
    """Ask, and return the approval if no person has to decide; else leave nothing behind.

    A rule with a sample allows only an access request, which leaves a record of each draw.
    """
    with transaction.atomic():
        approval = _ask(user, authzen.request_of(asked, evaluation_id=evaluation_id))
        row = approvals_of(user).get(pk=approval.pk)
        body = approval_body(row)
        review = action_of(row.execution).human_review or ReviewPolicy()
        rules = [review, *_rules_of(row).rules]
        is_sampled = body["grant"] is None and any(each.sample for each in rules)
        if body["status"] != "approved" or is_sampled:
            transaction.set_rollback(True)
            return None
    return body


def _ask(
    user: User, asked: Mapping[str, Any], key: str = "", body: Mapping[str, Any] | None = None
) -> Approval:
    serializer = AskSerializer(data=asked)
    serializer.is_valid(raise_exception=True)
    # The profile has no second round: a reviewer approves or rejects.
    fields = {**serializer.validated_data, "max_change_requests": 0}
    if callback := (body or {}).get("callback"):
        fields["authzen_callback"] = {k: v for k, v in callback.items() if k == "state"}
    return services.ask(actor=user, fields=fields, key=key, body=body)


class AccessRequestsView(AuthzenView):
    """Ask for the approval of what was denied."""

    def post(self, request: Request) -> Response:
        require(access.may_start(request.user), READS_ONLY)
        return idempotent(request, lambda: self._submit(request))

    def _submit(self, request: Request) -> StoredResponse:
        user, body = caller(request), _validated(AccessRequestSerializer, request)
        denied, claims = authzen.verified_denial(body, user)
        asked = authzen.request_of(denied, evaluation_id=claims["evaluation_id"], body=body)
        # A binding token that is sent again gives the same task.
        approval = _ask(user, asked, key=f"authzen:{claims['jti']}", body=body)
        document = authzen.task_of(approval_body(approvals_of(user).get(pk=approval.pk)))
        status = 202 if document["task"]["status"] == "pending" else 201
        return StoredResponse(status, json_text(document), document["task"]["status_endpoint"])


class TaskView(AuthzenView):
    """The status of an access request."""

    def get(self, request: Request, task_id: str) -> Response:
        reject_query_params(request)
        document = authzen.task_of(approval_body(_own_task(request, task_id)))
        is_pending = document["task"]["status"] == "pending"
        headers = {"Retry-After": str(_POLL_SECONDS)} if is_pending else {}
        return Response(document, headers=headers)


class CancelTaskView(AuthzenView):
    """Cancel an access request that is not decided."""

    def post(self, request: Request, task_id: str) -> Response:
        require(access.may_start(request.user), READS_ONLY)
        body = _validated(CancellationSerializer, request)
        approval = _own_task(request, task_id)
        reason = ": ".join(filter(None, [body.get("reason"), body.get("comment")]))
        if authzen.status_of(approval_body(approval)) != "pending":
            raise AccessRequestError("invalid_task_state", "The task has ended.")
        try:
            services.cancel(approval=approval, actor=caller(request), reason=reason)
        except Refused as refused:
            raise AccessRequestError("invalid_task_state", str(refused)) from refused
        return Response(authzen.task_of(approval_body(_own_task(request, task_id))))


def _own_task(request: Request, task_id: str) -> Approval:
    approval = _find(caller(request), authzen.read_task_id(task_id))
    if approval is None:
        raise AccessRequestError("unknown_task", "There is no such task, or it is not yours.")
    return approval


class KeysView(APIView):
    """The keys that sign binding tokens."""

    permission_classes = (AllowAny,)
    authentication_classes = ()
    schema = None

    def get(self, request: Request) -> Response:
        return Response(authzen.key_set())


class MetadataView(APIView):
    """Where the endpoints are."""

    permission_classes = (AllowAny,)
    authentication_classes = ()
    schema = None

    def get(self, request: Request) -> Response:
        return Response(authzen.metadata())
