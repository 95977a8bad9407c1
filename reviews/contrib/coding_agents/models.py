"""Calls of tools that the hooks of coding agents ask about."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class HookCall(models.Model):
    """A call of a tool that the hook of a coding agent asks about; equal calls share an approval.

    `approval` is None for a call whose hook stopped waiting before its request arrived.
    """

    # Digest of the person, the token and the id of the call, and of the request.
    key_digest = models.CharField(max_length=64, unique=True)
    body_digest = models.CharField(max_length=64, blank=True, default="")
    approval = models.ForeignKey(
        "workflows.Approval", null=True, on_delete=models.CASCADE, related_name="hook_calls"
    )
    waits_until = models.DateTimeField()
    #: The hook was answered that the call may run.
    is_allowed = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["approval"], condition=Q(is_allowed=True), name="hook_call_allowed_once"
            )
        ]

    def __str__(self) -> str:
        return f"call {self.pk} of approval {self.approval_id}"
