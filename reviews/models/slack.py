"""Slack workspaces: their channels, linked accounts, and messages with buttons."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.crypto import constant_time_compare

from .notifications import NoticeKind


class SlackWorkspace(models.Model):
    """A Slack workspace with the app that posts reviews and sends the buttons that are pressed.

    Both secrets are encrypted with SECRET_KEY.
    """

    name = models.CharField(max_length=100)
    team_id = models.CharField("team ID", max_length=32, unique=True)
    bot_token = models.TextField()
    signing_secret = models.TextField()
    enabled = models.BooleanField(default=True)
    last_success_at = models.DateTimeField(null=True, editable=False)
    last_failure_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(blank=True, default="", editable=False)

    class Meta:
        ordering = ("name",)
        verbose_name = "Slack workspace"

    def __str__(self) -> str:
        return self.name


class SlackChannel(models.Model):
    """A channel that receives the reviews of a workflow, of a group, or all."""

    workspace = models.ForeignKey(SlackWorkspace, on_delete=models.CASCADE, related_name="channels")
    channel = models.CharField("channel ID", max_length=32)
    workflow = models.ForeignKey(
        "workflows.Workflow", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    group = models.ForeignKey(
        "auth.Group", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    kinds = ArrayField(models.CharField(max_length=12), default=list)
    # Everybody in the channel reads a shown payload, also people who may not see the run.
    show_payload = models.BooleanField(default=False)
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ("channel",)
        verbose_name = "Slack channel"
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "channel", "workflow", "group"],
                name="slack_channel_once",
                nulls_distinct=False,
            )
        ]

    def __str__(self) -> str:
        return self.channel


class SlackAccount(models.Model):
    """A Slack account that its person has linked; presses of its buttons are theirs."""

    workspace = models.ForeignKey(SlackWorkspace, on_delete=models.CASCADE, related_name="accounts")
    slack_user = models.CharField("Slack user ID", max_length=32)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    linked_at = models.DateTimeField(db_default=Now())
    # The user's `get_session_auth_hash` at that time: a new password ends the link, like sessions.
    session_hash = models.CharField(
        max_length=64, blank=True, default="", db_default="", editable=False
    )

    class Meta:
        ordering = ("-id",)
        verbose_name = "linked Slack account"
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "slack_user"], name="slack_account_of_one_person"
            ),
            models.UniqueConstraint(fields=["workspace", "user"], name="slack_account_per_person"),
        ]

    def __str__(self) -> str:
        return self.slack_user

    @property
    def is_current(self) -> bool:
        """Whether the user's password is still the one of the time of linking."""
        return constant_time_compare(self.session_hash, self.user.get_session_auth_hash())


class SlackLinkCode(models.Model):
    """The code that links a Slack account; only its digest is stored."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", primary_key=True
    )
    digest = models.CharField(max_length=64, unique=True)
    session_hash = models.CharField(max_length=64, blank=True, default="", db_default="")
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"link code of {self.user_id}"


class SlackMessage(models.Model):
    """A message about one review in a channel, or in the direct messages of one person.

    Also its own outbox: written in the transaction of the event, claimed by a sender under a lease.
    Once `ts` is set, sending means to update the message.
    """

    class Status(models.TextChoices):
        PENDING = "PENDING", "on its way"
        SENT = "SENT", "sent"
        DROPPED = "DROPPED", "nothing was left to tell"
        FAILED = "FAILED", "given up"

    workspace = models.ForeignKey(SlackWorkspace, on_delete=models.CASCADE, related_name="+")
    # The account that gets a direct message, or the channel's settings.
    account = models.ForeignKey(SlackAccount, null=True, on_delete=models.CASCADE, related_name="+")
    channel = models.ForeignKey(SlackChannel, null=True, on_delete=models.CASCADE, related_name="+")
    # Slack's ids of the conversation and of the message; "" until it is posted.
    conversation = models.CharField(max_length=32, blank=True, default="", db_default="")
    ts = models.CharField(max_length=32, blank=True, default="", db_default="")
    hold = models.ForeignKey("workflows.Hold", on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=12, choices=NoticeKind.choices)
    key = models.CharField(max_length=120)
    actor = models.CharField(max_length=150, blank=True, default="")
    detail = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.PENDING)
    # Fences senders: a claim and a refresh each raise it.
    claims = models.IntegerField(default=0, db_default=0)
    attempts = models.IntegerField(default=0, db_default=0)
    next_at = models.DateTimeField(db_default=Now())
    error = models.TextField(blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        verbose_name = "Slack message"
        constraints = [
            models.CheckConstraint(
                condition=Q(account=None, channel__isnull=False)
                | Q(account__isnull=False, channel=None),
                name="slack_message_has_one_receiver",
            ),
            models.UniqueConstraint(
                fields=["account", "key"], name="slack_message_once_for_account"
            ),
            models.UniqueConstraint(
                fields=["channel", "key"], name="slack_message_once_for_channel"
            ),
        ]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(status="PENDING"), name="slack_due"),
            models.Index(fields=["finished_at"], name="slack_finished"),
        ]

    def __str__(self) -> str:
        return f"Slack message {self.pk} {self.status}"
