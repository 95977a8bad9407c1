"""What a try means for its delivery and its endpoint: done, again later, given up, parked."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from workflows import conf
from workflows.metrics import counters as metrics_counters
from workflows.models import WebhookDelivery, WebhookEndpoint

from .attempts import Outcome

Status = WebhookDelivery.Status
#: Failures in a row after which an endpoint gets one try at a time, with waits in between.
DOUBTFUL_AFTER = 5
_LOGGED = 10


def backoff_seconds(failures: int, *, at_least: float | None = None) -> float:
    """The wait after the nth failure: doubling, bounded, and somewhere in its upper half.

    The jitter keeps what failed together from coming back together.
    """
    most = conf.webhook_max_backoff_seconds()
    wait = min(most, conf.webhook_backoff_seconds() * 2.0 ** min(failures - 1, 30))
    wait *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret
    return max(wait, min(at_least or 0.0, most))


def record(outcome: Outcome, *, sender: str) -> bool:
    """Write down what came of a try; False when `sender` no longer holds the endpoint.

    Nothing is lost then: the delivery still waits, and whoever holds the endpoint sends it again.
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
    changes = {"attempts": attempts, "log": [*delivery.log, _entry(outcome)][-_LOGGED:]}
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
        reason = "the receiver answered 410 Gone: it wants nothing more"
        return {**changes, "parked_at": Now(), "parked_reason": reason}
    if failures >= conf.webhook_park_after():
        reason = f"{failures} tries in a row failed, the last with: {outcome.error}"
        return {**changes, "parked_at": Now(), "parked_reason": reason}
    if failures >= DOUBTFUL_AFTER:
        wait = backoff_seconds(failures - DOUBTFUL_AFTER + 1, at_least=outcome.retry_after)
        changes["retry_at"] = Now() + timedelta(seconds=wait)
    return changes


def withhold(delivery: WebhookDelivery, reason: str) -> None:
    """Never to be sent: the owner may not see the execution any more."""
    entry = {"at": timezone.now().isoformat(), "status": None, "error": reason, "ms": 0}
    WebhookDelivery.objects.filter(pk=delivery.pk, status=Status.PENDING).update(
        status=Status.WITHHELD, finished_at=Now(), log=[*delivery.log, {**entry, "response": ""}]
    )
