"""Security events."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models.functions import Now

from workflows.common.guards import NoTruncate, Refuse


class SecurityEvent(models.Model):
    """Something that a security team wants to know of, such as a sign-in or a revealed value.

    Append-only: a trigger refuses changes, and deletions before `KEPT_AT_LEAST_DAYS`.
    `workflows.security_events.services` writes the rows.
    """

    #: Age in days below which the database deletes no event.
    KEPT_AT_LEAST_DAYS = 30

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
    # A name, not a foreign key: events outlive accounts, and the name of a failed sign-in is as
    # typed.  "" if nobody acted.
    actor = models.CharField(max_length=255, blank=True, default="")
    actor_id = models.BigIntegerField("user id", null=True)
    # What the event is about, as `type:id`.
    subject = models.CharField(max_length=255, blank=True, default="")
    # The client's address; of IPv6 the network.  "" if the event has none.
    address = models.CharField(max_length=45, blank=True, default="")
    details = models.JSONField(default=dict)

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["at"], name="security_event_time")]
        triggers = [
            Refuse(
                name="append_only",
                operation=pgtrigger.Update | pgtrigger.Delete,
                message="the table is append-only",
                unless="TG_OP = 'DELETE' AND OLD.at < now() - interval '30 days'",
            ),
            NoTruncate(),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.pk}"
