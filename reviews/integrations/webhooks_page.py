"""The pages of webhooks: endpoints with their standing, deliveries with what was sent."""

from __future__ import annotations

import json
import shlex
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews import conf
from reviews.components import labels as components_labels
from reviews.queue import selectors
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.executions.access import ADMIN, roles_of, visible_to
from workflows.models import WebhookDelivery, WebhookEndpoint
from workflows.realtime.event_serialization import WIRE_TYPES
from workflows.webhooks.payload import delivery_body
from workflows.webhooks.services import standing, visibility_user, visible_endpoints
from workflows.webhooks.signing import headers

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Status = WebhookDelivery.Status
#: State of a delivery → whose look it has, and its own word.
_LOOKS = {
    Status.PENDING: ("RUNNING", N_("on its way")),
    Status.DELIVERED: ("COMPLETED", N_("delivered")),
    Status.FAILED: ("FAILED", N_("given up")),
    Status.WITHHELD: ("SKIPPED", N_("not sent")),
}
#: A delivery on its way to an endpoint that nothing is sent to.
_HELD_UP = ("PENDING", N_("waits"))


def endpoints_context(user: User, *, form: dict[str, Any] | None = None) -> dict[str, Any]:
    """The list, and the form for one more; `form` is what was posted, with its errors."""
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
    """What the form shows: values, the events there are, what was wrong."""
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
    look, word = ("COMPLETED", _("in service"))
    if endpoint.parked_at is not None:
        look, word = "FAILED", _("parked")
    elif why:
        look, word = "SKIPPED", _("switched off") if not endpoint.enabled else _("owner may not")
    elif endpoint.failures:
        look, word = "PAUSED_FOR_REVIEW", _("failing")
    return {
        "endpoint": endpoint,
        "url": reverse("reviews:webhook", args=(endpoint.pk,)),
        "look": look,
        "word": word,
        "standing": why,
        "events": ", ".join(endpoint.events) if endpoint.events else _("every event"),
        "owner": endpoint.owner.get_username(),
    }


def endpoint_context(
    user: User, endpoint: WebhookEndpoint, *, status: str, cursor: str, secret: str = ""
) -> dict[str, Any]:
    """One endpoint with a page of its deliveries.  Raises selectors.BadCursor."""
    rows = endpoint.deliveries.select_related("event__execution__workflow")
    if status in Status.values:
        rows = rows.filter(status=status)
    page = selectors.page(rows.order_by("-pk"), cursor=cursor, size=conf.page_size())
    base = reverse("reviews:webhook", args=(endpoint.pk,))
    kept = f"status={status}&" if status in Status.values else ""
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
        "next_url": f"{base}?{kept}cursor={page.next}" if page.next else "",
        "previous_url": f"{base}?{kept}".rstrip("?&") if cursor else "",
        "page_words": "",
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
        _delivery(endpoint, row, shown=row.execution_id is None or row.execution_id in visible)
        for row in rows
    ]


def _delivery(endpoint: WebhookEndpoint, row: WebhookDelivery, *, shown: bool) -> dict[str, Any]:
    row.endpoint = endpoint
    body = delivery_body(row) if shown else b""
    status = Status(row.status)
    held_up = status == Status.PENDING and bool(standing(endpoint))
    look, word = _HELD_UP if held_up else _LOOKS[status]
    run = reverse("reviews:run", args=(row.execution_id,)) if row.execution_id and shown else ""
    again = reverse("reviews:webhook_redeliver", args=(endpoint.pk, row.pk))
    return {
        "row": row,
        "look": look,
        "word": _(word),
        "run_url": run,
        "payload": json.dumps(json.loads(body), indent=2, ensure_ascii=False) if shown else "",
        "curl": _curl(endpoint, row, body) if shown else "",
        "tries": [_try(each) for each in reversed(row.log)],
        "again_url": "" if row.status == Status.PENDING else again,
    }


def _try(entry: dict[str, Any]) -> dict[str, Any]:
    at = datetime.fromisoformat(entry["at"]) if entry["at"] else None
    said = entry["error"] or f"HTTP {entry['status']}"
    return {"at": at, "said": said, "ms": entry["ms"], "response": entry["response"]}


def _curl(endpoint: WebhookEndpoint, row: WebhookDelivery, body: bytes) -> str:
    """A command that posts this message by hand, signed now: good for five minutes."""
    try:
        secret = decrypt(endpoint.secret)
    except DecryptionFailed:
        return ""
    signed = headers((secret,), message_id=row.message_id, timestamp=int(time.time()), body=body)
    told = {"Content-Type": "application/json", "holdpoint-event": row.type, **signed}
    parts = [f"  -H {shlex.quote(f'{name}: {value}')} \\" for name, value in told.items()]
    lines = ["curl -X POST \\", *parts, f"  --data-binary {shlex.quote(body.decode())} \\"]
    return "\n".join([*lines, f"  {shlex.quote(endpoint.url)}"])
