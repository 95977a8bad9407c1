"""Web push: the server's key, the browsers that subscribed, and the messages to them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from .notifications import NoticeKind


class PushKey(models.Model):
    """The key pair with which this installation identifies itself (VAPID); one row."""

    # Encrypted with SECRET_KEY; PEM.
    private_key = models.TextField()
    public_key = models.TextField()
    # The public key as browsers take it.
    application_key = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.application_key


class PushSubscription(models.Model):
    """A browser of a user that takes messages."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="push_subscriptions"
    )
    label = models.CharField(max_length=100, blank=True, default="")
    # SHA-256 of the address.
    digest = models.CharField(max_length=64, unique=True)
    # Encrypted with SECRET_KEY, because knowing the address is enough to send to it.
    address = models.TextField()
    # The browser's keys, encrypted: {"p256dh", "auth"} as JSON.
    keys = models.TextField()
    created_at = models.DateTimeField(db_default=Now())
    last_success_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True, default="", db_default="")

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.label or f"browser {self.pk}"


class PushMessage(models.Model):
    """One notice to one browser.  Also its own outbox, as `SlackMessage` is."""

    class Status(models.TextChoices):
        PENDING = "PENDING", "on its way"
        SENT = "SENT", "sent"
        DROPPED = "DROPPED", "nothing was left to tell"
        FAILED = "FAILED", "given up"

    subscription = models.ForeignKey(PushSubscription, on_delete=models.CASCADE, related_name="+")
    hold = models.ForeignKey("workflows.Hold", on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=12, choices=NoticeKind.choices)
    key = models.CharField(max_length=120)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.PENDING)
    attempts = models.IntegerField(default=0, db_default=0)
    next_at = models.DateTimeField(db_default=Now())
    error = models.TextField(blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(fields=["subscription", "key"], name="push_message_once"),
        ]
        indexes = [
            models.Index(
                fields=["next_at"], condition=Q(status="PENDING"), name="push_message_due"
            ),
            models.Index(fields=["finished_at"], name="push_message_finished"),
        ]

    def __str__(self) -> str:
        return f"push message {self.pk} {self.status}"
