"""MCP gates: which tools of MCP servers agents may call, and the calls they made."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.masked_fields import MaskedTextField


class GatePolicy(models.TextChoices):
    """What happens to a call of a tool."""

    ALLOW = "allow", "allow"
    HOLD = "hold", "hold for a person"
    DENY = "deny", "deny"


class Gate(models.Model):
    """An MCP endpoint, `/mcp/gate/<name>/`, that offers the tools of some MCP servers."""

    name = models.SlugField(max_length=60, unique=True, help_text="Part of the gate's address.")
    description = MaskedTextField(blank=True, default="", help_text="For people.")
    servers = models.ManyToManyField("workflows.McpServer", related_name="gates")
    groups = models.ManyToManyField(
        "auth.Group",
        blank=True,
        related_name="+",
        help_text="Whose tokens may use the gate; empty for everybody who may start runs.",
    )
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ("name",)
        verbose_name = "MCP gate"

    def __str__(self) -> str:
        return self.name


class GateTool(models.Model):
    """The policy of one tool of a gate; tools without one have the default policy."""

    gate = models.ForeignKey(Gate, on_delete=models.CASCADE, related_name="tools")
    tool = models.CharField(max_length=200, help_text="The tool as server.tool.")
    policy = models.CharField(max_length=10, choices=GatePolicy.choices)

    class Meta:
        ordering = ("tool",)
        verbose_name = "tool policy"
        verbose_name_plural = "tool policies"
        constraints = [models.UniqueConstraint(fields=["gate", "tool"], name="gate_tool_once")]

    def __str__(self) -> str:
        return f"{self.tool}: {self.policy}"

    def clean(self) -> None:
        server, dot, tool = self.tool.partition(".")
        if not (server and dot and tool):
            raise ValidationError({"tool": "Enter the tool as server.tool."})


class GateCall(models.Model):
    """One call through a gate: who asked for what, what was sent, and what was answered.

    `sent_at` is stored before the call is sent, so no call is sent twice.  A held call is open
    until its answer was delivered; the same call of the same token continues it.
    """

    class Outcome(models.TextChoices):
        ANSWERED = "answered", "answered"
        TOOL_ERROR = "tool_error", "the tool reported an error"
        ERROR = "error", "the server refused the request"
        NOT_SENT = "not_sent", "not sent"
        UNKNOWN = "unknown", "unknown"
        DENIED = "denied", "denied"

    #: The id that agents get; it cannot be guessed.
    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    gate = models.ForeignKey(Gate, on_delete=models.PROTECT, related_name="calls")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    token = models.ForeignKey(
        "workflows.ApiToken", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # The name that the client states; it is not verified.
    client = models.CharField(max_length=200, blank=True, default="")
    tool = models.CharField(max_length=200)
    policy = models.CharField(max_length=10, choices=GatePolicy.choices)
    arguments_digest = models.CharField(max_length=64)
    # JSON texts of the arguments that the agent gave and of the server's answer; "" where only the
    # digest is kept, and for the answer of a held call that its approval has.
    arguments = models.TextField(blank=True, default="", db_default="", editable=False)
    answer = models.TextField(blank=True, default="", db_default="", editable=False)
    approval = models.OneToOneField(
        "workflows.Approval", null=True, on_delete=models.PROTECT, related_name="gate_call"
    )
    created_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True)
    # Digest of the arguments that the server got.
    sent_digest = models.CharField(max_length=64, blank=True, default="")
    # When the server could not be reached last; the call may be sent again.
    not_sent_at = models.DateTimeField(null=True)
    # When the call was over: answered, lost, or cancelled before it was sent.
    answered_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, blank=True, default="")
    answer_digest = models.CharField(max_length=64, blank=True, default="")
    error = models.TextField(blank=True, default="")
    # A held call whose answer was delivered is closed.
    closed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        verbose_name = "gate call"
        indexes = [
            models.Index(
                fields=["sent_at"],
                condition=Q(sent_at__isnull=False, answered_at=None),
                name="gate_call_sent",
            ),
            models.Index(fields=["created_at"], name="gate_call_by_age"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["gate", "token", "tool", "arguments_digest"],
                condition=Q(policy="hold", closed_at=None),
                name="gate_call_open_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool} ({self.uid})"

    @property
    def session(self) -> str:
        """The session of the approvals by which people answer the server during the call."""
        return f"gate call {self.uid}"
