"""What people do with their endpoints and deliveries.  REST, pages and admin call these."""

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

from workflows import conf
from workflows.common.secret_encryption import encrypt
from workflows.engine.decide import Refused
from workflows.engine.plan_validation import Problem
from workflows.executions import access
from workflows.executions.validation import InvalidRequest
from workflows.models import ExecutionEvent, WebhookDelivery, WebhookEndpoint
from workflows.permissions.tokens import is_over
from workflows.realtime.event_serialization import WIRE_TYPES

from .addresses import url_problem
from .payload import PING
from .signing import new_secret

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Status = WebhookDelivery.Status
#: Deliveries that one call of `delete_old_deliveries` deletes.
_DELETE_BATCH = 5000
SKIPPED = "skipped when the endpoint was resumed"


def visible_endpoints(user: User) -> QuerySet[WebhookEndpoint]:
    """The endpoints this user may see and change: their own; an admin everybody's."""
    rows = WebhookEndpoint.objects.select_related("owner", "token__user")
    only = access.allowed_workflow_ids(user)
    if only is not None:
        # What a limited token may read and change tells of its own workflows only.
        rows = rows.filter(token__only_workflows__contained_by=sorted(only))
    return rows if access.ADMIN in access.roles_of(user) else rows.filter(owner=user)


def visibility_user(endpoint: WebhookEndpoint) -> User:
    """The owner with the limit of the endpoint's token: sees what the endpoint may tell of."""
    if endpoint.token is None:
        return endpoint.owner
    return access.limit_to_workflows(endpoint.owner, endpoint.token.only_workflows)


def create_endpoint(*, owner: User, fields: Mapping[str, Any]) -> tuple[WebhookEndpoint, str]:
    """A new endpoint, told of everything from now on, and its secret.

    `fields`: name, url, events (wire types; none for all), include_data, enabled.  Raises
    InvalidRequest naming the fields at fault.
    """
    wanted = _checked(fields)
    secret = new_secret()
    with transaction.atomic():
        _lock(owner)
        if WebhookEndpoint.objects.filter(owner=owner).count() >= conf.webhook_max_endpoints():
            most = conf.webhook_max_endpoints()
            message = f"you have {most} endpoints, which is the most; delete one first"
            raise InvalidRequest((Problem("name", "too_many", message),))
        endpoint = WebhookEndpoint.objects.create(
            owner=owner,
            token_id=_token_id(owner),
            secret=encrypt(secret),
            cursor=_newest(),
            **wanted,
        )
    endpoint.refresh_from_db()
    return endpoint, secret


def _lock(owner: User) -> None:
    """Two requests of one person count one after the other."""
    list(get_user_model().objects.select_for_update().filter(pk=owner.pk).values_list("pk"))


def _token_id(user: User) -> int | None:
    credential = access.credential_of(user)
    return None if credential is None else credential.token_id


def update_endpoint(
    *, endpoint: WebhookEndpoint, fields: Mapping[str, Any], actor: User
) -> WebhookEndpoint:
    """Change some of name, url, events, include_data, enabled; raises InvalidRequest.

    Who sets another address answers for it: the endpoint then lasts as long as the actor's token,
    or has no such end when the actor came without one. The address it has already changes nothing
    of that, unless the endpoint's token has ended.
    """
    wanted = _checked(fields)
    with transaction.atomic():
        row = _locked(endpoint)
        if "url" in wanted and (row.url != wanted["url"] or _is_orphan(row)):
            wanted["token_id"] = _token_id(actor)
        if wanted:
            WebhookEndpoint.objects.filter(pk=row.pk).update(**wanted)
    endpoint.refresh_from_db()
    return endpoint


def _locked(endpoint: WebhookEndpoint) -> WebhookEndpoint:
    """The endpoint as it is now, until the transaction ends."""
    rows = WebhookEndpoint.objects.select_for_update(of=("self",)).select_related("token__user")
    return rows.get(pk=endpoint.pk)


def _is_orphan(endpoint: WebhookEndpoint) -> bool:
    """Whether the token that set the address has ended."""
    return endpoint.token is not None and is_over(endpoint.token)


def delete_endpoint(*, endpoint: WebhookEndpoint) -> None:
    """The endpoint and its deliveries are gone; what is on its way may still arrive."""
    endpoint.delete()


def rotate_secret(*, endpoint: WebhookEndpoint, actor: User) -> str:
    """A new secret; the one before signs as well for a while, an older one no more.

    Raises PermissionDenied for a token that did not set the address, unless it has the scope
    `admin`.
    """
    secret = new_secret()
    credential = access.credential_of(actor)
    with transaction.atomic():
        row = _locked(endpoint)
        if credential is not None and not _may_rotate(row, credential):
            message = "A token makes new secrets only for endpoints whose address it set."
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
    """Go on from where it stopped; with `skip`, leave out all that happened until now."""
    with transaction.atomic():
        WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
            enabled=True, failures=0, retry_at=None, parked_at=None, parked_reason=""
        )
        if skip:
            _skip_waiting(endpoint)
        else:
            _waiting(endpoint).update(attempts=0, next_at=Now())
    endpoint.refresh_from_db()
    return endpoint


def _waiting(endpoint: WebhookEndpoint) -> QuerySet[WebhookDelivery]:
    return WebhookDelivery.objects.filter(endpoint=endpoint, status=Status.PENDING)


def _skip_waiting(endpoint: WebhookEndpoint) -> None:
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(cursor=_newest())
    note = [{"at": None, "status": None, "error": SKIPPED, "ms": 0, "response": ""}]
    withheld = {"status": Status.WITHHELD, "finished_at": Now(), "log": note}
    _waiting(endpoint).update(**withheld)


def ping(*, endpoint: WebhookEndpoint) -> WebhookDelivery:
    """Send a test message, soon; raises Refused for an endpoint that is sent nothing."""
    _require_running(endpoint)
    delivery = WebhookDelivery.objects.create(
        endpoint=endpoint, message_id=f"{PING}_{uuid.uuid4().hex}", type=PING
    )
    delivery.refresh_from_db()
    return delivery


def redeliver(*, delivery: WebhookDelivery) -> WebhookDelivery:
    """Send it once more, before what waits behind it; raises Refused when it is on its way."""
    _require_running(delivery.endpoint)
    found = (
        WebhookDelivery.objects.filter(pk=delivery.pk)
        .exclude(status=Status.PENDING)
        .update(status=Status.PENDING, attempts=0, next_at=Now(), finished_at=None)
    )
    if not found:
        raise Refused("on_its_way", "This delivery is on its way already.")
    delivery.refresh_from_db()
    return delivery


def _require_running(endpoint: WebhookEndpoint) -> None:
    words = standing(endpoint)
    if words:
        raise Refused("not_running", f"Nothing is sent to this endpoint: {words}.")


def standing(endpoint: WebhookEndpoint) -> str:
    """Why nothing is sent to an endpoint, in words; "" when events are."""
    if endpoint.parked_at is not None:
        return f"it is parked, because {endpoint.parked_reason}"
    if not endpoint.enabled:
        return "it is switched off"
    if not endpoint.owner.is_active:
        return "its owner's account is switched off"
    if not access.may_subscribe(endpoint.owner):
        return "its owner's roles no longer allow webhooks"
    if _is_orphan(endpoint):
        return "the token that set its address has ended; set the address again"
    return ""


def _newest() -> int:
    return ExecutionEvent.objects.aggregate(newest=Max("pk"))["newest"] or 0


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = ("name", "url", "events", "include_data", "enabled")
    wanted = {key: fields[key] for key in known if key in fields}
    problems = []
    if "name" in wanted and not 0 < len(wanted["name"].strip()) <= 100:
        problems.append(Problem("name", "required", "give it a name of 1 to 100 characters"))
    fault = url_problem(wanted["url"]) if "url" in wanted else ""
    if fault:
        problems.append(Problem("url", "address", fault))
    unknown = sorted(set(wanted.get("events", ())) - set(WIRE_TYPES))
    if unknown:
        words = f"there is no event {unknown[0]!r}; there are: {', '.join(WIRE_TYPES)}"
        problems.append(Problem("events", "unknown_event", words))
    if problems:
        raise InvalidRequest(tuple(problems))
    if "events" in wanted:
        wanted["events"] = sorted(set(wanted["events"]))
    return wanted


def delete_old_deliveries() -> int:
    """Delete deliveries that finished `webhook_keep_days` ago; return how many."""
    end = Now() - timedelta(days=conf.webhook_keep_days())
    old = WebhookDelivery.objects.filter(finished_at__lt=end).values_list("pk", flat=True)
    ids = list(old[:_DELETE_BATCH])
    if ids:
        WebhookDelivery.objects.filter(pk__in=ids).delete()
    return len(ids)
