"""Webhook endpoints and their deliveries."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.masked_fields import MaskedCharField


class WebhookEndpoint(models.Model):
    """A URL that is notified about the executions its owner may see.

    `cursor` is the newest journal entry that was processed for it, so that a restart loses nothing.
    Secrets are encrypted with SECRET_KEY.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    #: The token that last set the URL; the endpoint shares its workflow limit and its end.
    token = models.ForeignKey(
        "workflows.ApiToken",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="endpoints",
        editable=False,
    )
    name = MaskedCharField(max_length=100)
    url = models.CharField(max_length=2000)
    # Wire types of events; an empty list means all of them.
    events = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    include_data = models.BooleanField(default=False)
    enabled = models.BooleanField(default=True)
    secret = models.TextField()
    # The secret before the last rotation also signs until `previous_until`.
    previous_secret = models.TextField(default="", blank=True)
    previous_until = models.DateTimeField(null=True, blank=True)
    cursor = models.BigIntegerField(default=0)
    # Failures since the last success; after too many, the endpoint is parked until resumed.
    failures = models.IntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    parked_at = models.DateTimeField(null=True, blank=True)
    # English text, code and parameters of a `workflows.engine.values.reasons.Reason`.
    parked_reason = models.TextField(default="", blank=True)
    parked_reason_code = models.CharField(max_length=40, default="", blank=True, db_default="")
    parked_reason_params = models.JSONField(default=dict, blank=True, db_default={})
    last_success_at = models.DateTimeField(null=True, blank=True)
    last_failure_at = models.DateTimeField(null=True, blank=True)
    last_error = models.TextField(default="", blank=True)
    # The lease of the sender that delivers to this endpoint.
    lease_owner = models.CharField(max_length=100, default="", db_default="", blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["owner", "-id"], name="webhook_by_owner")]

    def __str__(self) -> str:
        return self.name


class WebhookDelivery(models.Model):
    """The delivery of one event to one endpoint.  A test message has no event and no execution."""

    class Status(models.TextChoices):
        PENDING = "PENDING", "on its way"
        DELIVERED = "DELIVERED", "delivered"
        FAILED = "FAILED", "given up"
        WITHHELD = "WITHHELD", "not sent"

    endpoint = models.ForeignKey(
        WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries"
    )
    event = models.ForeignKey(
        "workflows.ExecutionEvent",
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        # Retention deletes events with their deliveries; checking each would scan the table.
        db_constraint=False,
    )
    execution = models.ForeignKey(
        "workflows.Execution",
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
    )
    message_id = models.CharField(max_length=64)
    type = models.CharField(max_length=40)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.PENDING)
    attempts = models.IntegerField(default=0)
    next_at = models.DateTimeField(db_default=Now())
    # The newest attempts: at, status, error, ms, response.
    log = models.JSONField(default=list)
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "webhook deliveries"
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "event"], name="webhook_event_once"),
        ]
        indexes = [
            models.Index(fields=["endpoint", "-id"], name="webhook_delivery_newest"),
            models.Index(
                fields=["endpoint", "execution", "event"],
                condition=Q(status="PENDING"),
                name="webhook_delivery_waits",
            ),
            models.Index(fields=["finished_at"], name="webhook_delivery_finished"),
            models.Index(fields=["execution"], name="webhook_delivery_of_run"),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} {self.status}"
