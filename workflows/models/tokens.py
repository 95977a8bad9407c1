"""API tokens, unknown tokens, and alerts about failed sign-ins."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.masked_fields import MaskedCharField


class ApiToken(models.Model):
    """A bearer token.  Only its SHA-256 is stored; the token itself is shown once."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = MaskedCharField(max_length=100, blank=True, default="")
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=20))
    #: Ids instead of a many-to-many relation: deleting a workflow must not remove the limit.
    only_workflows = ArrayField(models.BigIntegerField(), null=True, blank=True)
    #: Ids of the MCP gates that the token is limited to; such a token has only the scope `gate`.
    only_gates = ArrayField(models.BigIntegerField(), null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    #: The token that created this one; this one is revoked with it.
    made_by = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="+", editable=False
    )
    #: The OAuth client that has the token, and the consent by which it refreshes it; None for a
    #: token that a person made.  The token is deleted with the client.
    oauth_client = models.ForeignKey(
        settings.OAUTH2_PROVIDER_APPLICATION_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        editable=False,
    )
    oauth_family = models.UUIDField(null=True, unique=True, editable=False)
    #: SHA-256 of the authorization code that the client exchanged: a replay revokes the token.
    oauth_code_digest = models.CharField(  # noqa: DJ001 - unique, and other tokens have none
        max_length=64, null=True, unique=True, editable=False
    )
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.user})"


class UnknownTokens(models.Model):
    """The number of unknown API tokens that an address sent since `since`."""

    address = models.CharField(max_length=45, primary_key=True)
    failures = models.IntegerField()
    since = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.address}: {self.failures}"


class SignInAlert(models.Model):
    """An alert that a limit on failed sign-ins was reached; the sweeper mails it to admins."""

    class Kind(models.TextChoices):
        ACCOUNT_AND_ADDRESS = "account_and_address", "account from one address"
        ADDRESS = "address", "address"
        ACCOUNT = "account", "account"
        TOKENS = "tokens", "unknown API tokens"

    kind = models.CharField(max_length=20, choices=Kind.choices)
    # The name as entered; there may be no such account.
    account = models.CharField(max_length=255, blank=True, default="")
    address = models.CharField(max_length=45)
    failures = models.IntegerField()
    locked_until = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now())
    mailed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ("-id",)
        indexes = [
            models.Index(fields=["id"], condition=Q(mailed_at=None), name="sign_in_alert_unmailed")
        ]
        verbose_name = "sign-in alert"

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.account or self.address}"
