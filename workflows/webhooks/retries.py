"""Record the outcome of an attempt: delivered, retried later, failed, or endpoint parked."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from workflows import conf
from workflows.engine.values.reasons import Reason, reason_fields
from workflows.metrics import counters as metrics_counters
from workflows.models import WebhookDelivery, WebhookEndpoint

from .attempts import Outcome

Status = WebhookDelivery.Status
#: Consecutive failures after which an endpoint gets single attempts with a backoff.
BACKOFF_AFTER = 5
_MAX_LOG_ENTRIES = 10


def backoff_seconds(failures: int, *, at_least: float | None = None) -> float:
    """Return the wait after the nth failure: exponential, bounded, with jitter of up to half.

    The jitter spreads the retries of deliveries that failed at the same time.
    """
    longest = conf.webhook_max_backoff_seconds()
    wait = min(longest, conf.webhook_backoff_seconds() * 2.0 ** min(failures - 1, 30))
    wait *= random.uniform(0.5, 1.0)  # noqa: S311 - not used for security
    return max(wait, min(at_least or 0.0, longest))


def record_outcome(outcome: Outcome, *, sender: str) -> bool:
    """Record an outcome; return False if `sender` no longer holds the endpoint.

    The delivery stays pending in that case, and the sender that holds the endpoint sends it again.
    """
    with transaction.atomic():
        endpoint = (
            WebhookEndpoint.objects.select_for_update()
            .filter(pk=outcome.message.endpoint_id, lease_owner=sender, lease_until__gt=Now())
            .first()
        )
        if endpoint is None:
            return False
        rows = WebhookDelivery.objects.filter(pk=outcome.message.delivery_id, status=Status.PENDING)
        delivery = rows.first()
        if delivery is not None:
            rows.update(**_delivery_after(delivery, outcome))
        changes = _endpoint_after(endpoint, outcome)
        WebhookEndpoint.objects.filter(pk=endpoint.pk).update(**changes)
        metrics_counters.add(
            {("webhook_attempts", "delivered" if outcome.delivered else "failed"): 1}
        )
    return True


def _delivery_after(delivery: WebhookDelivery, outcome: Outcome) -> dict[str, Any]:
    attempts = delivery.attempts + 1
    changes = {"attempts": attempts, "log": [*delivery.log, _entry(outcome)][-_MAX_LOG_ENTRIES:]}
    if outcome.delivered:
        return {**changes, "status": Status.DELIVERED, "finished_at": Now()}
    if attempts >= conf.webhook_max_attempts():
        return {**changes, "status": Status.FAILED, "finished_at": Now()}
    wait = backoff_seconds(attempts, at_least=outcome.retry_after)
    return {**changes, "next_at": Now() + timedelta(seconds=wait)}


def _entry(outcome: Outcome) -> dict[str, Any]:
    return {
        "at": timezone.now().isoformat(),
        "status": outcome.status,
        "error": outcome.error,
        "ms": outcome.ms,
        "response": outcome.response,
    }


def _endpoint_after(endpoint: WebhookEndpoint, outcome: Outcome) -> dict[str, Any]:
    if outcome.delivered:
        return {"failures": 0, "retry_at": None, "last_success_at": Now()}
    failures = endpoint.failures + 1
    changes: dict[str, Any] = {
        "failures": failures,
        "last_failure_at": Now(),
        "last_error": outcome.error,
    }
    if outcome.is_gone:
        return {**changes, **parked(Reason("receiver_gone"))}
    if failures >= conf.webhook_park_after():
        reason = Reason("tries_failed", {"failures": failures, "error": outcome.error})
        return {**changes, **parked(reason)}
    if failures >= BACKOFF_AFTER:
        wait = backoff_seconds(failures - BACKOFF_AFTER + 1, at_least=outcome.retry_after)
        changes["retry_at"] = Now() + timedelta(seconds=wait)
    return changes


def parked(reason: Reason) -> dict[str, Any]:
    """Return the changes that park an endpoint."""
    return {"parked_at": Now(), **reason_fields("parked_reason", reason)}


def withhold(delivery: WebhookDelivery, reason: str) -> None:
    """Mark a delivery as never to be sent: the owner may no longer see the execution."""
    entry = {"at": timezone.now().isoformat(), "status": None, "error": reason, "ms": 0}
    WebhookDelivery.objects.filter(pk=delivery.pk, status=Status.PENDING).update(
        status=Status.WITHHELD, finished_at=Now(), log=[*delivery.log, {**entry, "response": ""}]
    )
