"""Use cases of webhook endpoints and deliveries, for the REST API, pages and the admin."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Now
from django.http import Http404

from workflows import conf
from workflows.common.secret_encryption import encrypt
from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.decide import Refused
from workflows.engine.values.reasons import Reason, load_reason, reason_fields
from workflows.executions import access
from workflows.executions.legal_holds import without_legal_hold
from workflows.executions.validation import InvalidRequest
from workflows.models import ExecutionEvent, WebhookDelivery, WebhookEndpoint
from workflows.permissions.tokens import is_over
from workflows.realtime import work_hints
from workflows.realtime.event_serialization import WIRE_TYPES

from .addresses import url_problem
from .payload import PING
from .signing import new_secret

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Days after which finished deliveries are deleted.
KEEP_DAYS = 30

Status = WebhookDelivery.Status
#: Deliveries that one call of `delete_old_deliveries` deletes.
_DELETE_BATCH = 5000
SKIPPED = "skipped when the endpoint was resumed"


def visible_endpoints(user: User) -> QuerySet[WebhookEndpoint]:
    """The endpoints that the user may see and change: their own, or all for an admin."""
    rows = WebhookEndpoint.objects.select_related("owner", "token__user")
    workflow_ids = access.allowed_workflow_ids(user)
    if workflow_ids is not None:
        # A token limited to some workflows sees only endpoints with the same or a narrower limit.
        rows = rows.filter(token__only_workflows__contained_by=sorted(workflow_ids))
    return rows if access.ADMIN in access.roles_of(user) else rows.filter(owner=user)


def visibility_user(endpoint: WebhookEndpoint) -> User:
    """Return the owner, limited like the endpoint's token: events visible to it are sent."""
    if endpoint.token is None:
        return endpoint.owner
    return access.limit_to_workflows(endpoint.owner, endpoint.token.only_workflows)


def create_endpoint(*, owner: User, fields: Mapping[str, Any]) -> tuple[WebhookEndpoint, str]:
    """Create an endpoint that gets the events from now on; return it with its secret.

    Args:
        fields: name, url, events (wire types; empty for all), include_data, enabled.

    Raises:
        InvalidRequest: with the invalid fields.
    """
    values = _validated(fields)
    secret = new_secret()
    with transaction.atomic():
        _lock(owner)
        if WebhookEndpoint.objects.filter(owner=owner).count() >= conf.webhook_max_endpoints():
            limit = conf.webhook_max_endpoints()
            message = f"you have {limit} endpoints, which is the limit; delete one first"
            raise InvalidRequest((Problem("name", "too_many", message),))
        endpoint = WebhookEndpoint.objects.create(
            owner=owner,
            token_id=_token_id(owner),
            secret=encrypt(secret),
            cursor=_newest_event_id(),
            **values,
        )
        work_hints.announce_work()
    endpoint.refresh_from_db()
    return endpoint, secret


def _lock(owner: User) -> None:
    """Serialize concurrent requests of one user, so that the limit of endpoints holds."""
    list(get_user_model().objects.select_for_update().filter(pk=owner.pk).values_list("pk"))


def _token_id(user: User) -> int | None:
    credential = access.credential_of(user)
    return None if credential is None else credential.token_id


def update_endpoint(
    *, endpoint: WebhookEndpoint, fields: Mapping[str, Any], actor: User
) -> WebhookEndpoint:
    """Change some of name, url, events, include_data, enabled; raise InvalidRequest.

    A new URL binds the endpoint to the actor's token: the endpoint works as long as that token, or
    without an end if the actor has no token. The unchanged URL keeps the binding, unless the token
    of the endpoint has ended.
    """
    values = _validated(fields)
    with transaction.atomic():
        row = _locked(endpoint)
        if "url" in values and (row.url != values["url"] or _token_has_ended(row)):
            values["token_id"] = _token_id(actor)
        if values:
            WebhookEndpoint.objects.filter(pk=row.pk).update(**values)
            work_hints.announce_work()
        endpoint.refresh_from_db()
    return endpoint


def _locked(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    """Read the endpoint and lock it until the end of the transaction.

    Raises Http404 for an endpoint that was deleted meanwhile.
    """
    rows = WebhookEndpoint.objects.select_for_update(of=("self",)).select_related("token__user")
    row = rows.filter(pk=endpoint.pk).first()
    if row is None:
        raise Http404
    return row


def _token_has_ended(endpoint: WebhookEndpoint) -> bool:
    """Whether the token that set the URL is revoked or expired."""
    return endpoint.token is not None and is_over(endpoint.token)


def delete_endpoint(*, endpoint: WebhookEndpoint) -> None:
    """Delete the endpoint and its deliveries; a request in progress may still arrive."""
    endpoint.delete()


def rotate_secret(*, endpoint: WebhookEndpoint, actor: User) -> str:
    """Create a new secret and return it; the previous one stays valid for a while.

    Raises PermissionDenied for a token that did not set the URL, unless it has the scope `admin`.
    """
    secret = new_secret()
    credential = access.credential_of(actor)
    with transaction.atomic():
        row = _locked(endpoint)
        if credential is not None and not _may_rotate(row, credential):
            message = "A token can rotate secrets only of endpoints whose URL it set."
            raise PermissionDenied(message)
        WebhookEndpoint.objects.filter(pk=row.pk).update(
            secret=encrypt(secret),
            previous_secret=row.secret,
            previous_until=Now() + timedelta(seconds=conf.webhook_rotation_seconds()),
        )
        endpoint.refresh_from_db()
    return secret


def _may_rotate(endpoint: WebhookEndpoint, credential: access.Credential) -> bool:
    return endpoint.token_id == credential.token_id or "admin" in credential.scopes


def resume_endpoint(*, endpoint: WebhookEndpoint, skip: bool = False) -> WebhookEndpoint:
    """Resume a parked or disabled endpoint; with `skip`, drop everything up to now."""
    with transaction.atomic():
        _locked(endpoint)
        WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
            enabled=True,
            failures=0,
            retry_at=None,
            parked_at=None,
            **reason_fields("parked_reason", None),
        )
        if skip:
            _skip_pending(endpoint)
        else:
            _pending(endpoint).update(attempts=0, next_at=Now())
        work_hints.announce_work()
        endpoint.refresh_from_db()
    return endpoint


def _pending(endpoint: WebhookEndpoint) -> QuerySet[WebhookDelivery]:
    return WebhookDelivery.objects.filter(endpoint=endpoint, status=Status.PENDING)


def _skip_pending(endpoint: WebhookEndpoint) -> None:
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(cursor=_newest_event_id())
    note = [{"at": None, "status": None, "error": SKIPPED, "ms": 0, "response": ""}]
    withheld = {"status": Status.WITHHELD, "finished_at": Now(), "log": note}
    _pending(endpoint).update(**withheld)


def ping(*, endpoint: WebhookEndpoint) -> WebhookDelivery:
    """Queue a test message; raise Refused for a blocked endpoint."""
    _require_running(endpoint)
    with transaction.atomic():
        delivery = WebhookDelivery.objects.create(
            endpoint=_locked(endpoint), message_id=f"{PING}_{uuid.uuid4().hex}", type=PING
        )
        work_hints.announce_work()
        delivery.refresh_from_db()
    return delivery


def redeliver(*, delivery: WebhookDelivery) -> WebhookDelivery:
    """Queue a delivery again, before later ones of its lane; raise Refused if it is pending."""
    _require_running(delivery.endpoint)
    updated = (
        WebhookDelivery.objects.filter(pk=delivery.pk)
        .exclude(status=Status.PENDING)
        .update(status=Status.PENDING, attempts=0, next_at=Now(), finished_at=None)
    )
    if not updated:
        raise Refused("on_its_way", Reason("delivery_pending"))
    work_hints.announce_work()
    delivery.refresh_from_db()
    return delivery


def _require_running(endpoint: WebhookEndpoint) -> None:
    reason = standing(endpoint)
    if reason:
        raise Refused("not_running", Reason("endpoint_blocked", {"reason": reason}))


def standing(endpoint: WebhookEndpoint) -> Reason | None:
    """Return why nothing is sent to an endpoint; None if events are sent."""
    if endpoint.parked_at is not None:
        stored = load_reason(endpoint.parked_reason_code, endpoint.parked_reason_params)
        return Reason("endpoint_parked", {"problem": stored or endpoint.parked_reason})
    if not endpoint.enabled:
        return Reason("endpoint_disabled")
    if not endpoint.owner.is_active:
        return Reason("endpoint_owner_disabled")
    if not access.may_subscribe(endpoint.owner):
        return Reason("endpoint_owner_roles")
    if _token_has_ended(endpoint):
        return Reason("endpoint_token_ended")
    return None


def _newest_event_id() -> int:
    return ExecutionEvent.objects.aggregate(newest=Max("pk"))["newest"] or 0


def _validated(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = ("name", "url", "events", "include_data", "enabled")
    values = {key: fields[key] for key in known if key in fields}
    problems = []
    if "name" in values and not 0 < len(values["name"].strip()) <= 100:
        problems.append(Problem("name", "required", "enter a name of 1 to 100 characters"))
    problem = url_problem(values["url"]) if "url" in values else ""
    if problem:
        problems.append(Problem("url", "address", problem))
    unknown = sorted(set(values.get("events", ())) - set(WIRE_TYPES))
    if unknown:
        message = f"there is no event {unknown[0]!r}; choose from: {', '.join(WIRE_TYPES)}"
        problems.append(Problem("events", "unknown_event", message))
    if problems:
        raise InvalidRequest(tuple(problems))
    if "events" in values:
        values["events"] = sorted(set(values["events"]))
    return values


def delete_old_deliveries() -> int:
    """Delete deliveries that finished `webhook_keep_days` ago; return how many."""
    end = Now() - timedelta(days=KEEP_DAYS)
    old = without_legal_hold(WebhookDelivery.objects.filter(finished_at__lt=end))
    ids = list(old.values_list("pk", flat=True)[:_DELETE_BATCH])
    if ids:
        WebhookDelivery.objects.filter(pk__in=ids).delete()
    return len(ids)
