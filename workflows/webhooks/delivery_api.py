"""What was sent to a webhook endpoint, what came of it, and sending it again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from workflows.api.executions import number_of
from workflows.api.idempotency_key import once
from workflows.api.pagination import CursorPages
from workflows.api.parsers import asked_for, no_parameters
from workflows.api.schema import IDEMPOTENCY_KEY, problems
from workflows.api.serializers import Plain
from workflows.executions.access import visible_to
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import WebhookDelivery
from workflows.webhooks import endpoints
from workflows.webhooks.payload import body_of

from .api import WEBHOOK_ID, WebhookBase

if TYPE_CHECKING:
    DeliveryModel = serializers.ModelSerializer[WebhookDelivery]
else:
    DeliveryModel = serializers.ModelSerializer

_ID = OpenApiParameter("delivery_id", str, OpenApiParameter.PATH, pattern="^[0-9]{1,19}$")


class DeliveryTrySerializer(Plain):
    """One try: the receiver's status, or what went wrong; `ms` it took; how its answer began."""

    at = serializers.DateTimeField(allow_null=True)
    status = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    ms = serializers.IntegerField()
    response = serializers.CharField(allow_blank=True)


class DeliverySerializer(DeliveryModel):
    """A message to an endpoint; `tries` are the newest ten."""

    id = serializers.CharField()
    execution_id = serializers.CharField(allow_null=True)
    tries = DeliveryTrySerializer(source="log", many=True)

    class Meta:
        model = WebhookDelivery
        fields: tuple[str, ...] = (
            "id", "message_id", "type", "execution_id", "status", "attempts", "next_at",
            "created_at", "finished_at", "tries",
        )  # fmt: skip
        read_only_fields = fields


class WholeDeliverySerializer(DeliverySerializer):
    """With the body as it is sent; null when the endpoint's owner may no longer see the run."""

    payload = serializers.SerializerMethodField()

    class Meta(DeliverySerializer.Meta):
        fields = (*DeliverySerializer.Meta.fields, "payload")
        read_only_fields = fields

    def get_payload(self, delivery: WebhookDelivery) -> dict[str, Any] | None:
        run, viewer = delivery.execution_id, endpoints.viewer_of(delivery.endpoint)
        if run is not None and not visible_to(viewer).filter(pk=run).exists():
            return None
        found: dict[str, Any] = json.loads(body_of(delivery))
        return found


class DeliveryFilterSerializer(Plain):
    """Filter of the list."""

    status = serializers.ChoiceField(choices=WebhookDelivery.Status.values, required=False)


class DeliveriesView(WebhookBase, ListAPIView[WebhookDelivery]):
    """Deliveries of one endpoint."""

    pagination_class = CursorPages
    serializer_class = DeliverySerializer

    def get_queryset(self) -> QuerySet[WebhookDelivery]:
        endpoint = self.endpoint(self.request, self.kwargs["webhook_id"])
        return endpoint.deliveries.filter(**asked_for(self.request, DeliveryFilterSerializer))

    @extend_schema(
        operation_id="webhook_deliveries_list",
        summary="What was sent to an endpoint, newest first",
        parameters=[WEBHOOK_ID, DeliveryFilterSerializer],
        responses={200: DeliverySerializer(many=True), **problems(403, 404, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class _DeliveryBase(WebhookBase):
    def delivery(self, request: Request, webhook_id: str, delivery_id: str) -> WebhookDelivery:
        rows = self.endpoint(request, webhook_id).deliveries.select_related(
            "endpoint__owner", "event__execution__workflow"
        )
        found = rows.filter(pk=number_of(delivery_id)).first()
        if found is None:
            raise Http404
        return found


class DeliveryView(_DeliveryBase):
    """One delivery."""

    @extend_schema(
        operation_id="webhook_deliveries_get",
        summary="One delivery with its payload",
        parameters=[WEBHOOK_ID, _ID],
        responses={200: WholeDeliverySerializer, **problems(403, 404)},
    )
    def get(self, request: Request, webhook_id: str, delivery_id: str) -> Response:
        no_parameters(request)
        delivery = self.delivery(request, webhook_id, delivery_id)
        return Response(WholeDeliverySerializer(delivery).data)


class RedeliverView(_DeliveryBase):
    """Sending a message again."""

    @extend_schema(
        operation_id="webhook_deliveries_redeliver",
        summary="Send a delivery once more",
        description="With the same message id, before what waits behind it.",
        parameters=[WEBHOOK_ID, _ID, IDEMPOTENCY_KEY],
        request=None,
        responses={202: DeliverySerializer, **problems(403, 404, 409)},
    )
    def post(self, request: Request, webhook_id: str, delivery_id: str) -> Response:
        delivery = self.delivery(request, webhook_id, delivery_id)
        return once(request, lambda: _soon(endpoints.redeliver(delivery=delivery)))


def _soon(delivery: WebhookDelivery) -> StoredResponse:
    return StoredResponse(202, json_text(DeliverySerializer(delivery).data))


class PingView(WebhookBase):
    """A test message."""

    @extend_schema(
        operation_id="webhooks_ping",
        summary="Send a test message",
        description="It is sent within seconds; look at the delivery to see what came of it.",
        parameters=[WEBHOOK_ID, IDEMPOTENCY_KEY],
        request=None,
        responses={202: DeliverySerializer, **problems(403, 404, 409)},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        endpoint = self.endpoint(request, webhook_id)
        return once(request, lambda: _soon(endpoints.ping(endpoint=endpoint)))
