"""The review endpoints: what waits, decide it, what was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews.audit import history, reveals
from reviews.decisions import review_context, services, withdrawal
from reviews.decisions.api_formats import check_fits, read_answer
from reviews.decisions.conflicts import Conflict, present_state
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.models import Decision, HumanReviewRecord
from reviews.queue import claims, extensions, selectors
from reviews.queue.filters import PHASES, REASONS, RISKS, parse_queue_filters
from workflows.api.examples import RESUME
from workflows.api.idempotency_key import once
from workflows.api.parsers import (
    OF_PAGES,
    DecisionJSONParser,
    asked_for,
    no_parameters,
    object_body,
)
from workflows.api.permissions import HasScope, caller, session_confirmed_at, token_of
from workflows.api.problems import register
from workflows.api.schema import BODY, EXECUTION_ID, IDEMPOTENCY_KEY, IF_MATCH, problems
from workflows.api.serializers import ID_PATTERN
from workflows.executions.idempotency import StoredResponse, json_text, keep_refusal_logs
from workflows.models import Hold

from .serializers import (
    ClaimSerializer,
    ContextSerializer,
    ExtendedSerializer,
    ExtendSerializer,
    HoldRowSerializer,
    RecordRowSerializer,
    RecordSerializer,
    ReleasedSerializer,
    ResumedSerializer,
    ResumeSerializer,
    RevealedSerializer,
    RevealSerializer,
    WithdrawnSerializer,
    WithdrawSerializer,
    hold_row,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from workflows.common.decision_formats import Meant

register(ReviewInvalid, status=422, code="invalid")
register(NotAllowed, status=403, code="forbidden")
register(Conflict, status=409, code="stale_version")
register(services.HoldNotFound, status=404, code="not_found")
keep_refusal_logs(ReviewInvalid, NotAllowed, Conflict, services.HoldNotFound)
register(reveals.NothingMasked, status=404, code="not_found")


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
    """What waits for me, from the live tables."""

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
        """Open holds, newest first, without their payload."""
        rows: Any = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response([hold_row(each) for each in rows])

    def get_queryset(self) -> QuerySet[Hold, Any]:
        asked_for(self.request, also=OF_PAGES | {each.name for each in _QUEUE_FILTERS})
        tab = self.request.query_params.get("tab", "me")
        if tab not in selectors.TABS or tab == "decided":
            raise ValidationError({"tab": ["must be one of me, groups, claimed, open"]})
        filters = parse_queue_filters(self.request.query_params)
        if filters.errors:
            raise ReviewInvalid(filters.errors)
        viewer = selectors.Viewer(caller(self.request))
        return selectors.light_rows(selectors.queue(viewer, tab, filters))


class PendingContextView(APIView):
    """Everything around the open holds of one execution."""

    permission_classes = [HasScope("decide")]

    @extend_schema(
        operation_id="reviews_pending_context",
        parameters=[EXECUTION_ID],
        responses={200: ContextSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, execution_id: int) -> Response:
        """The execution, its open holds with payload and schema, tasks, messages, decisions."""
        no_parameters(request)
        found = review_context.review_context(caller(request), execution_id)
        return Response(ContextSerializer(found).data)


class ResumeView(APIView):
    """Decide a hold."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]
    throttle_scope = "decide"

    @extend_schema(
        operation_id="reviews_resume",
        parameters=[IDEMPOTENCY_KEY, IF_MATCH],
        request=ResumeSerializer,
        examples=RESUME,
        responses={200: ResumedSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request) -> Response:
        """Approve or reject at the version you saw.

        409 with the present state when the run moved on or somebody was first; 422 with field
        paths when an edit does not fit the tool's schema: the hold stays open.
        """
        meant, wanted = read_answer(request)
        return once(request, lambda: self._decide(request, meant, wanted))

    def _decide(
        self, request: Request, meant: Meant | None, wanted: dict[str, Any]
    ) -> StoredResponse:
        user = caller(request)
        hold_id = _hold_id(user, wanted)
        if meant is not None:
            check_fits(meant, services.visible_hold(user, hold_id))
        result = services.decide(
            hold_id=hold_id,
            user=user,
            decision=wanted["decision"],
            version=wanted["version"],
            edits=wanted["edits"],
            set_output_null=wanted["set_output_null"],
            comment=wanted["comment"],
            source="rest",
            grant_scope=wanted["grant_scope"],
            grant_seconds=wanted["grant_seconds"],
            undo_seconds=wanted["undo_seconds"],
            token=token_of(request),
            confirmed_at=session_confirmed_at(request),
        )
        return StoredResponse(200, json_text(ResumedSerializer(_resumed(result)).data))


def _hold_id(user: User, wanted: dict[str, Any]) -> str:
    """The hold that is meant, which has to be one of the execution that is named."""
    if "node_id" in wanted:
        return services.hold_of_node(user, wanted["execution_id"], wanted["node_id"])
    hold = services.visible_hold(user, wanted["hold_id"])
    if hold.execution_id != wanted["execution_id"]:
        raise services.HoldNotFound
    return hold.id


def _resumed(result: services.DecisionResult) -> dict[str, Any]:
    holds = present_state(result.hold_id)["holds"]
    return {
        "execution_id": result.execution_id,
        "hold_id": result.hold_id,
        "decision": result.decision,
        "edited": result.edited,
        "complete": result.complete,
        "undo_until": result.undo_until,
        "record_id": result.record.pk,
        "warnings": result.warnings,
        "status": result.status,
        "version": result.version,
        "holds": holds,
        "paused_node_id": (holds[0]["node_id"] or None) if holds else None,
        "paused_phase": (holds[0]["trigger_phase"] or None) if holds else None,
    }


class ClaimView(APIView):
    """Tell others that you are on it."""

    permission_classes = [HasScope("decide")]

    @extend_schema(
        operation_id="reviews_claim",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses={200: ClaimSerializer, **problems(403, 404, 409, 422)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Claim a hold; claim it again before the claim runs out to keep it."""
        return once(request, lambda: self._claim(request, hold_id))

    def _claim(self, request: Request, hold_id: str) -> StoredResponse:
        found = claims.claim(hold_id=hold_id, user=caller(request), token=token_of(request))
        return StoredResponse(200, json_text(ClaimSerializer(found).data))


class ReleaseView(APIView):
    """Give a claim back."""

    permission_classes = [HasScope("decide")]

    @extend_schema(
        operation_id="reviews_release",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses={200: ReleasedSerializer, **problems(403, 404, 422)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Let others see that nobody is on it."""
        return once(request, lambda: self._release(request, hold_id))

    def _release(self, request: Request, hold_id: str) -> StoredResponse:
        gone = claims.release(hold_id=hold_id, user=caller(request), token=token_of(request))
        return StoredResponse(200, json_text({"released": gone}))


class WithdrawView(APIView):
    """Take a decision back while the run has not gone on."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_withdraw",
        parameters=[IDEMPOTENCY_KEY],
        request=WithdrawSerializer,
        responses={200: WithdrawnSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Take back what you decided, or your approval of a quorum: the hold is open again.

        A record says so, and what was decided stays on record.  409 with the present state once the
        run has gone on.
        """
        return once(request, lambda: self._withdraw(request, hold_id))

    def _withdraw(self, request: Request, hold_id: str) -> StoredResponse:
        asked = WithdrawSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        result = withdrawal.withdraw(
            hold_id=hold_id,
            user=caller(request),
            comment=asked.validated_data["comment"],
            source="rest",
            token=token_of(request),
        )
        told = {
            "hold_id": result.hold_id,
            "execution_id": result.execution_id,
            "what": result.what,
            "record_id": result.record.pk,
            "withdraws": result.record.withdraws_id,
            "status": result.status,
            "version": result.version,
        }
        return StoredResponse(200, json_text(WithdrawnSerializer(told).data))


class ExtendView(APIView):
    """Give a hold more time."""

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
        """Move the deadline further, from where it stands; 409 when there is none."""
        return once(request, lambda: self._extend(request, hold_id))

    def _extend(self, request: Request, hold_id: str) -> StoredResponse:
        asked = ExtendSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        result = extensions.extend(
            hold_id=hold_id,
            user=caller(request),
            seconds=asked.validated_data["seconds"],
            source="rest",
            token=token_of(request),
        )
        status = 200 if result.outcome == "applied" else 202
        return StoredResponse(status, json_text(ExtendedSerializer(result).data))


class RevealView(APIView):
    """Have a masked value shown."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_reveal",
        request=RevealSerializer,
        responses={200: RevealedSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request) -> Response:
        """The value behind one mark; kept, before it is given, with who asked and when."""
        asked = RevealSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        place = asked.validated_data["place"]
        secret = reveals.reveal(
            place=place,
            number=asked.validated_data["number"],
            user=caller(request),
            source="rest",
            token=token_of(request),
        )
        told = {
            "place": place,
            "number": secret.number,
            "paths": list(secret.paths),
            "value": secret.value,
        }
        headers = {"Cache-Control": "no-store"}
        return Response(RevealedSerializer(told).data, headers=headers)


_FILTERS = [
    OpenApiParameter("execution", pattern=ID_PATTERN),
    OpenApiParameter("node"),
    OpenApiParameter("reviewer", description="User name; `system` for what time decided."),
    OpenApiParameter("decision", enum=Decision.values),
    OpenApiParameter("phase", enum=["BEFORE_EXECUTION", "AFTER_EXECUTION"]),
    OpenApiParameter("edited", OpenApiTypes.BOOL),
    OpenApiParameter("from", description="Date or ISO 8601 time, inclusive."),
    OpenApiParameter("to", description="Date (inclusive) or ISO 8601 time (exclusive)."),
    OpenApiParameter("workflow", description="Title of the run."),
    OpenApiParameter("q", description="Task, tool, comment, run or person."),
]


class HistoryView(ListAPIView[HumanReviewRecord]):
    """Every decision I may know of."""

    serializer_class = RecordRowSerializer
    permission_classes = [HasScope("decide")]
    orderings = {"-reviewed_at": ("-id",), "reviewed_at": ("id",)}
    queryset = HumanReviewRecord.objects.none()

    @extend_schema(
        operation_id="reviews_history",
        parameters=_FILTERS,
        responses={200: RecordRowSerializer(many=True), **problems(403, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Decisions, newest first, without the payload."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[HumanReviewRecord]:
        asked_for(self.request, also=OF_PAGES | {each.name for each in _FILTERS})
        filters = history.parse_filters(self.request.query_params)
        if filters.errors:
            raise ReviewInvalid(filters.errors)
        rows = history.filtered(history.records(caller(self.request)), filters)
        return history.with_executed_digest(rows)


class RecordView(RetrieveAPIView[HumanReviewRecord]):
    """One decision."""

    serializer_class = RecordSerializer
    permission_classes = [HasScope("decide")]
    queryset = HumanReviewRecord.objects.none()

    @extend_schema(
        operation_id="reviews_record",
        parameters=[OpenApiParameter("id", str, OpenApiParameter.PATH, pattern=ID_PATTERN)],
        responses={200: RecordSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A decision with what was shown, what was decided, and its place in the chain."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[HumanReviewRecord]:
        no_parameters(self.request)
        rows = history.records(caller(self.request)).select_related("execution")
        return history.with_executed_digest(rows)
