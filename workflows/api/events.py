"""REST API of an execution's events: pages of JSON, or a stream of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import Throttled, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows import conf
from workflows.engine.protocol.status import ExecutionStatus
from workflows.models import Execution
from workflows.realtime.clients import LiveClient
from workflows.realtime.connection_limits import ConnectionSlot, acquire
from workflows.realtime.event_serialization import wire_events

from . import stream
from .executions import visible_execution
from .openapi import EXECUTION_ID, problems
from .parsers import query_params
from .permission_classes import HasRole, HasScope, caller, token_of
from .serializers import PlainSerializer

_MAX_BIGINT = 2**63 - 1
_MAX_LIMIT = 500
#: Retry-After for a client that has too many open streams.
_RETRY_SECONDS = 5


class EventStreamRenderer(JSONRenderer):
    """Accept `text/event-stream` in content negotiation; errors are rendered as JSON."""

    media_type = "text/event-stream"
    format = "event-stream"
    charset = None


class AfterSerializer(PlainSerializer):
    """Position and page size."""

    after = serializers.IntegerField(
        min_value=0, max_value=_MAX_BIGINT, default=0, help_text="Events with a greater `seq`."
    )
    limit = serializers.IntegerField(min_value=1, max_value=_MAX_LIMIT, default=_MAX_LIMIT)


class WireEventSerializer(PlainSerializer):
    """An event, camelCase; other keys depend on its type."""

    type = serializers.CharField()
    executionId = serializers.CharField()
    timestamp = serializers.IntegerField(help_text="ms since the epoch")
    seq = serializers.IntegerField(
        required=False, help_text="Missing where an event repeats the one that follows it."
    )
    version = serializers.IntegerField()


class EventPageSerializer(PlainSerializer):
    """Events in order.  `next` is null when there are no more for now."""

    next = serializers.CharField(allow_null=True)
    version = serializers.IntegerField()
    results = WireEventSerializer(many=True)


class EventsView(APIView):
    """The events of an execution, in order and without gaps."""

    permission_classes = (HasRole, HasScope("read"))
    renderer_classes = (JSONRenderer, EventStreamRenderer)

    @extend_schema(
        operation_id="executions_events",
        summary="Events, as a page or as a stream",
        description=(
            "With `Accept: text/event-stream` the answer replays what comes after `after` (or "
            "after `Last-Event-ID`), then follows, and ends with the final event. 204: there is "
            "nothing left to come."
        ),
        parameters=[
            EXECUTION_ID,
            AfterSerializer,
            OpenApiParameter("Last-Event-ID", int, OpenApiParameter.HEADER),
        ],
        responses={
            (200, "application/json"): EventPageSerializer,
            (200, "text/event-stream"): OpenApiTypes.STR,
            204: None,
            **problems(403, 404, 422),
        },
    )
    def get(self, request: Request, execution_id: str) -> HttpResponseBase:
        execution = visible_execution(request, execution_id)
        query = _event_query(request)
        after = query["after"]
        if request.accepted_renderer.media_type == EventStreamRenderer.media_type:
            return _stream_response(request, execution, after)
        return _page(request, execution, after, query["limit"])


def _event_query(request: Request) -> dict[str, Any]:
    """Return the query; a reconnecting EventSource sends its position in a header."""
    query = query_params(request, AfterSerializer, also=frozenset())
    last = request.headers.get("Last-Event-ID")
    if not last:
        return query
    position = AfterSerializer(data={"after": last})
    if not position.is_valid():
        raise ValidationError({"Last-Event-ID": position.errors["after"]})
    return {**query, "after": position.validated_data["after"]}


def _page(request: Request, execution: Execution, after: int, limit: int) -> Response:
    results = wire_events(execution.pk, after=after, limit=limit)
    last = results[-1]["seq"] if results else after
    more = sum("seq" in event for event in results) == limit
    return Response(
        {
            "next": f"{request.path}?after={last}&limit={limit}" if more else None,
            "version": max(execution.version, last if results else 0),
            "results": results,
        }
    )


def _stream_response(request: Request, execution: Execution, after: int) -> HttpResponseBase:
    if ExecutionStatus(execution.status).is_final and after >= execution.version:
        # 204 makes an EventSource stop reconnecting.
        return HttpResponse(status=204)
    client = stream_client(request)
    slot = connection_slot(request)
    response = SlottedStream(
        released_at_end(stream.follow(execution.pk, after=after, client=client), slot),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    response.slot = slot
    return response


def stream_client(request: Request, *scopes: str) -> LiveClient:
    """Return the user and the credential of a request; a token needs one of `scopes` (read)."""
    return LiveClient(
        user_id=caller(request).pk,
        token_id=token.pk if (token := token_of(request)) else None,
        session_key=None if request.auth is not None else request.session.session_key,
        scopes=frozenset(scopes or ("read",)),
    )


class SlottedStream(StreamingHttpResponse):
    """A streaming response that releases its connection slot when the server closes it."""

    slot: ConnectionSlot

    def close(self) -> None:
        self.slot.release()
        super().close()


def connection_slot(request: Request) -> ConnectionSlot:
    """Acquire a connection slot; raise Throttled if the caller has none left."""
    token = token_of(request)
    owner = token.digest if token else str(request.session.session_key)
    slot = acquire(owner, most=conf.connections_each())
    if slot is None:
        raise Throttled(wait=_RETRY_SECONDS, detail="Too many streams are open; close one.")
    return slot


async def released_at_end(
    events: AsyncIterator[bytes], slot: ConnectionSlot
) -> AsyncIterator[bytes]:
    try:
        async for event in events:
            yield event
    finally:
        slot.release()
