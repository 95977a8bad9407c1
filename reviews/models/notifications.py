"""Notices, notification preferences, chat hooks, and outgoing messages."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.masked_fields import MaskedCharField


class NoticeKind(models.TextChoices):
    """Kinds of notices."""

    WAITING = "waiting", "a review waits for me or my group"
    REMINDER = "reminder", "a review still waits"
    ESCALATED = "escalated", "a review is escalated to me"
    DECIDED = "decided", "a run of mine was decided"
    MISMATCH = "mismatch", "an action that I approved was run with other arguments"
    CLAIM_GIVEN = "claim_given", "a review is given to me"
    CLAIM_TAKEN = "claim_taken", "my claim is given to somebody else"
    CLAIM_ENDED = "claim_ended", "my claim runs out"


class Notice(models.Model):
    """A notice of one user; no other user sees it.

    `key` identifies the event, so that a user is notified of it once.  `detail` has labels and ids,
    never data under review.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices", db_index=False
    )
    kind = models.CharField(max_length=12, choices=NoticeKind.choices)
    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    hold = models.ForeignKey(
        "workflows.Hold", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    actor = models.CharField(max_length=150, blank=True, default="")
    detail = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    key = models.CharField(max_length=120)
    created_at = models.DateTimeField(db_default=Now())
    read_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="notice_once")]
        indexes = [
            models.Index(fields=["user", "-id"], name="notice_newest"),
            models.Index(fields=["user", "-id"], condition=Q(read_at=None), name="notice_unread"),
            models.Index(fields=["hold"], name="notice_by_hold"),
            models.Index(fields=["execution"], name="notice_by_run"),
            models.Index(fields=["created_at"], name="notice_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.hold_id}"


class NoticePreference(models.Model):
    """A user's notification preferences, where they differ from the defaults."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", primary_key=True
    )
    # Kinds that are not shown in the product, and kinds that are e-mailed.
    muted = ArrayField(models.CharField(max_length=12), default=list)
    mailed = ArrayField(models.CharField(max_length=12), default=list)
    # Kinds that are sent to linked Slack accounts; null for the defaults.
    messaged = ArrayField(models.CharField(max_length=12), null=True)

    def __str__(self) -> str:
        return f"preferences of {self.user_id}"


class ChatHook(models.Model):
    """A chat's incoming webhook for reviews of a workflow, of a group, or of all.

    With `user` it is the chat of one person, and gets that person's notifications only.
    """

    class Format(models.TextChoices):
        SLACK = "slack", "Slack and compatible chats"
        TEAMS = "teams", "Microsoft Teams (Adaptive Cards)"

    name = MaskedCharField(max_length=100)
    format = models.CharField(
        max_length=8, choices=Format.choices, default=Format.SLACK, db_default=Format.SLACK
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name="person",
    )
    # Encrypted with SECRET_KEY, because anybody with the URL can post to the chat.
    url = models.TextField()
    workflow = models.ForeignKey(
        "workflows.Workflow", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    group = models.ForeignKey(
        "auth.Group", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    kinds = ArrayField(models.CharField(max_length=12), default=list)
    enabled = models.BooleanField(default=True)
    last_success_at = models.DateTimeField(null=True, editable=False)
    last_failure_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(blank=True, default="", editable=False)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class NoticeMessage(models.Model):
    """An e-mail to a user or a post to a chat; it collects items until it is due.

    The outbox: written in the transaction of the event, claimed by a sender under a lease, sent at
    least once.
    `items` are {"kind", "hold", "key", "actor", "detail"}.
    """

    class Status(models.TextChoices):
        PENDING = "PENDING", "on its way"
        SENT = "SENT", "sent"
        DROPPED = "DROPPED", "nothing was left to tell"
        FAILED = "FAILED", "given up"

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    hook = models.ForeignKey(ChatHook, null=True, on_delete=models.CASCADE, related_name="+")
    items = models.JSONField(default=list, encoder=DjangoJSONEncoder)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.PENDING)
    # No items are added after a sender has claimed the message.
    closed = models.BooleanField(default=False, db_default=False)
    attempts = models.IntegerField(default=0, db_default=0)
    next_at = models.DateTimeField()
    error = models.TextField(blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=Q(user=None, hook__isnull=False) | Q(user__isnull=False, hook=None),
                name="message_has_one_receiver",
            ),
            models.UniqueConstraint(
                fields=["user"], condition=Q(closed=False), name="message_gathers_for_user"
            ),
            models.UniqueConstraint(
                fields=["hook"], condition=Q(closed=False), name="message_gathers_for_hook"
            ),
        ]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(status="PENDING"), name="message_due"),
            models.Index(fields=["finished_at"], name="message_finished"),
        ]
        verbose_name = "outgoing message"

    def __str__(self) -> str:
        return f"message {self.pk} {self.status}"
