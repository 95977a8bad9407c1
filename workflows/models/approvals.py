"""Approvals that outside agents ask for, and the policies of their actions."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from pydantic import ValidationError as FieldsInvalid

from workflows.common.masked_fields import MaskedTextField
from workflows.engine.plans.validation import validation_problems
from workflows.engine.policy.policies import ReviewPolicy, ReviewRules
from workflows.engine.policy.standing_terms import MAX_HOURS

#: Names of actions; a policy's pattern may end with `*`.
ACTION_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.:/@\-]{0,198}"


class ApprovalStatus(models.TextChoices):
    """The status of an approval, which follows from its execution and the reported result."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    CHANGES_REQUESTED = "changes_requested"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    FAILED = "failed"


class ApprovalPolicy(models.Model):
    """The review of actions whose name matches `pattern`; the longest match applies.

    A caller may state a stricter review, never a looser one.
    """

    class Risk(models.TextChoices):
        LOW = "low", "low"
        MEDIUM = "medium", "medium"
        HIGH = "high", "high"

    class OnTimeout(models.TextChoices):
        REJECT = "reject", "reject"
        APPROVE = "approve", "approve"
        KEEP_WAITING = "keep_waiting", "keep waiting"

    pattern = models.CharField(
        max_length=200,
        unique=True,
        validators=[
            RegexValidator(
                rf"^(\*|{ACTION_NAME}\*?)\Z", "Enter a name such as payments.transfer or payments.*"
            )
        ],
        help_text="The name of an action, or its beginning and “*”: “payments.*”. “*” is any.",
    )
    groups = ArrayField(
        models.CharField(max_length=150),
        default=list,
        help_text="Groups that decide, separated by commas.",
    )
    quorum = models.IntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(20)]
    )
    timeout_seconds = models.FloatField(
        null=True, blank=True, help_text="Seconds until the deadline; empty for none."
    )
    on_timeout = models.CharField(
        max_length=20, choices=OnTimeout.choices, default=OnTimeout.REJECT
    )
    minimum_risk = models.CharField(
        max_length=10,
        choices=Risk.choices,
        default=Risk.LOW,
        help_text="An agent cannot state a lower risk than this one.",
    )
    skip_when = models.CharField(
        max_length=2000,
        blank=True,
        default="",
        help_text="A JMESPath condition: reviews of low and medium risk are skipped where it holds,"
        " for example inputs.amount < `50`.",
    )
    sample = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text="The share (0 to 1) of skipped reviews that people still do.",
    )
    rules = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        help_text="Further rules, which are tried in their order after the one above:"
        ' [{"name": "small", "skip_when": "inputs.amount < `50`", "sample": 0.1}].',
    )
    # Raised with each change of the rules; skipped reviews name it.
    rules_version = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    max_change_requests = models.IntegerField(
        default=3, validators=[MinValueValidator(0), MaxValueValidator(20)]
    )
    instructions = MaskedTextField(
        blank=True, default="", help_text="Shown to reviewers, above the instructions of the agent."
    )
    calendar = models.ForeignKey(
        "workflows.BusinessCalendar",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Seconds count in its business hours; empty for the default calendar.",
    )
    allows_standing_answers = models.BooleanField(
        default=False,
        help_text="A reviewer may approve later, similar actions of the same agent for a time.",
    )
    standing_max_hours = models.PositiveSmallIntegerField(
        "longest standing answer",
        default=8,
        db_default=8,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_HOURS)],
        help_text="Hours. A shorter time also ends standing answers that were given before.",
    )
    standing_high_risk = models.BooleanField(
        "standing answers for high risk",
        default=False,
        db_default=False,
        help_text="Standing answers may cover actions of high risk.",
    )
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ("pattern",)
        verbose_name = "approval policy"
        verbose_name_plural = "approval policies"

    def __str__(self) -> str:
        return self.pattern

    def clean(self) -> None:
        try:
            self.review_rules()
        except FieldsInvalid as invalid:
            raise ValidationError(
                {"rules": [f"{each.path}: {each.message}" for each in validation_problems(invalid)]}
            ) from None
        try:
            self.review()
        except FieldsInvalid as invalid:
            problems: dict[str, list[str]] = {}
            for each in invalid.errors(include_url=False, include_context=False):
                name = str(each["loc"][0]) if each["loc"] else ""
                field = name if name in _REVIEW_FIELDS else "__all__"
                problems.setdefault(field, []).append(each["msg"])
            raise ValidationError(problems) from None

    def review_rules(self) -> ReviewRules:
        """Return the further rules; raises pydantic.ValidationError."""
        return ReviewRules.model_validate({"version": self.rules_version, "rules": self.rules})

    def review(self) -> ReviewPolicy:
        """Return the review of a matching action; raises pydantic.ValidationError."""
        return ReviewPolicy.model_validate(
            {
                "groups": self.groups or ["reviewer"],
                "quorum": self.quorum,
                "timeout_seconds": self.timeout_seconds,
                "on_timeout": self.on_timeout,
                "skip_when": self.skip_when or None,
                "sample": self.sample,
                "max_change_requests": self.max_change_requests,
                "instructions": self.instructions,
            }
        )


_REVIEW_FIELDS = frozenset(
    {
        "groups",
        "quorum",
        "timeout_seconds",
        "on_timeout",
        "skip_when",
        "sample",
        "max_change_requests",
        "instructions",
    }
)


class Approval(models.Model):
    """An action that an outside agent asked approval for.

    Its execution has one task, the action.  The status of the approval follows from the execution
    and the reported result, see `workflows.approvals.selectors`.
    """

    execution = models.OneToOneField(
        "workflows.Execution", on_delete=models.PROTECT, related_name="approval"
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    #: The token that asked; null for a session.
    token = models.ForeignKey(
        "workflows.ApiToken", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # Digest of the token and the Idempotency-Key, and of the body; "" without a key.
    key_digest = models.CharField(max_length=64, blank=True, default="")
    body_digest = models.CharField(max_length=64, blank=True, default="")
    action = models.CharField(max_length=200)
    title = models.CharField(max_length=200, blank=True, default="")
    phase = models.CharField(max_length=20)
    risk = models.CharField(max_length=10, choices=ApprovalPolicy.Risk.choices)
    # The pattern of the policy that applied; "" if there was none.
    policy = models.CharField(max_length=200, blank=True, default="")
    agent = models.CharField(max_length=200, blank=True, default="")
    session = models.CharField(max_length=200, blank=True, default="")
    url = models.CharField(max_length=2000, blank=True, default="")
    # Markdown for reviewers.
    context = models.TextField(blank=True, default="")
    callback_url = models.CharField(max_length=2000, blank=True, default="")
    #: Input that an MCP server asks for during a call through a gate: only the gate ends it.
    is_question = models.BooleanField(default=False)
    arguments_digest = models.CharField(max_length=64)
    #: Until when a program waits for the decision, as it said last; null if it says nothing.
    awaited_until = models.DateTimeField(null=True)
    # The result that the caller reported; `result_ok` is null until then.
    result_ok = models.BooleanField(null=True)
    result_output = models.JSONField(null=True)
    result_error = models.TextField(blank=True, default="")
    # The executed arguments; null if the caller stated only their digest, or nothing.
    result_arguments = models.JSONField(null=True)
    result_mismatch = models.BooleanField(default=False)
    result_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["owner", "-id"], name="approval_by_owner")]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "key_digest"],
                condition=~Q(key_digest=""),
                name="approval_key_once",
            )
        ]

    def __str__(self) -> str:
        return self.title or self.action
