"""Webhook endpoints over REST: whoever may have some keeps their own, an admin everybody's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.api.executions import parse_id
from workflows.api.idempotency import idempotent
from workflows.api.openapi import BODY, IDEMPOTENCY_KEY, problems
from workflows.api.pagination import CursorPages
from workflows.api.parsers import object_body, query_params, reject_query_params
from workflows.api.permissions import HasRole, HasScope, MaySubscribe, caller, require_scope
from workflows.api.serializers import PlainSerializer, StrictSerializer
from workflows.executions.access import visible_to
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import WebhookDelivery, WebhookEndpoint
from workflows.realtime.event_serialization import WIRE_TYPES
from workflows.webhooks import services
from workflows.webhooks.payload import delivery_body

if TYPE_CHECKING:
    EndpointModel = serializers.ModelSerializer[WebhookEndpoint]
    DeliveryModel = serializers.ModelSerializer[WebhookDelivery]
else:
    EndpointModel = DeliveryModel = serializers.ModelSerializer

DELIVERY_ID = OpenApiParameter("delivery_id", str, OpenApiParameter.PATH, pattern="^[0-9]{1,19}$")
WEBHOOK_ID = OpenApiParameter("webhook_id", str, OpenApiParameter.PATH, pattern="^[0-9]{1,19}$")


class WebhookSerializer(EndpointModel):
    """An endpoint and how it is doing; `standing` says why nothing is sent, "" when it is."""

    id = serializers.CharField()
    owner = serializers.CharField(source="owner.username")
    events = serializers.ListField(child=serializers.CharField())
    standing = serializers.SerializerMethodField()

    class Meta:
        model = WebhookEndpoint
        fields: tuple[str, ...] = (
            "id", "name", "url", "owner", "events", "include_data", "enabled", "standing",
            "failures", "retry_at", "parked_at", "parked_reason", "last_success_at",
            "last_failure_at", "last_error", "previous_until", "created_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_standing(self, endpoint: WebhookEndpoint) -> str:
        return services.standing(endpoint)


class NewWebhookSerializer(WebhookSerializer):
    """With the signing secret, which only this answer holds."""

    secret = serializers.CharField()

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")
        read_only_fields = fields


class WebhookRequestSerializer(StrictSerializer):
    """What the endpoint shall be told; no `events` means all of them."""

    name = serializers.CharField(max_length=100)
    url = serializers.CharField(max_length=2000)
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=list(WIRE_TYPES)), max_length=100, default=list
    )
    include_data = serializers.BooleanField(default=False)
    enabled = serializers.BooleanField(default=True)


class WebhookChangeSerializer(StrictSerializer):
    """Only the fields that are given change."""

    name = serializers.CharField(max_length=100, required=False)
    url = serializers.CharField(max_length=2000, required=False)
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=list(WIRE_TYPES)), max_length=100, required=False
    )
    include_data = serializers.BooleanField(required=False)
    enabled = serializers.BooleanField(required=False)


class WebhookResumeSerializer(StrictSerializer):
    """`skip`: leave out what happened until now, instead of sending it late."""

    skip = serializers.BooleanField(default=False)


class WebhookBase(APIView):
    """What all addresses below `webhooks/` have in common."""

    permission_classes = (HasRole, HasScope("run"), MaySubscribe)

    def endpoint(self, request: Request, webhook_id: str) -> WebhookEndpoint:
        """One that the caller may see; Http404 otherwise."""
        rows = services.visible_endpoints(caller(request))
        found = rows.filter(pk=parse_id(webhook_id)).first()
        if found is None:
            raise Http404
        return found


def _shown(endpoint: WebhookEndpoint) -> str:
    return json_text(WebhookSerializer(endpoint).data)


class WebhooksView(WebhookBase, ListAPIView[WebhookEndpoint]):
    """My endpoints, and making one."""

    pagination_class = CursorPages
    serializer_class = WebhookSerializer

    def get_queryset(self) -> QuerySet[WebhookEndpoint]:
        query_params(self.request)
        return services.visible_endpoints(caller(self.request))

    @extend_schema(
        operation_id="webhooks_list",
        summary="My webhook endpoints, newest first",
        responses={200: WebhookSerializer(many=True), **problems(403, 404)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="webhooks_create",
        summary="Have events posted to an address",
        description="The answer holds the signing secret. It is not shown again over REST.",
        parameters=[IDEMPOTENCY_KEY],
        request=WebhookRequestSerializer,
        responses={201: NewWebhookSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._create(request))

    def _create(self, request: Request) -> StoredResponse:
        # What is posted to the endpoint is what the scope `read` is for.
        require_scope(request, "read")
        asked = WebhookRequestSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        endpoint, secret = services.create_endpoint(
            owner=caller(request), fields=asked.validated_data
        )
        where = reverse("webhook", kwargs={"webhook_id": endpoint.pk})
        return StoredResponse(201, _shown(endpoint), where, secrets={"secret": secret})


class WebhookView(WebhookBase):
    """One endpoint."""

    @extend_schema(
        operation_id="webhooks_get",
        summary="One webhook endpoint",
        parameters=[WEBHOOK_ID],
        responses={200: WebhookSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, webhook_id: str) -> Response:
        reject_query_params(request)
        return Response(WebhookSerializer(self.endpoint(request, webhook_id)).data)

    @extend_schema(
        operation_id="webhooks_change",
        summary="Change a webhook endpoint",
        parameters=[WEBHOOK_ID],
        request=WebhookChangeSerializer,
        responses={200: WebhookSerializer, **problems(403, 404, *BODY)},
    )
    def patch(self, request: Request, webhook_id: str) -> Response:
        endpoint = self.endpoint(request, webhook_id)
        asked = WebhookChangeSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        if {"url", "events", "include_data"}.intersection(asked.validated_data):
            require_scope(request, "read")
        changed = services.update_endpoint(
            endpoint=endpoint, fields=asked.validated_data, actor=caller(request)
        )
        return Response(WebhookSerializer(changed).data)

    @extend_schema(
        operation_id="webhooks_delete",
        summary="Delete a webhook endpoint and its deliveries",
        parameters=[WEBHOOK_ID],
        responses={204: None, **problems(403, 404)},
    )
    def delete(self, request: Request, webhook_id: str) -> Response:
        services.delete_endpoint(endpoint=self.endpoint(request, webhook_id))
        return Response(status=204)


class RotateView(WebhookBase):
    """A new signing secret."""

    @extend_schema(
        operation_id="webhooks_rotate",
        summary="Make a new signing secret",
        description="The one before signs as well until `previous_until`.",
        parameters=[WEBHOOK_ID, IDEMPOTENCY_KEY],
        request=None,
        responses={200: NewWebhookSerializer, **problems(403, 404)},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        endpoint = self.endpoint(request, webhook_id)
        return idempotent(request, lambda: self._rotate(request, endpoint))

    def _rotate(self, request: Request, endpoint: WebhookEndpoint) -> StoredResponse:
        secret = services.rotate_secret(endpoint=endpoint, actor=caller(request))
        return StoredResponse(200, _shown(endpoint), secrets={"secret": secret})


class ResumeView(WebhookBase):
    """Going on with a parked or switched-off endpoint."""

    @extend_schema(
        operation_id="webhooks_resume",
        summary="Send again to a parked endpoint, from where it stopped",
        parameters=[WEBHOOK_ID, IDEMPOTENCY_KEY],
        request=WebhookResumeSerializer,
        responses={200: WebhookSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        endpoint = self.endpoint(request, webhook_id)
        return idempotent(request, lambda: self._resume(request, endpoint))

    def _resume(self, request: Request, endpoint: WebhookEndpoint) -> StoredResponse:
        asked = WebhookResumeSerializer(data=object_body(request.data))
        asked.is_valid(raise_exception=True)
        resumed = services.resume_endpoint(endpoint=endpoint, skip=asked.validated_data["skip"])
        return StoredResponse(200, _shown(resumed))


# --- deliveries -----------------------------------------------------------------------------------


class DeliveryTrySerializer(PlainSerializer):
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
        run, viewer = delivery.execution_id, services.visibility_user(delivery.endpoint)
        if run is not None and not visible_to(viewer).filter(pk=run).exists():
            return None
        found: dict[str, Any] = json.loads(delivery_body(delivery))
        return found


class DeliveryFilterSerializer(PlainSerializer):
    """Filter of the list."""

    status = serializers.ChoiceField(choices=WebhookDelivery.Status.values, required=False)


class DeliveriesView(WebhookBase, ListAPIView[WebhookDelivery]):
    """Deliveries of one endpoint."""

    pagination_class = CursorPages
    serializer_class = DeliverySerializer

    def get_queryset(self) -> QuerySet[WebhookDelivery]:
        endpoint = self.endpoint(self.request, self.kwargs["webhook_id"])
        return endpoint.deliveries.filter(**query_params(self.request, DeliveryFilterSerializer))

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
        found = rows.filter(pk=parse_id(delivery_id)).first()
        if found is None:
            raise Http404
        return found


class DeliveryView(_DeliveryBase):
    """One delivery."""

    @extend_schema(
        operation_id="webhook_deliveries_get",
        summary="One delivery with its payload",
        parameters=[WEBHOOK_ID, DELIVERY_ID],
        responses={200: WholeDeliverySerializer, **problems(403, 404)},
    )
    def get(self, request: Request, webhook_id: str, delivery_id: str) -> Response:
        reject_query_params(request)
        delivery = self.delivery(request, webhook_id, delivery_id)
        return Response(WholeDeliverySerializer(delivery).data)


class RedeliverView(_DeliveryBase):
    """Sending a message again."""

    @extend_schema(
        operation_id="webhook_deliveries_redeliver",
        summary="Send a delivery once more",
        description="With the same message id, before what waits behind it.",
        parameters=[WEBHOOK_ID, DELIVERY_ID, IDEMPOTENCY_KEY],
        request=None,
        responses={202: DeliverySerializer, **problems(403, 404, 409)},
    )
    def post(self, request: Request, webhook_id: str, delivery_id: str) -> Response:
        delivery = self.delivery(request, webhook_id, delivery_id)
        return idempotent(request, lambda: _soon(services.redeliver(delivery=delivery)))


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
        return idempotent(request, lambda: _soon(services.ping(endpoint=endpoint)))
