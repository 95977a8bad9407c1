"""Finished deliveries are shown for a while, then forgotten."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now

from workflows import conf
from workflows.models import WebhookDelivery

_AT_ONCE = 5000


def forget_old() -> int:
    """Delete deliveries that ended long ago; how many."""
    end = Now() - timedelta(days=conf.webhook_keep_days())
    old = WebhookDelivery.objects.filter(finished_at__lt=end).values_list("pk", flat=True)
    ids = list(old[:_AT_ONCE])
    if ids:
        WebhookDelivery.objects.filter(pk__in=ids).delete()
    return len(ids)
