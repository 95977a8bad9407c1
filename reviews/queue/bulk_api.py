"""Several holds in one call, and giving a hold to somebody."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews.api.serializers import ClaimSerializer
from reviews.queue import bulk, claims
from workflows.api.idempotency_key import once, once_in_parts
from workflows.api.parsers import DecisionJSONParser, object_body
from workflows.api.permissions import HasScope, caller, session_confirmed_at, token_of
from workflows.api.schema import BODY, IDEMPOTENCY_KEY, problems
from workflows.api.serializers import Strict
from workflows.engine.commands import LONGEST_UNDO
from workflows.executions.idempotency import Part, StoredResponse, json_text


class AssignSerializer(Strict):
    """`to`: the user name of somebody who may decide the hold."""

    to = serializers.CharField(max_length=150)


class ChosenSerializer(Strict):
    """One hold, and the version of its execution as you saw it."""

    hold_id = serializers.CharField(max_length=40)
    version = serializers.IntegerField(min_value=0)


class BulkSerializer(Strict):
    """`comment` goes into each record, and a rejection needs one; `to` is for assign.

    `undo_seconds` is for approve and reject: withdraw takes them back until then.
    """

    action = serializers.ChoiceField(choices=bulk.ACTIONS)
    holds = serializers.ListField(child=ChosenSerializer(), min_length=1, max_length=bulk.MOST)
    comment = serializers.CharField(required=False, default="", allow_blank=True, max_length=4000)
    to = serializers.CharField(required=False, default="", allow_blank=True, max_length=150)
    undo_seconds = serializers.FloatField(
        required=False, default=0, min_value=0, max_value=LONGEST_UNDO
    )


class BulkOutcomeSerializer(serializers.Serializer[Any]):
    """`code` is done, or why this one was left as it is."""

    hold_id = serializers.CharField()
    done = serializers.BooleanField()
    code = serializers.CharField()
    message = serializers.CharField()
    record_id = serializers.CharField(allow_null=True)
    undo_until = serializers.DateTimeField(allow_null=True)


class BulkResultSerializer(serializers.Serializer[Any]):
    """A result per hold, in the order they were named."""

    results = BulkOutcomeSerializer(many=True)


class AssignView(APIView):
    """Give a hold to somebody."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_assign",
        parameters=[IDEMPOTENCY_KEY],
        request=AssignSerializer,
        responses={200: ClaimSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Claim a hold for somebody else, whoever had it before."""
        return once(request, lambda: self._assign(request, hold_id))

    def _assign(self, request: Request, hold_id: str) -> StoredResponse:
        asked = AssignSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        found = claims.assign(
            hold_id=hold_id,
            user=caller(request),
            to=asked.validated_data["to"],
            token=token_of(request),
        )
        return StoredResponse(200, json_text(ClaimSerializer(found).data))


class BulkView(APIView):
    """One answer to many holds."""

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

        Each hold is answered by itself: some may be done while others are left as they were. High
        risk is never approved in bulk. With an `Idempotency-Key` each hold's outcome is remembered
        together with what was done to it: sent again after a crash, the call does what is left.
        """
        asked = BulkSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        wanted = asked.validated_data
        chosen = [bulk.Chosen(**each) for each in wanted["holds"]]
        task = bulk.Request(**{key: wanted[key] for key in wanted if key != "holds"})
        bulk.check(chosen, task)
        return once_in_parts(request, lambda part: self._apply(request, chosen, task, part))

    def _apply(
        self, request: Request, chosen: list[bulk.Chosen], task: bulk.Request, part: Part
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
    """Each hold is a part; what is kept of it is its step, as JSON."""

    def remember(chosen: bulk.Chosen, step: Callable[[], bulk.Step]) -> bulk.Step:
        kept = json.loads(part(chosen.hold_id, lambda: json_text(asdict(step()))))
        moved = tuple(kept["moved"]) if kept["moved"] else None
        return bulk.Step(bulk.Outcome(**kept["outcome"]), moved)

    return remember
