"""Pages of webhook endpoints and their deliveries."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from reviews import conf
from reviews.components import labels as components_labels
from reviews.components.reasons import render_reason
from reviews.components.views import SeeOther, current_user, cursor_or_404, page
from workflows.common import keyset
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.engine.protocol.decide import Refused
from workflows.executions.access import ADMIN, may_subscribe, roles_of, visible_to
from workflows.executions.validation import InvalidRequest
from workflows.models import WebhookDelivery, WebhookEndpoint
from workflows.realtime.event_serialization import WIRE_TYPES
from workflows.webhooks import services
from workflows.webhooks.payload import delivery_body
from workflows.webhooks.services import standing, visibility_user, visible_endpoints
from workflows.webhooks.signing import headers

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Status = WebhookDelivery.Status
#: Style and label by delivery status.
_LOOKS = {
    Status.PENDING: ("RUNNING", N_("pending")),
    Status.DELIVERED: ("COMPLETED", N_("delivered")),
    Status.FAILED: ("FAILED", N_("given up")),
    Status.WITHHELD: ("SKIPPED", N_("not sent")),
}
#: Style and label of a pending delivery to an endpoint that is out of service.
_BLOCKED = ("PENDING", N_("waits"))


def endpoints_context(user: User, *, form: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the context of the list; `form` is the submitted form with its errors."""
    rows = visible_endpoints(user).order_by("-pk")
    return {
        "rows": [endpoint_row(row) for row in rows],
        "everybodys": ADMIN in roles_of(user),
        "form": form or blank_form(),
        "base_url": reverse("reviews:webhooks"),
    }


def blank_form() -> dict[str, Any]:
    return form_of(name="", url="", events=(), include_data=False)


def form_of(
    *, name: str, url: str, events: Any, include_data: bool, errors: Any = ()
) -> dict[str, Any]:
    """Return the form's values, event choices and errors."""
    choices = [{"name": each, "checked": each in events} for each in WIRE_TYPES]
    return {
        "name": name,
        "url": url,
        "choices": choices,
        "chosen": len([each for each in choices if each["checked"]]),
        "include_data": include_data,
        "errors": components_labels.faults(errors),
    }


def endpoint_row(endpoint: WebhookEndpoint) -> dict[str, Any]:
    why = standing(endpoint)
    look, word = ("COMPLETED", _("active"))
    if endpoint.parked_at is not None:
        look, word = "FAILED", _("parked")
    elif why:
        look, word = "SKIPPED", _("disabled") if not endpoint.enabled else _("not permitted")
    elif endpoint.failures:
        look, word = "PAUSED_FOR_REVIEW", _("failing")
    return {
        "endpoint": endpoint,
        "url": reverse("reviews:webhook", args=(endpoint.pk,)),
        "look": look,
        "word": word,
        "standing": render_reason(why) if why else "",
        "events": ", ".join(endpoint.events) if endpoint.events else _("every event"),
        "owner": endpoint.owner.get_username(),
    }


def endpoint_context(
    user: User, endpoint: WebhookEndpoint, *, status: str, cursor: str, secret: str = ""
) -> dict[str, Any]:
    """Return the context of an endpoint with a page of its deliveries.  Raises BadCursor."""
    rows = endpoint.deliveries.select_related("event__execution__workflow")
    if status in Status.values:
        rows = rows.filter(status=status)
    page = keyset.page(rows.order_by("-pk"), cursor=cursor, size=conf.page_size())
    base = reverse("reviews:webhook", args=(endpoint.pk,))
    query = f"status={status}&" if status in Status.values else ""
    return {
        **endpoint_row(endpoint),
        "form": form_of(
            name=endpoint.name,
            url=endpoint.url,
            events=endpoint.events,
            include_data=endpoint.include_data,
        ),
        "secret": secret,
        "deliveries": _deliveries(endpoint, page.rows),
        "tabs": _tabs(base, status),
        "action_url": reverse("reviews:webhook_action", args=(endpoint.pk,)),
        "next_url": f"{base}?{query}cursor={page.next}" if page.next else "",
        "previous_url": f"{base}?{query}".rstrip("?&") if cursor else "",
    }


def _tabs(base: str, status: str) -> list[dict[str, Any]]:
    names = [("", _("All")), *((each.value, capfirst(_(_LOOKS[each][1]))) for each in Status)]
    return [
        {"url": f"{base}?status={key}" if key else base, "word": word, "current": key == status}
        for key, word in names
    ]


def _deliveries(endpoint: WebhookEndpoint, rows: Any) -> list[dict[str, Any]]:
    runs = [row.execution_id for row in rows if row.execution_id is not None]
    visible = set(
        visible_to(visibility_user(endpoint)).filter(pk__in=runs).values_list("pk", flat=True)
    )
    return [
        _delivery(endpoint, row, visible=row.execution_id is None or row.execution_id in visible)
        for row in rows
    ]


def _delivery(endpoint: WebhookEndpoint, row: WebhookDelivery, *, visible: bool) -> dict[str, Any]:
    row.endpoint = endpoint
    body = delivery_body(row) if visible else b""
    status = Status(row.status)
    blocked = status == Status.PENDING and bool(standing(endpoint))
    look, word = _BLOCKED if blocked else _LOOKS[status]
    run = reverse("reviews:run", args=(row.execution_id,)) if row.execution_id and visible else ""
    again = reverse("reviews:webhook_redeliver", args=(endpoint.pk, row.pk))
    return {
        "row": row,
        "look": look,
        "word": _(word),
        "run_url": run,
        "payload": json.dumps(json.loads(body), indent=2, ensure_ascii=False) if visible else "",
        "curl": _curl(endpoint, row, body) if visible else "",
        "tries": [_attempt(each) for each in reversed(row.log)],
        "again_url": "" if row.status == Status.PENDING else again,
    }


def _attempt(entry: dict[str, Any]) -> dict[str, Any]:
    at = datetime.fromisoformat(entry["at"]) if entry["at"] else None
    result = entry["error"] or f"HTTP {entry['status']}"
    return {"at": at, "said": result, "ms": entry["ms"], "response": entry["response"]}


def _curl(endpoint: WebhookEndpoint, row: WebhookDelivery, body: bytes) -> str:
    """Return a curl command that posts the message; its signature is valid for five minutes."""
    try:
        secret = decrypt(endpoint.secret)
    except DecryptionFailed:
        return ""
    signed = headers((secret,), message_id=row.message_id, timestamp=int(time.time()), body=body)
    all_headers = {"Content-Type": "application/json", "holdpoint-event": row.type, **signed}
    parts = [f"  -H {shlex.quote(f'{name}: {value}')} \\" for name, value in all_headers.items()]
    lines = ["curl -X POST \\", *parts, f"  --data-binary {shlex.quote(body.decode())} \\"]
    return "\n".join([*lines, f"  {shlex.quote(endpoint.url)}"])


# --- views ----------------------------------------------------------------------------------------

_LIST, _ONE = "reviews/integrations/webhooks.html", "reviews/integrations/webhook.html"


def _check(request: HttpRequest) -> None:
    if not may_subscribe(current_user(request)):
        raise PermissionDenied(_("Webhooks are for integrators, operators and admins."))


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
def webhook_list(request: HttpRequest) -> HttpResponse:
    """List the endpoints; a POST creates one, or shows the form again with 422."""
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
        request,
        _("Webhook created. Copy its secret to the receiver and send a test message."),
    )
    return SeeOther(_url(endpoint))


@login_required
@require_safe
def webhook(request: HttpRequest, webhook_id: int) -> HttpResponse:
    """Show an endpoint with its settings and deliveries."""
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
    """Run the action of a button; errors are shown on the page."""
    endpoint = _endpoint(request, webhook_id)
    name = request.POST.get("do", "")
    if name == "reveal":
        return _reveal(request, endpoint)
    act = _ACTIONS.get(name)
    if act is None:
        messages.error(request, _("Unknown action; nothing was changed."))
        return SeeOther(_url(endpoint))
    try:
        messages.success(request, act(request, endpoint))
    except Refused as refusal:
        messages.error(request, render_reason(refusal.reason))
    except InvalidRequest as invalid:
        messages.error(request, "; ".join(each.message for each in invalid.problems))
    return SeeOther(reverse("reviews:webhooks") if name == "delete" else _url(endpoint))


def _reveal(request: HttpRequest, endpoint: WebhookEndpoint) -> HttpResponse:
    try:
        secret = decrypt(endpoint.secret)
    except DecryptionFailed as lost:
        messages.error(request, _("%(fault)s. Rotate it.") % {"fault": lost})
        return SeeOther(_url(endpoint))
    return _page(request, endpoint, secret=secret)


def _ping(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.ping(endpoint=endpoint)
    return _("Test message queued. See the deliveries below.")


def _save(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.update_endpoint(
        endpoint=endpoint, fields=_fields(request), actor=current_user(request)
    )
    return _("Saved.")


def _switch_off(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.update_endpoint(
        endpoint=endpoint, fields={"enabled": False}, actor=current_user(request)
    )
    return _("Disabled. Events from now on are sent when the webhook is resumed.")


def _resume(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.resume_endpoint(endpoint=endpoint)
    return _("Resumed. Missed events are sent.")


def _resume_skipping(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.resume_endpoint(endpoint=endpoint, skip=True)
    return _("Resumed. Missed events are skipped.")


def _rotate(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.rotate_secret(endpoint=endpoint, actor=current_user(request))
    return _("Secret rotated. The previous secret stays valid for a while.")


def _delete(request: HttpRequest, endpoint: WebhookEndpoint) -> str:
    services.delete_endpoint(endpoint=endpoint)
    return f"{endpoint.name} is deleted."


_ACTIONS: dict[str, Callable[[HttpRequest, WebhookEndpoint], str]] = {
    "ping": _ping,
    "save": _save,
    "switch_off": _switch_off,
    "resume": _resume,
    "resume_skip": _resume_skipping,
    "rotate": _rotate,
    "delete": _delete,
}


@login_required
@require_POST
def redeliver(request: HttpRequest, webhook_id: int, delivery_id: int) -> HttpResponse:
    """Send a delivery again."""
    endpoint = _endpoint(request, webhook_id)
    delivery = get_object_or_404(
        endpoint.deliveries.select_related("endpoint__owner"), pk=delivery_id
    )
    try:
        services.redeliver(delivery=delivery)
    except Refused as refusal:
        messages.error(request, render_reason(refusal.reason))
    else:
        messages.success(
            request, _("%(message)s is queued again.") % {"message": delivery.message_id}
        )
    return SeeOther(f"{_url(endpoint)}#d{delivery.pk}")
