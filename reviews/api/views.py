"""The review endpoints: what waits, decide it, what was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews import claims, context, extending, history, selectors, services
from reviews.conflicts import Conflict, present_state
from reviews.edits import ReviewInvalid
from reviews.models import HumanReviewRecord
from reviews.rights import NotAllowed
from workflows.api.pagination import CursorPages
from workflows.api.parsers import DecisionJSONParser, object_body
from workflows.api.permissions import HasScope
from workflows.api.problems import register
from workflows.models import ApiToken, Hold

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
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

register(ReviewInvalid, status=422, code="invalid")
register(NotAllowed, status=403, code="forbidden")
register(Conflict, status=409, code="stale_version")
register(services.HoldNotFound, status=404, code="not_found")

_PROBLEM = OpenApiResponse(description="application/problem+json")


def _user(request: Request) -> User:
    return cast("User", request.user)


def _token(request: Request) -> ApiToken | None:
    """The bearer token of a call; None for a session, whose rights are the user's own."""
    return request.auth if isinstance(request.auth, ApiToken) else None


class PendingPages(CursorPages):
    ordering = ("-opened_at", "-id")


class PendingView(ListAPIView[Hold]):
    """What waits for me, from the live tables."""

    serializer_class = HoldRowSerializer
    permission_classes = [HasScope("decide")]
    pagination_class = PendingPages
    queryset = Hold.objects.none()

    @extend_schema(
        operation_id="reviews_pending",
        parameters=[
            OpenApiParameter(
                "tab",
                enum=[name for name in selectors.TABS if name != "decided"],
                description="me (default): I can decide it; groups: my groups'; claimed: by me; "
                "open: every one I may see.",
            ),
            OpenApiParameter("q", description="Run, task, tool or reason."),
        ],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Open holds, newest first, without their payload."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Hold]:
        tab = self.request.query_params.get("tab", "me")
        if tab not in selectors.TABS or tab == "decided":
            raise ValidationError({"tab": ["must be one of me, groups, claimed, open"]})
        words = self.request.query_params.get("q", "")
        if "\0" in words:
            raise ValidationError({"q": ["has a character that cannot be searched for"]})
        return selectors.queue(selectors.Viewer(_user(self.request)), tab, words)


class PendingContextView(APIView):
    """Everything around the open holds of one execution."""

    permission_classes = [HasScope("decide")]

    @extend_schema(
        operation_id="reviews_pending_context", responses={200: ContextSerializer, 404: _PROBLEM}
    )
    def get(self, request: Request, execution_id: int) -> Response:
        """The execution, its open holds with payload and schema, tasks, messages, decisions."""
        found = context.review_context(_user(request), execution_id)
        return Response(ContextSerializer(found).data)


class ResumeView(APIView):
    """Decide a hold."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_resume",
        request=ResumeSerializer,
        responses={
            200: ResumedSerializer,
            **dict.fromkeys((400, 403, 404, 409, 422), _PROBLEM),
        },
    )
    def post(self, request: Request) -> Response:
        """Approve or reject at the version you saw.

        409 with the present state when the run moved on or somebody was first; 422 with field
        paths when an edit does not fit the tool's schema: the hold stays open.
        """
        asked = ResumeSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        wanted = asked.validated_data
        user = _user(request)
        result = services.decide(
            hold_id=_hold_id(user, wanted),
            user=user,
            decision=wanted["decision"],
            version=wanted["version"],
            edits=wanted["edits"],
            comment=wanted["comment"],
            source="rest",
            grant_scope=wanted["grant_scope"],
            grant_seconds=wanted["grant_seconds"],
            token=_token(request),
        )
        return Response(ResumedSerializer(_resumed(result)).data)


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
        "record_id": result.record.pk,
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
        request=None,
        responses={200: ClaimSerializer, **dict.fromkeys((403, 404, 409), _PROBLEM)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Claim a hold; claim it again before the claim runs out to keep it."""
        found = claims.claim(hold_id=hold_id, user=_user(request), token=_token(request))
        return Response(ClaimSerializer(found).data)


class ReleaseView(APIView):
    """Give a claim back."""

    permission_classes = [HasScope("decide")]

    @extend_schema(
        operation_id="reviews_release",
        request=None,
        responses={200: ReleasedSerializer, **dict.fromkeys((403, 404), _PROBLEM)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Let others see that nobody is on it."""
        gone = claims.release(hold_id=hold_id, user=_user(request), token=_token(request))
        return Response({"released": gone})


class ExtendView(APIView):
    """Give a hold more time."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_extend",
        request=ExtendSerializer,
        responses={
            200: ExtendedSerializer,
            202: ExtendedSerializer,
            **dict.fromkeys((400, 403, 404, 409, 422), _PROBLEM),
        },
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Move the deadline further, from where it stands; 409 when there is none."""
        asked = ExtendSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        result = extending.extend(
            hold_id=hold_id,
            user=_user(request),
            seconds=asked.validated_data["seconds"],
            source="rest",
            token=_token(request),
        )
        status = 200 if result.outcome == "applied" else 202
        return Response(ExtendedSerializer(result).data, status=status)


_FILTERS = [
    OpenApiParameter("execution", OpenApiTypes.INT),
    OpenApiParameter("node"),
    OpenApiParameter("reviewer", description="User name; `system` for what time decided."),
    OpenApiParameter("decision", enum=["APPROVE", "REJECT"]),
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
    pagination_class = CursorPages
    queryset = HumanReviewRecord.objects.none()

    @extend_schema(operation_id="reviews_history", parameters=_FILTERS)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Decisions, newest first, without the payload."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[HumanReviewRecord]:
        filters = history.parse_filters(self.request.query_params)
        if filters.errors:
            raise ReviewInvalid(filters.errors)
        return history.filtered(history.records(_user(self.request)), filters)


class RecordView(RetrieveAPIView[HumanReviewRecord]):
    """One decision."""

    serializer_class = RecordSerializer
    permission_classes = [HasScope("decide")]
    queryset = HumanReviewRecord.objects.none()

    def get_queryset(self) -> QuerySet[HumanReviewRecord]:
        return history.records(_user(self.request))
