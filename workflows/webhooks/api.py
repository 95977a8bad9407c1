"""REST API of webhook endpoints and deliveries.

Users manage their own endpoints, and admins all of them.
"""

from __future__ import annotations

import json
from typing import Any

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
from workflows.api.idempotency_header import idempotent
from workflows.api.openapi import BODY, IDEMPOTENCY_KEY, problems
from workflows.api.pagination import CursorPages
from workflows.api.parsers import query_params, reject_query_params, validated_body
from workflows.api.permission_classes import HasRole, HasScope, MaySubscribe, caller, require_scope
from workflows.api.serializers import PlainSerializer, StrictSerializer
from workflows.executions.access import visible_to
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.models import WebhookDelivery, WebhookEndpoint
from workflows.realtime.event_serialization import WIRE_TYPES
from workflows.webhooks import services
from workflows.webhooks.payload import delivery_body

DELIVERY_ID = OpenApiParameter("delivery_id", str, OpenApiParameter.PATH, pattern="^[0-9]{1,19}$")
WEBHOOK_ID = OpenApiParameter("webhook_id", str, OpenApiParameter.PATH, pattern="^[0-9]{1,19}$")


class WebhookSerializer(serializers.ModelSerializer[WebhookEndpoint]):
    """An endpoint and its state; `standing` is the reason why nothing is sent, or ""."""

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
        reason = services.standing(endpoint)
        return reason.text if reason else ""


class NewWebhookSerializer(WebhookSerializer):
    """An endpoint with its signing secret, which no other response contains."""

    secret = serializers.CharField()

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")
        read_only_fields = fields


class WebhookRequestSerializer(StrictSerializer):
    """A new endpoint; an empty `events` means all types."""

    name = serializers.CharField(max_length=100)
    url = serializers.CharField(max_length=2000)
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=list(WIRE_TYPES)), max_length=100, default=list
    )
    include_data = serializers.BooleanField(default=False)
    enabled = serializers.BooleanField(default=True)


class WebhookChangeSerializer(StrictSerializer):
    """Fields to change; the others keep their values."""

    name = serializers.CharField(max_length=100, required=False)
    url = serializers.CharField(max_length=2000, required=False)
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=list(WIRE_TYPES)), max_length=100, required=False
    )
    include_data = serializers.BooleanField(required=False)
    enabled = serializers.BooleanField(required=False)


class WebhookResumeSerializer(StrictSerializer):
    """`skip`: drop everything up to now instead of sending it late."""

    skip = serializers.BooleanField(default=False)


class WebhookBase(APIView):
    """Base of all views below `webhooks/`."""

    permission_classes = (HasRole, HasScope("run"), MaySubscribe)

    def endpoint(self, request: Request, webhook_id: str) -> WebhookEndpoint:
        """Return an endpoint that the caller may see; raise Http404 otherwise."""
        rows = services.visible_endpoints(caller(request))
        endpoint = rows.filter(pk=parse_id(webhook_id)).first()
        if endpoint is None:
            raise Http404
        return endpoint


def _endpoint_json(endpoint: WebhookEndpoint) -> str:
    return json_text(WebhookSerializer(endpoint).data)


class WebhooksView(WebhookBase, ListAPIView[WebhookEndpoint]):
    """List and create endpoints of the caller."""

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
        summary="Create a webhook endpoint",
        description="The response contains the signing secret. REST does not show it again.",
        parameters=[IDEMPOTENCY_KEY],
        request=WebhookRequestSerializer,
        responses={201: NewWebhookSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        return idempotent(request, lambda: self._create(request))

    def _create(self, request: Request) -> StoredResponse:
        # The endpoint gets data that the scope `read` protects.
        require_scope(request, "read")
        fields = validated_body(WebhookRequestSerializer, request)
        endpoint, secret = services.create_endpoint(owner=caller(request), fields=fields)
        location = reverse("webhook", kwargs={"webhook_id": endpoint.pk})
        return StoredResponse(201, _endpoint_json(endpoint), location, secrets={"secret": secret})


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
        fields = validated_body(WebhookChangeSerializer, request)
        if {"url", "events", "include_data"}.intersection(fields):
            require_scope(request, "read")
        changed = services.update_endpoint(endpoint=endpoint, fields=fields, actor=caller(request))
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
    """Rotate the signing secret."""

    @extend_schema(
        operation_id="webhooks_rotate",
        summary="Rotate the signing secret",
        description="The previous secret also signs until `previous_until`.",
        parameters=[WEBHOOK_ID, IDEMPOTENCY_KEY],
        request=None,
        responses={200: NewWebhookSerializer, **problems(403, 404)},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        endpoint = self.endpoint(request, webhook_id)
        return idempotent(request, lambda: self._rotate(request, endpoint))

    def _rotate(self, request: Request, endpoint: WebhookEndpoint) -> StoredResponse:
        secret = services.rotate_secret(endpoint=endpoint, actor=caller(request))
        return StoredResponse(200, _endpoint_json(endpoint), secrets={"secret": secret})


class ResumeView(WebhookBase):
    """Resume a parked or disabled endpoint."""

    @extend_schema(
        operation_id="webhooks_resume",
        summary="Resume a parked endpoint from where it stopped",
        parameters=[WEBHOOK_ID, IDEMPOTENCY_KEY],
        request=WebhookResumeSerializer,
        responses={200: WebhookSerializer, **problems(403, 404, *BODY)},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        endpoint = self.endpoint(request, webhook_id)
        return idempotent(request, lambda: self._resume(request, endpoint))

    def _resume(self, request: Request, endpoint: WebhookEndpoint) -> StoredResponse:
        fields = validated_body(WebhookResumeSerializer, request)
        resumed = services.resume_endpoint(endpoint=endpoint, skip=fields["skip"])
        return StoredResponse(200, _endpoint_json(resumed))


# --- deliveries -----------------------------------------------------------------------------------


class DeliveryTrySerializer(PlainSerializer):
    """One attempt: HTTP status or error, duration in ms, start of the response."""

    at = serializers.DateTimeField(allow_null=True)
    status = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    ms = serializers.IntegerField()
    response = serializers.CharField(allow_blank=True)


class DeliverySerializer(serializers.ModelSerializer[WebhookDelivery]):
    """A message to an endpoint; `tries` holds the newest ten attempts."""

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
    """A delivery with its body; null if the owner may no longer see the run."""

    payload = serializers.SerializerMethodField()

    class Meta(DeliverySerializer.Meta):
        fields = (*DeliverySerializer.Meta.fields, "payload")
        read_only_fields = fields

    def get_payload(self, delivery: WebhookDelivery) -> dict[str, Any] | None:
        run, viewer = delivery.execution_id, services.visibility_user(delivery.endpoint)
        if run is not None and not visible_to(viewer).filter(pk=run).exists():
            return None
        payload: dict[str, Any] = json.loads(delivery_body(delivery))
        return payload


class DeliveryFilterSerializer(PlainSerializer):
    """Filters of the list."""

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
        summary="Deliveries of an endpoint, newest first",
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
        delivery = rows.filter(pk=parse_id(delivery_id)).first()
        if delivery is None:
            raise Http404
        return delivery


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
    """Queue a delivery again."""

    @extend_schema(
        operation_id="webhook_deliveries_redeliver",
        summary="Send a delivery once more",
        description="With the same message id, before later messages of the same run.",
        parameters=[WEBHOOK_ID, DELIVERY_ID, IDEMPOTENCY_KEY],
        request=None,
        responses={202: DeliverySerializer, **problems(403, 404, 409)},
    )
    def post(self, request: Request, webhook_id: str, delivery_id: str) -> Response:
        delivery = self.delivery(request, webhook_id, delivery_id)
        return idempotent(request, lambda: _accepted(services.redeliver(delivery=delivery)))


def _accepted(delivery: WebhookDelivery) -> StoredResponse:
    return StoredResponse(202, json_text(DeliverySerializer(delivery).data))


class PingView(WebhookBase):
    """Queue a test message."""

    @extend_schema(
        operation_id="webhooks_ping",
        summary="Send a test message",
        description="It is sent within seconds; read the delivery to see the result.",
        parameters=[WEBHOOK_ID, IDEMPOTENCY_KEY],
        request=None,
        responses={202: DeliverySerializer, **problems(403, 404, 409)},
    )
    def post(self, request: Request, webhook_id: str) -> Response:
        endpoint = self.endpoint(request, webhook_id)
        return idempotent(request, lambda: _accepted(services.ping(endpoint=endpoint)))
