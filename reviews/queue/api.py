"""REST endpoints of the queue: list, claim, release, assign, extend, bulk."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews.decisions.edits import ReviewInvalid
from reviews.queue import bulk, claims, extensions, selectors
from reviews.queue.filters import PHASES, REASONS, RISKS, parse_queue_filters
from workflows.api.idempotency_header import idempotent, idempotent_in_parts
from workflows.api.openapi import BODY, IDEMPOTENCY_KEY, problems
from workflows.api.parsers import (
    PAGINATION_PARAMETERS,
    DecisionJSONParser,
    query_params,
    validated_body,
)
from workflows.api.permission_classes import HasScope, caller, session_confirmed_at, token_of
from workflows.api.serializers import StrictSerializer
from workflows.engine.protocol.commands import MAX_UNDO_SECONDS
from workflows.executions.idempotency import Part, StoredResponse, json_text
from workflows.models import Hold

# --- serializers ----------------------------------------------------------------------------------


class HoldRowSerializer(serializers.ModelSerializer[Hold]):
    """One hold of the queue, without its payload."""

    hold_id = serializers.CharField(source="id")
    execution_id = serializers.CharField()
    node_id = serializers.SerializerMethodField()
    trigger_phase = serializers.SerializerMethodField()
    workflow = serializers.SerializerMethodField()
    title = serializers.CharField(source="execution.title")
    status = serializers.CharField(source="execution.status")
    version = serializers.IntegerField(source="execution.version")
    claimed_by = serializers.SerializerMethodField()

    class Meta:
        model = Hold
        fields = (
            "hold_id", "execution_id", "node_id", "trigger_phase", "reason", "target", "workflow",
            "title", "status", "version", "layer", "why", "why_code", "why_params", "critical",
            "groups", "quorum", "approvals", "on_reject", "on_timeout", "opened_at", "expires_at",
            "claimed_by",
        )  # fmt: skip

    def get_node_id(self, hold: Hold) -> str | None:
        return hold.task_id or None

    def get_trigger_phase(self, hold: Hold) -> str | None:
        return hold.phase or None

    def get_workflow(self, hold: Hold) -> str | None:
        workflow = hold.execution.workflow
        return workflow.name if workflow else None

    def get_claimed_by(self, hold: Hold) -> str | None:
        claim = getattr(hold, "claim", None)
        return claim.user.get_username() if claim else None


class ClaimSerializer(serializers.Serializer[Any]):
    """A claim: claiming again before `expires_at` renews it."""

    hold_id = serializers.CharField()
    claimed_by = serializers.CharField(source="user.username")
    claimed_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class ReleasedSerializer(serializers.Serializer[Any]):
    """Whether a claim was released."""

    released = serializers.BooleanField()


class AssignSerializer(StrictSerializer):
    """`to`: the user name of a user who may decide the hold."""

    to = serializers.CharField(max_length=150)


class ExtendSerializer(StrictSerializer):
    """The number of seconds by which the deadline is extended."""

    seconds = serializers.IntegerField(
        min_value=extensions.MIN_SECONDS, max_value=extensions.MAX_SECONDS
    )


class ExtendedSerializer(serializers.Serializer[Any]):
    """`outcome` is `queued` while a worker advances the run; the worker then sets the deadline."""

    hold_id = serializers.CharField()
    execution_id = serializers.CharField()
    outcome = serializers.ChoiceField(choices=["applied", "queued"])
    expires_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class ChosenSerializer(StrictSerializer):
    """A hold, and the version of its execution that the caller saw."""

    hold_id = serializers.CharField(max_length=40)
    version = serializers.IntegerField(min_value=0)


class BulkSerializer(StrictSerializer):
    """`comment` is stored in each record and required to reject; `to` is for assign.

    `undo_seconds` is for approve and reject: until then, withdraw undoes them.
    """

    action = serializers.ChoiceField(choices=bulk.ACTIONS)
    holds = serializers.ListField(child=ChosenSerializer(), min_length=1, max_length=bulk.MAX_HOLDS)
    comment = serializers.CharField(required=False, default="", allow_blank=True, max_length=4000)
    to = serializers.CharField(required=False, default="", allow_blank=True, max_length=150)
    undo_seconds = serializers.FloatField(
        required=False, default=0, min_value=0, max_value=MAX_UNDO_SECONDS
    )


class BulkOutcomeSerializer(serializers.Serializer[Any]):
    """`code` is `done`, or the reason why the hold did not change."""

    hold_id = serializers.CharField()
    done = serializers.BooleanField()
    code = serializers.CharField()
    message = serializers.CharField()
    record_id = serializers.CharField(allow_null=True)
    undo_until = serializers.DateTimeField(allow_null=True)


class BulkResultSerializer(serializers.Serializer[Any]):
    """One result per hold, in the order of the request."""

    results = BulkOutcomeSerializer(many=True)


# --- views ----------------------------------------------------------------------------------------


_QUEUE_FILTERS = [
    OpenApiParameter(
        "tab",
        enum=[name for name in selectors.TABS if name != "decided"],
        description="me (default): I can decide it; groups: my groups'; claimed: by me; "
        "open: every one I may see.",
    ),
    OpenApiParameter("q", description="Run, task, tool or reason."),
    OpenApiParameter("workflow", description="Name of a workflow."),
    OpenApiParameter("phase", enum=PHASES),
    OpenApiParameter("reason", enum=REASONS),
    OpenApiParameter("risk", enum=RISKS),
    OpenApiParameter("group", description="A group that may decide it."),
]


class PendingView(ListAPIView[Hold]):
    """Open holds of the runs that the caller may see."""

    serializer_class = HoldRowSerializer
    permission_classes = [HasScope("decide")]
    orderings = {"-opened_at": ("-opened_at", "-id"), "opened_at": ("opened_at", "id")}
    queryset = Hold.objects.none()

    @extend_schema(
        operation_id="reviews_pending",
        parameters=_QUEUE_FILTERS,
        responses={200: HoldRowSerializer(many=True), **problems(403, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List open holds, newest first, without their payload."""
        return self.list(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Hold]:
        query_params(
            self.request, also=PAGINATION_PARAMETERS | {each.name for each in _QUEUE_FILTERS}
        )
        tab = self.request.query_params.get("tab", "me")
        if tab not in selectors.TABS or tab == "decided":
            raise ValidationError({"tab": ["must be one of me, groups, claimed, open"]})
        filters = parse_queue_filters(self.request.query_params)
        if filters.errors:
            raise ReviewInvalid(filters.errors)
        viewer = selectors.Viewer(caller(self.request))
        return selectors.listing_rows(selectors.queue(viewer, tab, filters))


class ClaimView(APIView):
    """Claim a hold."""

    permission_classes = [HasScope("decide")]

    @extend_schema(
        operation_id="reviews_claim",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses={200: ClaimSerializer, **problems(403, 404, 409, 422)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Claim a hold; claim it again before the claim expires to keep it."""
        return idempotent(request, lambda: self._claim(request, hold_id))

    def _claim(self, request: Request, hold_id: str) -> StoredResponse:
        claim = claims.claim(hold_id=hold_id, user=caller(request), token=token_of(request))
        return StoredResponse(200, json_text(ClaimSerializer(claim).data))


class ReleaseView(APIView):
    """Release a claim."""

    permission_classes = [HasScope("decide")]

    @extend_schema(
        operation_id="reviews_release",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses={200: ReleasedSerializer, **problems(403, 404, 422)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Release the caller's claim on a hold."""
        return idempotent(request, lambda: self._release(request, hold_id))

    def _release(self, request: Request, hold_id: str) -> StoredResponse:
        released = claims.release(hold_id=hold_id, user=caller(request), token=token_of(request))
        return StoredResponse(200, json_text({"released": released}))


class AssignView(APIView):
    """Assign a hold to another user."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_assign",
        parameters=[IDEMPOTENCY_KEY],
        request=AssignSerializer,
        responses={200: ClaimSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Claim a hold for another user, replacing any claim."""
        return idempotent(request, lambda: self._assign(request, hold_id))

    def _assign(self, request: Request, hold_id: str) -> StoredResponse:
        fields = validated_body(AssignSerializer, request)
        claim = claims.assign(
            hold_id=hold_id,
            user=caller(request),
            to=fields["to"],
            token=token_of(request),
        )
        return StoredResponse(200, json_text(ClaimSerializer(claim).data))


class ExtendView(APIView):
    """Extend the deadline of a hold."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_extend",
        parameters=[IDEMPOTENCY_KEY],
        request=ExtendSerializer,
        responses={
            200: ExtendedSerializer,
            202: ExtendedSerializer,
            **problems(403, 404, 409, *BODY),
        },
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Extend the deadline of a hold; 409 if it has none."""
        return idempotent(request, lambda: self._extend(request, hold_id))

    def _extend(self, request: Request, hold_id: str) -> StoredResponse:
        fields = validated_body(ExtendSerializer, request)
        result = extensions.extend(
            hold_id=hold_id,
            user=caller(request),
            seconds=fields["seconds"],
            source="rest",
            token=token_of(request),
        )
        status = 200 if result.outcome == "applied" else 202
        return StoredResponse(status, json_text(ExtendedSerializer(result).data))


class BulkView(APIView):
    """Apply one action to several holds."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_bulk",
        parameters=[IDEMPOTENCY_KEY],
        request=BulkSerializer,
        responses={200: BulkResultSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        """Claim, release, assign, approve, reject or withdraw each; one record per decision.

        Each hold has its own transaction and outcome. High-risk holds are never approved in bulk.
        With an `Idempotency-Key`, each outcome is stored with its effect, so that a repeated call
        processes only the remaining holds.
        """
        fields = validated_body(BulkSerializer, request)
        chosen = [bulk.SelectedHold(**each) for each in fields["holds"]]
        task = bulk.Request(**{key: fields[key] for key in fields if key != "holds"})
        bulk.check(chosen, task)
        return idempotent_in_parts(request, lambda part: self._apply(request, chosen, task, part))

    def _apply(
        self, request: Request, chosen: list[bulk.SelectedHold], task: bulk.Request, part: Part
    ) -> StoredResponse:
        outcomes = bulk.apply_to_all(
            chosen=chosen,
            request=task,
            user=caller(request),
            token=token_of(request),
            confirmed_at=session_confirmed_at(request),
            remember=_remembering(part),
        )
        return StoredResponse(200, json_text(BulkResultSerializer({"results": outcomes}).data))


def _remembering(part: Part) -> bulk.Remember:
    """Return a function that stores each hold's step as one part of the response, as JSON."""

    def remember(chosen: bulk.SelectedHold, step: Callable[[], bulk.BulkStep]) -> bulk.BulkStep:
        stored = json.loads(part(chosen.hold_id, lambda: json_text(asdict(step()))))
        moved = tuple(stored["moved"]) if stored["moved"] else None
        return bulk.BulkStep(bulk.Outcome(**stored["outcome"]), moved)

    return remember
