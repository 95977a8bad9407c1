"""Rows and constraints, no behaviour.

Only workflows.journal.writer writes executions and their rows.  Status pairs, the
growth of the version and the append-only tables are guarded by triggers as well (migration 0002).
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.secret_encryption import SealedTexts
from workflows.engine.policy import TriggerPhase
from workflows.engine.state import HoldReason, SkipReason
from workflows.engine.status import ExecutionStatus, TaskStatus

from . import operations, review_rules
from .operations import ApiToken as ApiToken
from .operations import CommandLog as CommandLog
from .operations import IdempotencyKey as IdempotencyKey
from .operations import LearningAttempt as LearningAttempt
from .operations import QueuedCommand as QueuedCommand
from .operations import SignInAlert as SignInAlert
from .operations import UnknownTokens as UnknownTokens
from .speculation import Speculation as Speculation
from .visibility import Audience as Audience
from .visibility import ExecutionWords as ExecutionWords
from .visibility import Shaper as Shaper
from .visibility import Waiting as Waiting

#: Django finds an app's rows through this module.
ALSO_HERE = (operations, review_rules)
_LIVE = (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)
#: Events that change what the queue or the list of runs shows.
QUEUE_KINDS = (
    "execution_started", "hold_opened", "hold_voted", "hold_answered", "hold_withdrawn",
    "hold_decided", "hold_expired",
    "hold_extended", "hold_escalated", "execution_completed", "execution_failed",
    "execution_aborted",
)  # fmt: skip
#: Statuses of executions that have not ended.
UNDER_WAY = tuple(each.value for each in ExecutionStatus if not each.is_final)


def _choices(enum: type[Any]) -> list[tuple[str, str]]:
    return [(member.value, member.value) for member in enum]


class Workflow(models.Model):
    """A named definition: a plan, the policy around it and the inputs it asks for."""

    name = models.SlugField(max_length=100, unique=True)
    title = models.CharField(max_length=200)
    description = models.TextField(blank=True, default="")
    plan = models.JSONField()
    policy = models.JSONField(blank=True, default=dict)
    inputs_schema = models.JSONField(blank=True, default=dict)
    default_inputs = models.JSONField(blank=True, default=dict)
    enabled = models.BooleanField(default=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("title",)

    def __str__(self) -> str:
        return self.title


class McpServer(models.Model):
    """An MCP server whose tools the catalogue offers as `name.tool`."""

    class Transport(models.TextChoices):
        STDIO = "stdio", "stdio"
        HTTP = "http", "streamable HTTP"

    name = models.SlugField(max_length=60, unique=True)
    transport = models.CharField(max_length=10, choices=Transport.choices, default=Transport.STDIO)
    command = models.CharField(max_length=500, blank=True, default="")
    args = models.JSONField(blank=True, default=list)
    env = SealedTexts(blank=True, default=dict)
    url = models.URLField(max_length=500, blank=True, default="")
    headers = SealedTexts(blank=True, default=dict)
    enabled = models.BooleanField(default=True)
    synced_at = models.DateTimeField(null=True, blank=True, editable=False)
    sync_error = models.TextField(blank=True, default="", editable=False)

    class Meta:
        ordering = ("name",)
        verbose_name = "MCP server"

    def __str__(self) -> str:
        return self.name


class Execution(models.Model):
    """One run of a plan: its control state, its version, and who holds the lease."""

    workflow = models.ForeignKey(
        Workflow,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="executions",
        db_index=False,  # execution_by_workflow begins with it
    )
    title = models.CharField(max_length=200)
    status = models.CharField(
        max_length=20, choices=_choices(ExecutionStatus), default=ExecutionStatus.PENDING
    )
    version = models.BigIntegerField(default=0, db_default=0)
    revision = models.IntegerField(default=1, db_default=1)
    layer = models.IntegerField(default=-1, db_default=-1)
    total_layers = models.IntegerField(default=0, db_default=0)
    state = models.JSONField(default=dict)
    inputs = models.JSONField(default=dict)
    context = models.JSONField(default=dict)
    policy = models.JSONField(default=dict)
    # Where the starter's policy differs from the workflow's: field, from, to, loosens, by.
    policy_overrides = models.JSONField(default=list, db_default=[])
    error = models.TextField(default="", blank=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="forks")
    forked_at_layer = models.IntegerField(null=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, "+", null=True, db_index=False
    )
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    # A worker's claim.  `fence` grows with every claim: an older holder's writes land nowhere.
    lease_owner = models.CharField(max_length=100, default="", db_default="")
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0, db_default=0)
    # Claims in a row that were lost before a step was recorded. A lease that lapsed counts once
    # the next claim, or the sweeper, finds it.
    lost_claims = models.IntegerField(default=0, db_default=0)
    # When there is work again (a retry's backoff); null means at once.
    wake_at = models.DateTimeField(null=True)
    dispatched_at = models.DateTimeField(db_default=Now())
    queued_commands = models.IntegerField(default=0, db_default=0)
    abort_requested = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ("-id",)
        permissions = [("loosen_policy", "Can start runs with a looser policy than asked for")]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=[status.value for status in ExecutionStatus]),
                name="execution_known_status",
            ),
        ]
        indexes = [
            models.Index(
                fields=["dispatched_at"],
                condition=Q(status__in=[each.value for each in _LIVE]) | Q(queued_commands__gt=0),
                name="execution_outbox",
            ),
            models.Index(fields=["created_by", "-id"], name="execution_by_creator"),
            models.Index(fields=["status", "-id"], name="execution_by_status"),
            models.Index(fields=["workflow", "-id"], name="execution_by_workflow"),
            # Ended runs by when they ended, the others together: no step of a run moves an entry.
            models.Index(fields=["finished_at", "id"], name="execution_by_end"),
            models.Index(
                fields=["created_by"],
                condition=Q(status__in=UNDER_WAY),
                name="execution_live_by_creator",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title} #{self.pk}"


class PlanRevision(models.Model):
    """A plan as it stood, with the layers it is run in.  Never changed."""

    execution = models.ForeignKey(Execution, models.PROTECT, "revisions", db_index=False)
    number = models.IntegerField()
    plan = models.JSONField()
    layers = models.JSONField()
    cause = models.CharField(max_length=20, default="start")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "number"], name="revision_number_once"),
        ]
        ordering = ("number",)

    def __str__(self) -> str:
        return f"revision {self.number}"


class ExecutionEvent(models.Model):
    """A recorded fact.  `seq` is contiguous per execution; rows are append-only."""

    execution = models.ForeignKey(Execution, models.PROTECT, "events", db_index=False)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    payload = models.JSONField()
    actor = models.CharField(max_length=150, default="", blank=True)
    source = models.CharField(max_length=20, default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "seq"], name="event_seq_once"),
        ]
        indexes = [
            models.Index(
                fields=["-id"], condition=Q(kind="review_spared"), name="event_review_spared"
            ),
            models.Index(
                fields=["created_at"],
                condition=Q(kind__in=QUEUE_KINDS),
                name="event_of_queue_by_time",
            ),
        ]
        ordering = ("execution_id", "seq")

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"


class TaskAttempt(models.Model):
    """One recorded try of a task: what it was given, what came of it."""

    execution = models.ForeignKey(Execution, models.PROTECT, "attempts", db_index=False)
    task_id = models.CharField(max_length=64)
    attempt = models.IntegerField()
    layer = models.IntegerField()
    revision = models.IntegerField()
    status = models.CharField(max_length=10, choices=_choices(TaskStatus))
    skip_reason = models.CharField(
        max_length=20, default="", blank=True, choices=_choices(SkipReason)
    )
    # False for a failed try that will be repeated.
    settled = models.BooleanField()
    inputs = models.JSONField(null=True)
    output = models.JSONField(null=True)
    # What a reviewer made of the output; later tasks read this one when it is set.
    edited_output = models.JSONField(null=True)
    is_edited = models.BooleanField(default=False, db_default=False)
    error = models.TextField(default="", blank=True)
    logs = models.TextField(default="", blank=True)
    duration_ms = models.FloatField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["execution", "task_id", "attempt"], name="attempt_recorded_once"
            ),
            models.UniqueConstraint(
                fields=["execution", "task_id"],
                condition=Q(settled=True),
                name="task_settled_once",
            ),
        ]
        ordering = ("layer", "task_id", "attempt")

    def __str__(self) -> str:
        return f"{self.task_id} try {self.attempt}"


class Hold(models.Model):
    """A decision point, open until somebody (or time) decides it."""

    class Status(models.TextChoices):
        OPEN = "OPEN", "open"
        APPROVED = "APPROVED", "approved"
        REJECTED = "REJECTED", "rejected"
        RETURNED = "RETURNED", "sent back with changes to make"
        CLOSED = "CLOSED", "closed with its run"

    id = models.CharField(max_length=40, primary_key=True)
    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="holds")
    task_id = models.CharField(max_length=64, default="", blank=True)
    reason = models.CharField(max_length=20, choices=_choices(HoldReason))
    decider = models.CharField(max_length=10, choices=[("human", "human"), ("agent", "agent")])
    phase = models.CharField(max_length=20, default="", blank=True, choices=_choices(TriggerPhase))
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    layer = models.IntegerField()
    payload = models.JSONField(null=True)
    groups = ArrayField(models.CharField(max_length=150), default=list)
    target = models.CharField(max_length=200, default="", blank=True)
    why = models.TextField(default="", blank=True)
    instructions = models.TextField(default="", blank=True)
    critical = models.BooleanField(default=False)
    quorum = models.IntegerField(default=1)
    approvals = ArrayField(models.CharField(max_length=150), default=list)
    on_reject = models.CharField(max_length=10, default="abort")
    on_timeout = models.CharField(max_length=15, default="keep_waiting")
    opened_seq = models.BigIntegerField()
    opened_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    # Seconds after the opening; how many were given, and when the next one is due.
    reminders = models.JSONField(default=list, db_default=[])
    reminded = models.IntegerField(default=0, db_default=0)
    reminds_at = models.DateTimeField(null=True)
    # Steps as in the policy: {"after_seconds", "groups", "tell"}.
    escalation = models.JSONField(default=list, db_default=[])
    escalated = models.IntegerField(default=0, db_default=0)
    escalates_at = models.DateTimeField(null=True)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.CharField(max_length=150, default="", blank=True)
    decision = models.CharField(max_length=20, default="", blank=True)
    # Which review of this task's output it is; `previous` is the one that asked for changes.
    round = models.IntegerField(default=1, db_default=1)
    previous = models.OneToOneField(
        "self", null=True, on_delete=models.PROTECT, related_name="following"
    )
    # How often changes can still be requested, this review included.
    changes_left = models.IntegerField(default=0, db_default=0)
    # Set while a decision can be taken back: it is carried out after this, and not before.
    undo_until = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["undo_until"],
                condition=Q(undo_until__isnull=False),
                name="hold_answered_by_time",
            ),
            models.Index(
                fields=["opened_at", "id"], condition=Q(status="OPEN"), name="hold_open_by_age"
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(status="OPEN", expires_at__isnull=False),
                name="hold_open_by_deadline",
            ),
            models.Index(
                fields=["reminds_at"],
                condition=Q(status="OPEN", reminds_at__isnull=False),
                name="hold_open_by_reminder",
            ),
            models.Index(
                fields=["escalates_at"],
                condition=Q(status="OPEN", escalates_at__isnull=False),
                name="hold_open_by_step",
            ),
            models.Index(
                fields=["opened_at", "id"],
                include=["execution"],
                condition=Q(status="OPEN", decider="human"),
                name="hold_for_people_by_age",
            ),
            models.Index(
                fields=["id"],
                condition=Q(status="OPEN") & ~Q(approvals=[]),
                name="hold_open_half_approved",
            ),
            models.Index(
                fields=["-decided_at", "-id"],
                condition=Q(status__in=["APPROVED", "REJECTED", "RETURNED"], decider="human"),
                name="hold_decided_by_time",
            ),
        ]
        ordering = ("opened_at", "id")

    def __str__(self) -> str:
        return self.id


class Capability(models.Model):
    """Code that has proven itself, kept under a name and usable as a task.

    Code, language, schemas and `permission_set` never change; what people grant to the capability
    on top stands in the ledger (Grant).
    """

    class Language(models.TextChoices):
        PYTHON = "python", "Python"
        TYPESCRIPT = "typescript", "TypeScript"
        JAVASCRIPT = "javascript", "JavaScript"

    class ApprovalMode(models.TextChoices):
        ASK = "ask", "a person approves each use"
        AUTO = "auto", "runs by itself"

    name = models.SlugField(max_length=100, unique=True)
    description = models.TextField(blank=True, default="")
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

    def __str__(self) -> str:
        return self.name


class ExecutionReceipt(models.Model):
    """What really ran after a person approved it; append-only, and chained by hash.

    The journal writes it in the step that records the attempt (a review before the task: `digest`
    is that of the inputs the task got) or that closes the layer (a review of the output: `digest`
    is that of the output later tasks read).  A trigger of the reviews app fills the columns from
    `sequence` on, so the row is linked to the record of the decision by that record's hash.
    """

    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="receipts")
    hold = models.ForeignKey(
        Hold, on_delete=models.PROTECT, related_name="receipts", db_index=False
    )
    task_id = models.CharField(max_length=64)
    attempt = models.IntegerField()
    phase = models.CharField(max_length=20, choices=_choices(TriggerPhase))
    digest = models.CharField(max_length=64)
    sequence = models.BigIntegerField(unique=True)
    executed_at = models.DateTimeField()
    decision_hash = models.CharField(max_length=64, db_index=True)
    canonical = models.TextField()
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ("sequence",)
        constraints = [
            models.UniqueConstraint(fields=["hold", "attempt"], name="receipt_once_per_attempt"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} try {self.attempt}: {self.digest[:12]}"


class Grant(models.Model):
    """One permission that a person gave: the ledger.

    Written by the journal in the step that decides the escalation.  A task may use it while it is
    neither revoked nor expired, and never beyond its scope.
    """

    class Scope(models.TextChoices):
        TASK = "task", "this task"
        EXECUTION = "execution", "this run"
        CAPABILITY = "capability", "this capability"
        UNTIL = "until", "this task in every run of its workflow, until a time"

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
    # Digest of what asked (its code, its tool, its capability): other work does not inherit it.
    subject = models.CharField(max_length=64)
    operation = models.CharField(max_length=20)
    resource = models.TextField()
    # A PermissionSet as JSON: what was asked for and nothing else.
    permissions = models.JSONField()
    granted_by = models.CharField(max_length=150)
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
                condition=Q(expires_at__isnull=False) | ~Q(scope="until"),
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
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.resource}"


class Checkpoint(models.Model):
    """A bookmark at the end of a layer: version, layer and context, no copy of anything else."""

    execution = models.ForeignKey(Execution, models.PROTECT, "checkpoints", db_index=False)
    layer = models.IntegerField()
    version = models.BigIntegerField()
    revision = models.IntegerField()
    context = models.JSONField()
    state = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "layer"], name="checkpoint_layer_once"),
        ]
        ordering = ("-layer",)

    def __str__(self) -> str:
        return f"after layer {self.layer + 1}"
