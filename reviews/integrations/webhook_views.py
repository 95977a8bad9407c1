"""Webhook endpoints and their deliveries: looking, and everything that is a button."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from reviews.components.views import SeeOther, current_user, cursor_or_404, page
from reviews.integrations.webhooks_page import endpoint_context, endpoints_context, form_of
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.engine.decide import Refused
from workflows.executions.access import may_subscribe
from workflows.executions.validation import InvalidRequest
from workflows.models import WebhookEndpoint
from workflows.webhooks import services

_LIST, _ONE = "reviews/integrations/webhooks.html", "reviews/integrations/webhook.html"


def _check(request: HttpRequest) -> None:
    if not may_subscribe(current_user(request)):
        raise PermissionDenied(_("Integrators, operators and admins have webhooks. Ask an admin."))


def _endpoint(request: HttpRequest, webhook_id: int) -> WebhookEndpoint:
    _check(request)
    return get_object_or_404(services.visible_endpoints(current_user(request)), pk=webhook_id)


def _url(endpoint: WebhookEndpoint) -> str:
    return reverse("reviews:webhook", args=(endpoint.pk,))


def _fields(request: HttpRequest) -> dict[str, Any]:
    return {
        "name": request.POST.get("name", "").replace("\0", "").strip(),
        "url": request.POST.get("url", "").replace("\0", "").strip(),
        "events": request.POST.getlist("events"),
        "include_data": request.POST.get("include_data") == "on",
    }


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def webhooks(request: HttpRequest) -> HttpResponse:
    """My endpoints; a POST makes one, and 422 shows the form again."""
    _check(request)
    user = current_user(request)
    if request.method != "POST":
        return page(request, _LIST, endpoints_context(user), section="webhooks")
    fields = _fields(request)
    try:
        endpoint, _secret = services.create_endpoint(owner=user, fields=fields)
    except InvalidRequest as invalid:
        form = form_of(**fields, errors=invalid.problems)
        context = endpoints_context(user, form=form)
        return page(request, _LIST, context, section="webhooks", status=422)
    messages.success(
        request, _("Made. Put its secret into the receiver, then send a test message.")
    )
    return SeeOther(_url(endpoint))


@login_required
@require_safe
def webhook(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """One endpoint: standing, settings, deliveries."""
    return _page(request, _endpoint(request, webhook_id))


def _page(request: HttpRequest, endpoint: WebhookEndpoint, *, secret: str = "") -> HttpResponse:
    with cursor_or_404():
        context = endpoint_context(
            current_user(request),
            endpoint,
            status=request.GET.get("status", ""),
            cursor=request.GET.get("cursor", ""),
            secret=secret,
        )
    return page(request, _ONE, context, section="webhooks")


@login_required
@require_POST
def action(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """One button; what cannot be done is said on the page."""
    endpoint = _endpoint(request, webhook_id)
    wanted = request.POST.get("do", "")
    if wanted == "reveal":
        return _reveal(request, endpoint)
    act = _ACTIONS.get(wanted)
    if act is None:
        messages.error(request, _("Nothing was done: that is not one of the buttons."))
        return SeeOther(_url(endpoint))
    try:
        messages.success(request, act(request, endpoint))
    except Refused as refusal:
        messages.error(request, refusal.message)
    except InvalidRequest as invalid:
        messages.error(request, "; ".join(each.message for each in invalid.problems))
    return SeeOther(reverse("reviews:webhooks") if wanted == "delete" else _url(endpoint))


def _reveal(request: HttpRequest, endpoint: WebhookEndpoint) -> HttpResponse:
    try:
        secret = decrypt(endpoint.secret)
    except DecryptionFailed as lost:
        messages.error(request, _("%(fault)s. Rotate it.") % {"fault": lost})
        return SeeOther(_url(endpoint))
    return _page(request, endpoint, secret=secret)


def _ping(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.ping(endpoint=endpoint)
    return _("A test message is on its way. It stands among the deliveries.")


def _save(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.update_endpoint(
        endpoint=endpoint, fields=_fields(request), actor=current_user(request)
    )
    return _("Saved.")


def _switch_off(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.update_endpoint(
        endpoint=endpoint, fields={"enabled": False}, actor=current_user(request)
    )
    return _("Switched off. What happens now is sent when it is on again.")


def _resume(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.resume_endpoint(endpoint=endpoint)
    return _("Resumed, from where it stopped.")


def _resume_without(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.resume_endpoint(endpoint=endpoint, skip=True)
    return _("Resumed. What was missed is left out.")


def _rotate(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.rotate_secret(endpoint=endpoint, actor=current_user(request))
    return _("There is a new secret. The one before signs as well for a while.")


def _delete(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.delete_endpoint(endpoint=endpoint)
    return f"{endpoint.name} is deleted."


_ACTIONS: dict[str, Callable[[HttpRequest, WebhookEndpoint], str]] = {
    "ping": _ping,
    "save": _save,
    "switch_off": _switch_off,
    "resume": _resume,
    "resume_skip": _resume_without,
    "rotate": _rotate,
    "delete": _delete,
}


@login_required
@require_POST
def redeliver(request: HttpRequest, webhook_id: int, delivery_id: int) -> HttpResponse:
    """Send one delivery again."""
    endpoint = _endpoint(request, webhook_id)
    delivery = get_object_or_404(
        endpoint.deliveries.select_related("endpoint__owner"), pk=delivery_id
    )
    try:
        services.redeliver(delivery=delivery)
    except Refused as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(
            request, _("%(message)s is sent again.") % {"message": delivery.message_id}
        )
    return SeeOther(f"{_url(endpoint)}#d{delivery.pk}")
