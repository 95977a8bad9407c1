"""Capabilities and the permissions that people granted."""

from __future__ import annotations

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.guards import IS_OWNER, ReadOnly, Refuse
from workflows.common.masked_fields import MaskedTextField

from .executions import Execution
from .holds import Hold
from .workflows import Workflow


class Capability(models.Model):
    """Code of a task that succeeded, stored under a name and usable as a task.

    Code, language, schemas and `permission_set` never change.  Permissions that people grant to
    the capability are Grant rows.
    """

    class Language(models.TextChoices):
        PYTHON = "python", "Python"
        TYPESCRIPT = "typescript", "TypeScript"
        JAVASCRIPT = "javascript", "JavaScript"

    class ApprovalMode(models.TextChoices):
        ASK = "ask", "a person approves each use"
        AUTO = "auto", "runs by itself"

    name = models.SlugField(max_length=100, unique=True)
    description = MaskedTextField(blank=True, default="")
    language = models.CharField(max_length=10, choices=Language.choices)
    code = models.TextField()
    input_schema = models.JSONField(default=dict)
    output_schema = models.JSONField(null=True, blank=True)
    # A PermissionSet as JSON.
    permission_set = models.JSONField(default=dict)
    approval_mode = models.CharField(
        max_length=4, choices=ApprovalMode.choices, default=ApprovalMode.ASK
    )
    enabled = models.BooleanField(default=True)
    success_count = models.BigIntegerField(default=0, db_default=0)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    from_execution = models.ForeignKey(
        Execution, null=True, on_delete=models.PROTECT, related_name="capabilities"
    )
    from_task = models.CharField(max_length=64, default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("name",)
        verbose_name_plural = "capabilities"
        triggers = [
            ReadOnly(
                fields=[
                    *("name", "language", "code"),
                    *("input_schema", "output_schema", "permission_set"),
                ],
                message="the code and the permissions of a capability never change",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Grant(models.Model):
    """A permission that a person granted, or a standing answer.

    The journal writes it in the step that decides the hold.  A task within its scope may use it
    while it is neither revoked nor expired.

    A standing answer covers later actions with the name `resource`, asked with the same token of
    the same person for the same agent; `arguments` has the rules for those that may differ, see
    `workflows.engine.policy.standing_terms`.
    """

    class Scope(models.TextChoices):
        TASK = "task", "this task"
        EXECUTION = "execution", "this run"
        CAPABILITY = "capability", "this capability"
        UNTIL = "until", "this task in every run of its workflow, until a time"
        STANDING = "standing", "this action of the same agent, until a time"

    scope = models.CharField(max_length=10, choices=Scope.choices)
    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="grants")
    hold = models.OneToOneField(Hold, on_delete=models.PROTECT, related_name="grant")
    task_id = models.CharField(max_length=64)
    workflow = models.ForeignKey(
        Workflow, null=True, blank=True, on_delete=models.PROTECT, related_name="grants"
    )
    capability = models.ForeignKey(
        Capability, null=True, blank=True, on_delete=models.PROTECT, related_name="grants"
    )
    # Digest of the code, tool or capability that requested it, which other tasks do not share.
    subject = models.CharField(max_length=64)
    operation = models.CharField(max_length=20)
    resource = models.TextField()
    # The requested PermissionSet as JSON; empty for a standing answer.
    permissions = models.JSONField()
    # Rules of a standing answer by the name of the argument; null for other grants.
    arguments = models.JSONField(null=True, blank=True)
    # How many actions a standing answer covers, and the sums of its limited arguments so far.
    max_uses = models.IntegerField(null=True, blank=True)
    sums = models.JSONField(default=dict, db_default={}, blank=True)
    # The name at that time, and the user.
    granted_by = models.CharField(max_length=150)
    granted_by_id = models.BigIntegerField(null=True)
    why = models.TextField(default="", blank=True)
    granted_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    uses = models.BigIntegerField(default=0, db_default=0)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=150, default="", blank=True, db_default="")

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at__isnull=False) | ~Q(scope__in=("until", "standing")),
                name="grant_until_has_an_end",
            ),
            models.CheckConstraint(
                condition=Q(capability__isnull=False) | ~Q(scope="capability"),
                name="grant_names_its_capability",
            ),
        ]
        indexes = [
            models.Index(
                fields=["execution"], condition=Q(revoked_at=None), name="grant_of_execution"
            ),
            models.Index(
                fields=["workflow", "task_id"],
                condition=Q(revoked_at=None, scope="until"),
                name="grant_until_by_task",
            ),
            models.Index(
                fields=["capability"],
                condition=Q(revoked_at=None, scope="capability"),
                name="grant_of_capability",
            ),
            models.Index(
                fields=["resource"],
                condition=Q(revoked_at=None, scope="standing"),
                name="grant_standing_by_action",
            ),
        ]
        triggers = [
            Refuse(
                name="no_delete",
                operation=pgtrigger.Delete,
                message="a grant is revoked, not deleted",
            ),
            ReadOnly(
                exclude=["uses", "last_used_at", "revoked_at", "revoked_by", "sums", "why"],
                message="a grant can be used and revoked, nothing else",
            ),
            ReadOnly(
                name="reason_stays",
                fields=["why"],
                unless=f"NEW.why = '' AND {IS_OWNER}",
                message="only retention empties the reason of a grant",
            ),
            Refuse(
                name="uses_grow",
                operation=pgtrigger.Update,
                condition=pgtrigger.Q(new__uses__lt=pgtrigger.F("old__uses")),
                message="the uses of a grant only grow",
            ),
            ReadOnly(
                name="revoked_once",
                fields=["revoked_at", "revoked_by"],
                unless="OLD.revoked_at IS NULL",
                message="a grant is revoked once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.resource}"
