"""Rows for what leaves the product (webhooks), what is measured (totals), what was asked of it."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class WebhookEndpoint(models.Model):
    """An address of somebody's own that is told what happens to the executions they may see.

    `cursor` is the newest journal entry that was looked at for it, so that nothing is lost in a
    restart.  Secrets are sealed with SECRET_KEY.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    #: The token that last set the address: the endpoint has its limit and ends with it.
    token = models.ForeignKey(
        "workflows.ApiToken",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="endpoints",
        editable=False,
    )
    name = models.CharField(max_length=100)
    url = models.CharField(max_length=2000)
    # Wire types; an empty list stands for all of them.
    events = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    include_data = models.BooleanField(default=False)
    enabled = models.BooleanField(default=True)
    secret = models.TextField()
    # The secret before the last rotation signs as well until then.
    previous_secret = models.TextField(default="", blank=True)
    previous_until = models.DateTimeField(null=True, blank=True)
    cursor = models.BigIntegerField(default=0)
    # Failures since the last success; after too many the endpoint is parked until resumed.
    failures = models.IntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    parked_at = models.DateTimeField(null=True, blank=True)
    parked_reason = models.TextField(default="", blank=True)
    last_success_at = models.DateTimeField(null=True, blank=True)
    last_failure_at = models.DateTimeField(null=True, blank=True)
    last_error = models.TextField(default="", blank=True)
    # One sender at a time works for an endpoint.
    lease_owner = models.CharField(max_length=100, default="", db_default="", blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["owner", "-id"], name="webhook_by_owner")]

    def __str__(self) -> str:
        return self.name


class WebhookDelivery(models.Model):
    """One event on its way to one endpoint.  A test message has no event and no execution."""

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
    # The newest tries: at, status, error, ms, response.
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
        ]

    def __str__(self) -> str:
        return f"{self.message_id} {self.status}"


class EventCursor(models.Model):
    """How far a reader of all journals has come: the newest entry it has looked at."""

    name = models.CharField(max_length=40, primary_key=True)
    event = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} at {self.event}"


class Total(models.Model):
    """A number that only grows, for /metrics: `name` and one `label` value."""

    name = models.CharField(max_length=60)
    label = models.CharField(max_length=60, default="", blank=True)
    value = models.FloatField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "label"], name="total_once")]

    def __str__(self) -> str:
        return f"{self.name}{{{self.label}}} {self.value:g}"


class QueuedCommand(models.Model):
    """A command that came while a worker held the lease; applied at the next boundary."""

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.PROTECT, related_name="commands"
    )
    command = models.JSONField()
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=20)
    created_at = models.DateTimeField(db_default=Now())
    taken_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["execution", "id"], condition=Q(taken_at__isnull=True), name="command_waits"
            ),
        ]
        ordering = ("id",)

    def __str__(self) -> str:
        return f"command {self.pk}"


class CommandLog(models.Model):
    """Every command that came in: who, when, from where, and what became of it."""

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.PROTECT, related_name="command_log"
    )
    kind = models.CharField(max_length=30)
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=20)
    outcome = models.CharField(max_length=10)
    detail = models.TextField(default="", blank=True)
    version = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.kind}: {self.outcome}"


class IdempotencyKey(models.Model):
    """The answer given to a request, so that its repetition gets the same one."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # Of the caller: another token, or the same one with another limit, is never given its answers.
    credential = models.CharField(max_length=64, default="", db_default="")
    key = models.CharField(max_length=200)
    route = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64)
    status = models.IntegerField(null=True)
    answer = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "credential", "key", "route"], name="idempotency_key_once"
            ),
        ]
        # The sweeper looks for old ones each round.
        indexes = [models.Index(fields=["created_at"], name="idempotency_key_by_time")]

    def __str__(self) -> str:
        return self.key


class ApiToken(models.Model):
    """A bearer token.  Only its SHA-256 is kept; the token itself is shown once."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100, blank=True, default="")
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=20))
    #: Ids, no rows of a join table: a workflow that is removed must not make the token see all.
    only_workflows = ArrayField(models.BigIntegerField(), null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    #: The token that made this one, which is revoked with it.
    made_by = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="+", editable=False
    )
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.user})"


class SignInAlert(models.Model):
    """A limit on sign-ins was reached: admins find it here, and the sweeper mails it to them."""

    class Kind(models.TextChoices):
        ACCOUNT_AND_ADDRESS = "account_and_address", "account from one address"
        ADDRESS = "address", "address"
        ACCOUNT = "account", "account"
        TOKENS = "tokens", "unknown API tokens"

    kind = models.CharField(max_length=20, choices=Kind.choices)
    # What was typed: there need not be an account of this name.
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

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.account or self.address}"


class UnknownTokens(models.Model):
    """How many unknown API tokens an address sent since the start of its window."""

    address = models.CharField(max_length=45, primary_key=True)
    failures = models.IntegerField()
    since = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.address}: {self.failures}"


class LearningAttempt(models.Model):
    """A worker learns from an ended run, or was lost over it; the row goes when it is done.

    Counted outside the transaction of learning, so that a killed worker leaves its attempt behind.
    """

    execution = models.OneToOneField("Execution", models.CASCADE, primary_key=True)
    attempts = models.IntegerField()
    begun_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.execution_id}: {self.attempts}"
