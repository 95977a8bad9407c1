"""Read-only admin of webhook endpoints and deliveries; separate pages manage them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy

from workflows.executions import access
from workflows.models import WebhookDelivery, WebhookEndpoint
from workflows.webhooks.services import visible_endpoints

from .filters import StatusFilter
from .read_only import ReadOnly


class EndpointStatusFilter(StatusFilter):
    """Whether the endpoint receives events."""

    choices_by_key = {
        "active": (gettext_lazy("Active"), Q(enabled=True, parked_at=None)),
        "parked": (gettext_lazy("Parked"), Q(parked_at__isnull=False)),
        "disabled": (gettext_lazy("Disabled"), Q(enabled=False)),
    }


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(ReadOnly):
    """Endpoints, without their secrets."""

    empty_text = gettext_lazy(
        "A webhook endpoint receives the events of runs: add one on the page Webhooks of the desk."
    )
    list_display = (
        "name", "url", "owner", "enabled", "failures", "parked_at", "last_success_at",
        "last_failure_at",
    )  # fmt: skip
    list_filter = (EndpointStatusFilter,)
    list_select_related = ("owner",)
    search_fields = ("name", "url", "owner__username")
    exclude = ("secret", "previous_secret")

    def view_on_site(self, obj: Any) -> str:
        """The endpoint's page on the desk."""
        return reverse("reviews:webhook", args=(obj.pk,))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return visible_endpoints(request.user)  # type: ignore[arg-type]


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnly):
    """Deliveries and their state."""

    empty_text = gettext_lazy(
        "A delivery is one event that was sent to a webhook endpoint: add an endpoint, and "
        "its deliveries appear here."
    )
    list_display = (
        "message_id", "endpoint", "type", "status", "attempts", "created_at", "finished_at",
    )  # fmt: skip
    list_filter = ("status", "type")
    list_select_related = ("endpoint",)
    search_fields = ("message_id", "endpoint__name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        visible = access.visible_to(request.user)
        mine = visible_endpoints(request.user)  # type: ignore[arg-type]
        return WebhookDelivery.objects.filter(
            Q(execution=None) | Q(execution__in=visible), endpoint__in=mine
        )
