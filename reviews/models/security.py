"""Security events for a SIEM, and how far each destination has received them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class SecurityEvent(models.Model):
    """A security event.  Triggers write it in the transaction of the event: those of `_sql.py` of
    the migrations and, where second factors are enabled, one of `config.auth.second_factor`.

    The exporter numbers events with `position` after their commit, so that an event of a long
    transaction never gets a position that a destination has passed already.
    """

    class Kind(models.TextChoices):
        SIGN_IN = "sign_in", "sign-in"
        SIGN_IN_FAILED = "sign_in_failed", "failed sign-in"
        SIGN_IN_LOCKED = "sign_in_locked", "sign-in limit reached"
        SIGN_OUT = "sign_out", "sign-out"
        FACTOR_ADDED = "factor_added", "second factor set up"
        FACTOR_REMOVED = "factor_removed", "second factor removed"
        DECISION = "decision", "decision"
        DENIED = "denied", "denied decision"
        REVEALED = "revealed", "revealed value"
        GRANTED = "granted", "grant"
        GRANT_REVOKED = "grant_revoked", "grant revoked"
        TOKEN_CREATED = "token_created", "token created"
        TOKEN_REVOKED = "token_revoked", "token revoked"
        CLIENT_REGISTERED = "client_registered", "OAuth client registered"
        CLIENT_DELETED = "client_deleted", "OAuth client deleted"
        WORKFLOW_SAVED = "workflow_saved", "workflow saved"
        RULES_PUBLISHED = "rules_published", "review rules published"
        CHANGED = "changed", "logged change"
        RETENTION_SET = "retention_set", "retention policy set"
        RETENTION_DELETED = "retention_deleted", "retention policy deleted"
        LEGAL_HOLD_PLACED = "legal_hold_placed", "legal hold placed"
        LEGAL_HOLD_LIFTED = "legal_hold_lifted", "legal hold lifted"
        RUNS_ERASED = "runs_erased", "runs erased"

    kind = models.CharField(max_length=20, choices=Kind.choices)
    at = models.DateTimeField("time", db_default=Now())
    # The person, as the source of the event names them; "" if it names nobody.
    actor = models.CharField(max_length=255, blank=True, default="", db_default="")
    address = models.CharField(max_length=45, blank=True, default="", db_default="")
    details = models.JSONField(default=dict)
    position = models.BigIntegerField(null=True, unique=True)

    class Meta:
        ordering = ("-id",)
        indexes = [
            models.Index(fields=["id"], condition=Q(position=None), name="security_event_new"),
            models.Index(fields=["at"], name="security_event_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.pk}"


class SecurityExport(models.Model):
    """A destination of security events: the last one that it received, and its last error."""

    name = models.CharField(max_length=10, primary_key=True)
    position = models.BigIntegerField(default=0, db_default=0)
    sent_at = models.DateTimeField("last sent", null=True)
    failures = models.IntegerField(default=0, db_default=0)
    retry_at = models.DateTimeField("next attempt", null=True)
    error = models.TextField("last error", blank=True, default="", db_default="")

    class Meta:
        ordering = ("name",)
        verbose_name = "destination of security events"
        verbose_name_plural = "destinations of security events"

    def __str__(self) -> str:
        return self.name
